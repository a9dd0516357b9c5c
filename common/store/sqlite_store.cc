#include "common/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace warpsmith::store {
namespace {

constexpr int kSchemaVersion = 1;
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
  revision INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (revision INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS blobs (digest TEXT NOT NULL UNIQUE, bytes BLOB NOT NULL);
INSERT OR IGNORE INTO meta VALUES ('schema', 1), ('epoch', 0);
)sql";

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

// One prepared statement; finalised when it goes.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : db_(db), sql_(sql) {
    sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
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
    if (statement_ == nullptr) return SqliteError(db_, sql_);
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return SqliteError(db_, sql_);
  }
  absl::Status Run() { return Step().status(); }
  void Reset() {
    if (statement_ != nullptr) sqlite3_reset(statement_);
  }

  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  }

 private:
  sqlite3* db_;
  const char* sql_;
  sqlite3_stmt* statement_ = nullptr;
};

absl::Status Execute(sqlite3* db, const char* sql, const char* what) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return SqliteError(db, what);
  return absl::OkStatus();
}
absl::Status Execute(sqlite3* db, const char* sql) { return Execute(db, sql, sql); }

absl::StatusOr<int64_t> QueryInt(sqlite3* db, const char* sql) {
  Statement statement(db, sql);
  absl::StatusOr<bool> row = statement.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::DataLossError(absl::StrCat("SQLite, no row for: ", sql));
  return statement.Int(0);
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

absl::Status Closed() { return absl::FailedPreconditionError("the store is closed"); }

absl::Status CheckSize(const char* what, size_t size, size_t limit) {
  if (size <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of ", size, " bytes is larger than the store takes (", limit, ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", dir, ": ", error.message()));
  }
  std::unique_ptr<SqliteStore> store(new SqliteStore(dir));
  if (absl::Status status = store->Lock(); !status.ok()) return status;
  if (absl::Status status = store->OpenDatabase(); !status.ok()) return status;
  return store;
}

SqliteStore::~SqliteStore() { Close().IgnoreError(); }

absl::Status SqliteStore::Lock() {
  const std::string path = absl::StrCat(dir_, "/planner.lock");
  lock_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_fd_ < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  const bool locked = flock(lock_fd_, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) {
    return absl::InternalError(absl::StrCat("cannot lock ", path, ": ", strerror(errno)));
  }
  if (!locked) {
    char pid[32] = {};
    const ssize_t size = pread(lock_fd_, pid, sizeof(pid) - 1, 0);
    close(lock_fd_);
    lock_fd_ = -1;
    return absl::UnavailableError(
        absl::StrCat("the folder ", dir_, " is in use by process ", size > 0 ? pid : "(unknown)",
                     ": two planners cannot share a store; stop that one or use another --dir"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(lock_fd_, 0) != 0 ||
      pwrite(lock_fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::InternalError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::OpenDatabase() {
  const std::string path = absl::StrCat(dir_, "/warpsmith.db");
  absl::MutexLock write_lock(&write_mutex_);
  absl::MutexLock read_lock(&read_mutex_);
  absl::StatusOr<sqlite3*> writer = Connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!writer.ok()) return writer.status();
  writer_ = *writer;
  if (absl::Status status = PrepareDatabase(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  absl::StatusOr<sqlite3*> reader = Connect(path, SQLITE_OPEN_READONLY);
  if (!reader.ok()) return reader.status();
  reader_ = *reader;
  return Execute(reader_, "PRAGMA busy_timeout=5000");
}

// Nothing is written to a database of another version.
absl::Status SqliteStore::PrepareDatabase() {
  if (absl::Status status = Execute(writer_, "PRAGMA busy_timeout=5000"); !status.ok()) {
    return status;
  }
  absl::StatusOr<int64_t> tables = QueryInt(
      writer_, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'");
  if (!tables.ok()) return tables.status();
  if (*tables > 0) {
    absl::StatusOr<int64_t> schema =
        QueryInt(writer_, "SELECT value FROM meta WHERE name = 'schema'");
    if (!schema.ok()) return schema.status();
    if (*schema != kSchemaVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("it has schema ", *schema, ", this program knows ", kSchemaVersion,
                       ": use the version of Warpsmith that wrote it, or another --dir"));
    }
  }
  for (const char* sql : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"}) {
    if (absl::Status status = Execute(writer_, sql); !status.ok()) return status;
  }
  return Execute(writer_, kSchema, "making the tables");
}

absl::Status SqliteStore::CheckWriter() { return writer_ == nullptr ? Closed() : absl::OkStatus(); }

template <typename Body>
absl::Status SqliteStore::Transaction(Body body) {
  if (absl::Status status = CheckWriter(); !status.ok()) return status;
  if (absl::Status status = Execute(writer_, "BEGIN IMMEDIATE"); !status.ok()) return status;
  absl::Status status = body();
  if (status.ok()) status = Execute(writer_, "COMMIT");
  // After some failures SQLite has rolled back by itself.
  if (!status.ok() && sqlite3_get_autocommit(writer_) == 0) {
    Execute(writer_, "ROLLBACK").IgnoreError();
  }
  return status;
}

absl::Status SqliteStore::CheckEpoch(int64_t epoch) {
  absl::StatusOr<int64_t> current =
      QueryInt(writer_, "SELECT value FROM meta WHERE name = 'epoch'");
  if (!current.ok()) return current.status();
  if (epoch == *current) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("epoch ", epoch, " is not the current one (",
                                                    *current, "): another planner has taken over"));
}

absl::StatusOr<int64_t> SqliteStore::Lead() {
  absl::MutexLock lock(&write_mutex_);
  int64_t epoch = 0;
  absl::Status status = Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status raised =
            Execute(writer_, "UPDATE meta SET value = value + 1 WHERE name = 'epoch'");
        !raised.ok()) {
      return raised;
    }
    absl::StatusOr<int64_t> current =
        QueryInt(writer_, "SELECT value FROM meta WHERE name = 'epoch'");
    if (current.ok()) epoch = *current;
    return current.status();
  });
  if (!status.ok()) return status;
  return epoch;
}

absl::Status SqliteStore::InsertBlob(absl::string_view bytes) {
  if (absl::Status status = CheckSize("a blob", bytes.size(), kMaxBlobBytes); !status.ok()) {
    return status;
  }
  const std::string digest = base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
  Statement insert(writer_, "INSERT OR IGNORE INTO blobs VALUES (?, ?)");
  return insert.Text(1, digest).Blob(2, bytes).Run();
}

absl::Status SqliteStore::Append(const Batch& batch) {
  absl::StatusOr<int64_t> last = QueryInt(writer_, "SELECT COALESCE(MAX(revision), 0) FROM events");
  if (!last.ok()) return last.status();
  const int64_t end = batch.after + static_cast<int64_t>(batch.events.size());
  if (*last == end && end > batch.after) {
    // Perhaps this very batch, whose answer was lost.
    Statement stored(writer_,
                     "SELECT epoch, bytes FROM events WHERE revision > ? ORDER BY revision");
    stored.Int(1, batch.after);
    for (const std::string& event : batch.events) {
      absl::StatusOr<bool> row = stored.Step();
      if (!row.ok()) return row.status();
      if (!*row || stored.Int(0) != batch.epoch || stored.Bytes(1) != event) {
        return absl::FailedPreconditionError(absl::StrCat(
            "the log ends at revision ", *last, " with other events than those for after ",
            batch.after, ": it has another writer"));
      }
    }
    return absl::OkStatus();
  }
  if (*last != batch.after) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log ends at revision ", *last, ", not at ", batch.after));
  }
  Statement insert(writer_, "INSERT INTO events VALUES (?, ?, ?)");
  int64_t revision = batch.after;
  for (const std::string& event : batch.events) {
    if (absl::Status status = CheckSize("an event", event.size(), kMaxEventBytes); !status.ok()) {
      return status;
    }
    insert.Int(1, ++revision).Int(2, batch.epoch).Blob(3, event);
    if (absl::Status status = insert.Run(); !status.ok()) return status;
    insert.Reset();
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit(const Batch& batch) {
  absl::MutexLock lock(&write_mutex_);
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status status = CheckEpoch(batch.epoch); !status.ok()) return status;
    for (const std::string& blob : batch.blobs) {
      if (absl::Status status = InsertBlob(blob); !status.ok()) return status;
    }
    return Append(batch);
  });
}

absl::StatusOr<int64_t> SqliteStore::LastRevision() {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  return QueryInt(reader_, "SELECT COALESCE(MAX(revision), 0) FROM events");
}

absl::StatusOr<std::vector<Record>> SqliteStore::Read(int64_t after, size_t limit) {
  if (limit < 1 || limit > kMaxReadEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read of ", limit, " events: the limit is 1 to ", kMaxReadEvents));
  }
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  Statement select(reader_,
                   "SELECT revision, bytes FROM events WHERE revision > ? ORDER BY revision "
                   "LIMIT ?");
  select.Int(1, after).Int(2, static_cast<int64_t>(limit));
  std::vector<Record> records;
  while (true) {
    absl::StatusOr<bool> row = select.Step();
    if (!row.ok()) return row.status();
    if (!*row) return records;
    records.push_back({select.Int(0), select.Bytes(1)});
  }
}

absl::Status SqliteStore::SaveSnapshot(int64_t epoch, const Record& snapshot) {
  absl::Status size = CheckSize("a snapshot", snapshot.bytes.size(), kMaxSnapshotBytes);
  if (!size.ok()) return size;
  absl::MutexLock lock(&write_mutex_);
  return Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    if (absl::Status status = CheckEpoch(epoch); !status.ok()) return status;
    absl::StatusOr<int64_t> last =
        QueryInt(writer_, "SELECT COALESCE(MAX(revision), 0) FROM events");
    if (!last.ok()) return last.status();
    if (snapshot.revision > *last) {
      return absl::InvalidArgumentError(absl::StrCat("a snapshot of revision ", snapshot.revision,
                                                     ", but the log ends at ", *last));
    }
    Statement insert(writer_, "INSERT OR REPLACE INTO snapshots VALUES (?, ?)");
    if (absl::Status status = insert.Int(1, snapshot.revision).Blob(2, snapshot.bytes).Run();
        !status.ok()) {
      return status;
    }
    Statement trim(writer_, "DELETE FROM snapshots WHERE revision < ?");
    return trim.Int(1, snapshot.revision).Run();
  });
}

absl::StatusOr<std::optional<Record>> SqliteStore::LoadSnapshot() {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  Statement select(reader_, "SELECT revision, bytes FROM snapshots ORDER BY revision DESC LIMIT 1");
  absl::StatusOr<bool> row = select.Step();
  if (!row.ok()) return row.status();
  if (!*row) return std::nullopt;
  return Record{select.Int(0), select.Bytes(1)};
}

absl::StatusOr<std::string> SqliteStore::Put(absl::string_view bytes) {
  absl::MutexLock lock(&write_mutex_);
  absl::Status status = Transaction([&]() -> absl::Status {
    write_mutex_.AssertHeld();
    return InsertBlob(bytes);
  });
  if (!status.ok()) return status;
  return base::Sha256Hex(std::string_view(bytes.data(), bytes.size()));
}

absl::StatusOr<std::string> SqliteStore::Get(const std::string& digest) {
  absl::MutexLock lock(&read_mutex_);
  if (reader_ == nullptr) return Closed();
  Statement select(reader_, "SELECT bytes FROM blobs WHERE digest = ?");
  absl::StatusOr<bool> row = select.Text(1, digest).Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(absl::StrCat("no blob has the digest '", digest, "'"));
  return select.Bytes(0);
}

absl::Status SqliteStore::Close() {
  {
    absl::MutexLock lock(&read_mutex_);
    sqlite3_close(reader_);
    reader_ = nullptr;
  }
  {
    absl::MutexLock lock(&write_mutex_);
    sqlite3_close(writer_);
    writer_ = nullptr;
  }
  if (lock_fd_ >= 0) close(lock_fd_);
  lock_fd_ = -1;
  return absl::OkStatus();
}

}  // namespace warpsmith::store
