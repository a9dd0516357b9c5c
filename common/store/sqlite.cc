#include "common/store/sqlite.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::store {

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

absl::Status Execute(sqlite3* db, const char* sql, const char* what) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return SqliteError(db, what);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> QueryInt(sqlite3* db, const char* sql) {
  Statement statement(db, sql);
  absl::StatusOr<bool> row = statement.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(absl::StrCat("SQLite, no row for: ", sql));
  return statement.Int(0);
}

absl::StatusOr<int64_t> Meta(sqlite3* db, const char* name) {
  Statement statement(db, "SELECT value FROM meta WHERE name = ?");
  absl::StatusOr<bool> row = statement.Text(1, name).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(absl::StrCat("SQLite, meta has no '", name, "'"));
  return statement.Int(0);
}

absl::Status SetMeta(sqlite3* db, const char* name, int64_t value) {
  Statement statement(db, "UPDATE meta SET value = ? WHERE name = ?");
  return statement.Int(1, value).Text(2, name).Run();
}

absl::Status AddToMeta(sqlite3* db, const char* name, int64_t value) {
  Statement statement(db, "UPDATE meta SET value = value + ? WHERE name = ?");
  return statement.Int(1, value).Text(2, name).Run();
}

absl::StatusOr<sqlite3*> Connect(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    absl::Status error = SqliteError(db, absl::StrCat("opening ", path));
    sqlite3_close(db);
    return error;
  }
  return db;
}

}  // namespace warpsmith::store
