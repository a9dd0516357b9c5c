// The embedded store: one SQLite database, warpsmith.db, in one folder, and beside it bulk/ with
// what is larger than a page of it (bulk.h).
//
// WAL with synchronous=FULL: a commit is one fsync, however many events it holds, so group what can
// be grouped. A second connection reads. Each event's checksum is of all events up to it, the
// checkpoint's of each entry and of all together. DIR/planner.lock is held as long as the store is
// open; it contains the process id of the holder, and a second opener is told of it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/store/bulk.h"
#include "common/store/folder_lock.h"
#include "common/store/sqlite.h"
#include "common/store/store.h"

namespace warpsmith::store {

class SqliteStore final : public Store {
 public:
  struct Options {
    int64_t facts_bytes = int64_t{16} << 30;  // room for facts
    int64_t bulk_file_bytes = kBulkFileBytes;
  };

  // Makes the folder and the database where they are missing. Unavailable: another process has it.
  // FailedPrecondition: it has another schema. DataLoss: it is none, or lacks its end.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& dir,
                                                           const Options& options);
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& dir) {
    return Open(dir, Options());
  }
  // One moment of a store that is there, of any schema that is read: of one that its planner goes
  // on writing to, or of a backup. Nothing is written, and writes are FailedPrecondition. NotFound:
  // there is none. It keeps the bulk files open.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> OpenToRead(const std::string& dir);
  ~SqliteStore() override;

  absl::StatusOr<Identity> Identify() override;
  absl::Status Adopt(const Identity& identity, int64_t revision) override;
  absl::StatusOr<int64_t> Lead() override;
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<int64_t> LastRevision() override;
  absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) override;
  absl::Status SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::function<void(Entry)>& take) override;
  absl::Status ReadArchive(const std::string& prefix,
                           const std::function<bool(Entry)>& take) override;
  absl::StatusOr<std::string> Put(absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& digest) override;
  absl::StatusOr<Swept> SweepBlobs(int64_t epoch, Sweep& sweep) override;
  absl::Status ReadFacts(const std::string& subject, bool bodies,
                         const std::function<bool(Facts)>& take) override;
  absl::StatusOr<FactsKept> CountFacts() override;
  absl::Status Close() override;

 private:
  // One of the two series of bulk files.
  struct Series {
    BulkFiles files;
    const char* const meta_file;  // numbers of meta
    const char* const meta_end;
    // Of the transaction under way, if it has appended.
    bool appended = false;
    BulkFiles::End end = {};
  };

  SqliteStore(std::string dir, const Options& options);

  absl::Status OpenDatabase();
  absl::Status OpenMoment();
  // One view of the database for several reads.
  absl::Status BeginView() ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  void EndView() ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  absl::Status PrepareDatabase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status MakeTables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status CheckEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status CheckWriter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Runs `body` in a transaction; rolls back if it fails.
  absl::Status Transaction(const std::function<absl::Status()>& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Whether so much goes into bulk files, and where to: what is there is durable with the
  // transaction.
  bool IsBulk(absl::string_view bytes) const;
  absl::StatusOr<Place> AppendBulk(absl::string_view bytes, Series& series)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status EndBulk(Series& series) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void RemoveForgotten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status CheckEpoch(int64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status InsertBlob(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Whether blobs can be marked: not in a store whose upgrade is not finished.
  bool HasMarks() const { return schema_ == kSchemaVersion; }
  // Of SweepBlobs (sqlite_sweep.cc): blobs after `row`, which moves on.
  absl::Status SweepAfter(int64_t& row, const Sweep& sweep, Swept& swept, bool& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status MoveBlob(int64_t row, const std::string& digest, const Place& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void TidyBlobFiles();
  absl::Status CheckPlace(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status Append(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status AddFacts(const std::vector<Facts>& facts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status ForgetFacts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status PutEntries(const Checkpoint& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status PutArchive(const std::vector<Entry>& entries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status TrimLog(int64_t revision) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::StatusOr<std::vector<Record>> ReadLog(int64_t after, size_t limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  absl::StatusOr<int64_t> ReadCheckpoint(const std::function<void(Entry)>& take)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);

  const std::string dir_;
  const Options options_;
  FolderLock lock_;
  int64_t schema_ = kSchemaVersion;  // once it is open
  Series blobs_, facts_;
  absl::Mutex write_mutex_;
  std::unique_ptr<Database> writer_ ABSL_GUARDED_BY(write_mutex_);
  bool forgot_ ABSL_GUARDED_BY(write_mutex_) = false;  // facts, in the transaction under way
  // Of blobs' files, those of which the last walk has found less than half named or marked.
  std::set<int64_t> sparse_ ABSL_GUARDED_BY(write_mutex_);
  int64_t oldest_facts_file_ ABSL_GUARDED_BY(write_mutex_) = 0;  // that is needed; 0: not known
  absl::Mutex read_mutex_;
  std::unique_ptr<Database> reader_ ABSL_GUARDED_BY(read_mutex_);
  bool one_moment_ ABSL_GUARDED_BY(read_mutex_) = false;  // the view of OpenToRead
};

}  // namespace warpsmith::store
