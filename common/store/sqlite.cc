#include "common/store/sqlite.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace warpsmith::store {

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    absl::Status error = SqliteError(db, absl::StrCat("opening ", path));
    sqlite3_close(db);
    return error;
  }
  return std::unique_ptr<Database>(new Database(db));
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

sqlite3_stmt* Database::Take(const char* sql) {
  const auto found = idle_.find(std::string_view(sql));
  if (found != idle_.end()) {
    sqlite3_stmt* const statement = found->second;
    idle_.erase(found);
    return statement;
  }
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return statement;
}

void Database::GiveBack(const char* sql, sqlite3_stmt* statement) {
  if (statement == nullptr) return;
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);  // what they point to goes
  idle_.emplace(sql, statement);
}

absl::Status SqliteError(sqlite3* db, const std::string& what) {
  const std::string message =
      absl::StrCat("SQLite, ", what, ": ", db == nullptr ? "out of memory" : sqlite3_errmsg(db));
  const int code = db == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db);
  if (code == SQLITE_FULL) {
    return absl::UnavailableError(absl::StrCat(message, "; free some space on the disk"));
  }
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) return absl::UnavailableError(message);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return absl::DataLossError(message);
  if (code == SQLITE_READONLY || code == SQLITE_PERM || code == SQLITE_CANTOPEN) {
    return absl::PermissionDeniedError(
        absl::StrCat(message, "; make the folder writable, or use another --dir"));
  }
  return absl::InternalError(message);
}

absl::Status Execute(Database* db, const char* sql, const char* what) {
  if (sqlite3_exec(db->handle(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return SqliteError(db->handle(), what);
  }
  return absl::OkStatus();
}

absl::Status Steps(const std::vector<std::function<absl::Status()>>& steps) {
  for (const auto& step : steps) {
    if (absl::Status status = step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> QueryInt(Database* db, const char* sql) {
  Statement statement(db, sql);
  absl::StatusOr<bool> row = statement.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(absl::StrCat("SQLite, no row for: ", sql));
  return statement.Int(0);
}

absl::StatusOr<int64_t> Meta(Database* db, const char* name) {
  Statement statement(db, "SELECT value FROM meta WHERE name = ?");
  absl::StatusOr<bool> row = statement.Text(1, name).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(absl::StrCat("SQLite, meta has no '", name, "'"));
  return statement.Int(0);
}

absl::Status SetMeta(Database* db, const char* name, int64_t value) {
  Statement statement(db, "UPDATE meta SET value = ? WHERE name = ?");
  return statement.Int(1, value).Text(2, name).Run();
}

absl::Status AddToMeta(Database* db, const char* name, int64_t value) {
  Statement statement(db, "UPDATE meta SET value = value + ? WHERE name = ?");
  return statement.Int(1, value).Text(2, name).Run();
}

absl::StatusOr<int64_t> SchemaOf(Database* db, const char* otherwise) {
  absl::StatusOr<int64_t> schema = Meta(db, "schema");
  if (!schema.ok() || (*schema >= kOldestSchema && *schema <= kSchemaVersion)) return schema;
  if (*schema == kFirstSchema) {
    return absl::FailedPreconditionError(
        "it has schema 1, of the first planners: `warpsmith upgrade finish` makes a store of this "
        "version of it, and keeps what was there");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("it has schema ", *schema, ", this program knows ", kOldestSchema, " to ",
                   kSchemaVersion, ": use the version of Warpsmith that wrote it", otherwise));
}

}  // namespace warpsmith::store
