// The embedded store: one SQLite database, warpsmith.db, in one folder.
//
// WAL with synchronous=FULL: a commit is one fsync, however many events it holds, so group what can
// be grouped. A second connection reads. DIR/planner.lock is held as long as the store is open; it
// contains the process id of the holder, and a second opener is told of it.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/store/store.h"

namespace warpsmith::store {

class SqliteStore final : public Store {
 public:
  // Makes the folder and the database where they are missing. Unavailable: another process has it.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& dir);
  ~SqliteStore() override;

  absl::StatusOr<int64_t> Lead() override;
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<int64_t> LastRevision() override;
  absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) override;
  absl::Status SaveSnapshot(int64_t epoch, const Record& snapshot) override;
  absl::StatusOr<std::optional<Record>> LoadSnapshot() override;
  absl::StatusOr<std::string> Put(absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& digest) override;
  absl::Status Close() override;

 private:
  explicit SqliteStore(std::string dir) : dir_(std::move(dir)) {}

  absl::Status Lock();
  absl::Status OpenDatabase();
  absl::Status PrepareDatabase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status CheckWriter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Runs `body` in a transaction; rolls back if it fails.
  template <typename Body>
  absl::Status Transaction(Body body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status CheckEpoch(int64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status InsertBlob(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status Append(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  const std::string dir_;
  int lock_fd_ = -1;
  absl::Mutex write_mutex_;
  sqlite3* writer_ ABSL_GUARDED_BY(write_mutex_) = nullptr;
  absl::Mutex read_mutex_;
  sqlite3* reader_ ABSL_GUARDED_BY(read_mutex_) = nullptr;
};

}  // namespace warpsmith::store
