// SQLite, as a database's file is used here: statements, errors that say what to do, the tables.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpsmith::store {

inline constexpr char kDatabase[] = "warpsmith.db";
// What a program must know to read a database. One of a version before is read and written as it
// is, so that that version can be gone back to, until FinishUpgrade (renew.h).
inline constexpr int kSchemaVersion = 4;
inline constexpr int kOldestSchema = 2;
inline constexpr int kFirstSchema = 1;  // is moved forward, never used as it is (MoveForward)
inline constexpr int kArchiveSchemaFrom = 3;
inline constexpr int kBulkSchemaFrom = 4;
// Before anything else of a new database, an old one's stay as they are. Each commit writes pages
// of several indices, whole, and what is large lies elsewhere: small ones.
inline constexpr char kNewPages[] = "PRAGMA page_size=4096";

// Numbers of meta:
//   epoch, store (the id, as a number), generation
//   last, last_sum               the log's end: revision, and checksum of all up to there
//   first, first_sum             the same of the event before the first that is kept
//   checkpoint, checkpoint_rows  revision of the checkpoint, its entries
//   checkpoint_sum               and the sum of their checksums
//   facts, facts_bytes, facts_forgotten
//   archive_rows                 its entries; from schema 3 on
//   blobs_file, blobs_end, facts_file, facts_end
//                                how far the bulk files reach (bulk.h); from schema 4 on
inline constexpr char kSchema[] = R"sql(
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
  revision INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, sum INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE checkpoint (key TEXT NOT NULL UNIQUE, sum INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE blobs (digest TEXT NOT NULL UNIQUE, bytes BLOB NOT NULL);
CREATE TABLE facts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, subject TEXT NOT NULL, name TEXT NOT NULL,
  sum INTEGER NOT NULL, bytes INTEGER NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL);
CREATE INDEX facts_of ON facts (subject, number);
INSERT INTO meta VALUES ('schema', 4), ('epoch', 0), ('generation', 1), ('last', 0), ('last_sum', 0),
  ('first', 0), ('first_sum', 0), ('checkpoint', 0), ('checkpoint_rows', 0), ('checkpoint_sum', 0),
  ('facts', 0), ('facts_bytes', 0), ('facts_forgotten', 0);
)sql";

// What schema 3 has beside schema 2.
inline constexpr char kArchiveSchema[] = R"sql(
CREATE TABLE archive (key TEXT NOT NULL UNIQUE, sum INTEGER NOT NULL, bytes BLOB NOT NULL);
INSERT INTO meta VALUES ('archive_rows', 0);
)sql";

// What schema 4 has beside schema 3: where a blob's or a body's bytes lie in bulk files, if they do
// not stand in the row itself.
inline constexpr char kBulkSchema[] = R"sql(
ALTER TABLE blobs ADD COLUMN file INTEGER;
ALTER TABLE blobs ADD COLUMN place INTEGER;
ALTER TABLE blobs ADD COLUMN size INTEGER;
ALTER TABLE facts ADD COLUMN file INTEGER;
ALTER TABLE facts ADD COLUMN place INTEGER;
ALTER TABLE facts ADD COLUMN size INTEGER;
INSERT INTO meta VALUES ('blobs_file', 1), ('blobs_end', 0), ('facts_file', 1), ('facts_end', 0);
)sql";

// A connection, with the statements that were prepared on it and are not in use: each is prepared
// once. One thread at a time.
class Database {
 public:
  // The error is SqliteError's.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, int flags);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  sqlite3* handle() const { return handle_; }

 private:
  friend class Statement;

  explicit Database(sqlite3* handle) : handle_(handle) {}
  // Null: `sql` cannot be prepared.
  sqlite3_stmt* Take(const char* sql);
  void GiveBack(const char* sql, sqlite3_stmt* statement);

  sqlite3* const handle_;
  std::multimap<std::string, sqlite3_stmt*, std::less<>> idle_;  // by what was prepared
};

// Unavailable: the disk is full, or the database busy. DataLoss: SQLite cannot make sense of it.
absl::Status SqliteError(sqlite3* db, const std::string& what);

// One statement of a connection; reset when it goes.
class Statement {
 public:
  Statement(Database* db, const char* sql) : db_(db), sql_(sql), statement_(db->Take(sql)) {}
  ~Statement() { db_->GiveBack(sql_, statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Int(int index, int64_t value) {
    if (statement_ != nullptr) sqlite3_bind_int64(statement_, index, value);
    return *this;
  }
  // `bytes` must outlive the statement's use.
  Statement& Text(int index, absl::string_view bytes) {
    if (statement_ != nullptr) {
      sqlite3_bind_text64(statement_, index, bytes.data(), bytes.size(), SQLITE_STATIC,
                          SQLITE_UTF8);
    }
    return *this;
  }
  Statement& Blob(int index, absl::string_view bytes) {
    // A null pointer would bind NULL, and an empty blob is not NULL.
    const char* data = bytes.empty() ? "" : bytes.data();
    if (statement_ != nullptr) {
      sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_STATIC);
    }
    return *this;
  }

  // True: a row is there. False: done.
  absl::StatusOr<bool> Step() {
    if (statement_ == nullptr) return SqliteError(db_->handle(), sql_);
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return SqliteError(db_->handle(), sql_);
  }
  absl::Status Run() { return Step().status(); }
  void Reset() {
    if (statement_ != nullptr) sqlite3_reset(statement_);
  }

  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  bool IsNull(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  // Of text and blobs.
  std::string Bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  }

 private:
  Database* const db_;
  const char* const sql_;
  sqlite3_stmt* const statement_;
};

// Not kept. `what` is for people.
absl::Status Execute(Database* db, const char* sql, const char* what);
inline absl::Status Execute(Database* db, const char* sql) { return Execute(db, sql, sql); }

// Until one fails. Nothing must follow a statement that failed: SQLite may have rolled back by
// itself, and what comes after it stands alone.
absl::Status Steps(const std::vector<std::function<absl::Status()>>& steps);

// The first row's first column.
absl::StatusOr<int64_t> QueryInt(Database* db, const char* sql);

// Numbers of meta. DataLoss: there is none of that name.
absl::StatusOr<int64_t> Meta(Database* db, const char* name);
absl::Status SetMeta(Database* db, const char* name, int64_t value);
absl::Status AddToMeta(Database* db, const char* name, int64_t value);

// The database's. FailedPrecondition: this program cannot read it; the message says to use the
// version that wrote it, or `otherwise`.
absl::StatusOr<int64_t> SchemaOf(Database* db, const char* otherwise);

}  // namespace warpsmith::store
