// Bytes that are too many for a database's pages, in files that only grow: FOLDER/KIND-000001 and
// so on. A database that keeps their places, and how far the files reach, decides what is there.
//
//   BulkFiles files(dir + "/bulk", "blobs");
//   BulkFiles::End end = ...;                     // as the database says
//   absl::StatusOr<Place> place = files.Append(bytes, end);
//   absl::Status durable = files.Sync();          // before the database's commit
//   absl::StatusOr<std::string> read = files.Read(*place);
//
// What lies behind `end` was never committed, and is written over. Whoever has the database written
// makes sure that only one writer is at work; reads may be beside it. Where several write into one
// folder, each writes to files of its own, whose numbers come from what they share.
//
// Errors: Unavailable, the disk is full or there are too many open files; DataLoss, the bytes are
// not there; Internal, the system's reason. All name the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace warpsmith::store {

inline constexpr char kBulkFolder[] = "bulk";
inline constexpr int64_t kBulkFileBytes = int64_t{256} << 20;

// Of errno. Unavailable: the disk is full, or there are too many open files; Internal: anything
// else.
absl::Status System(const std::string& what);
// A folder's names are durable.
absl::Status SyncFolder(const std::string& dir);

struct Place {
  int64_t file = 0;  // from 1 on; 0: nowhere
  int64_t offset = 0;
  int64_t size = 0;
};

class BulkFiles {
 public:
  // Where the next bytes go.
  struct End {
    int64_t file = 1;  // 0: a file that is not there yet
    int64_t offset = 0;
  };
  // A number that no other file has been given.
  using NewNumber = std::function<absl::StatusOr<int64_t>()>;

  // A file of `file_bytes` and more is followed by another one. Without `new_number` it gets the
  // number after the last one that is there.
  BulkFiles(std::string folder, std::string kind, int64_t file_bytes = kBulkFileBytes,
            NewNumber new_number = nullptr)
      : folder_(std::move(folder)),
        kind_(std::move(kind)),
        file_bytes_(file_bytes),
        new_number_(std::move(new_number)) {}
  ~BulkFiles();
  BulkFiles(const BulkFiles&) = delete;
  BulkFiles& operator=(const BulkFiles&) = delete;

  // Moves `end` behind the bytes. One thread at a time, as Sync and RemoveBefore.
  absl::StatusOr<Place> Append(absl::string_view bytes, End& end);
  // An End of file 0 is of another file from here on than before. One thread at a time, likewise.
  void BeginAnew() { full_ = -1; }
  // What was appended is durable.
  absl::Status Sync();
  // The files with lower numbers are no longer needed.
  absl::Status RemoveBefore(int64_t file);
  // That file is no longer needed. Any thread, as long as nobody appends to it.
  absl::Status Remove(int64_t file);

  // Opens the files that are there, and keeps them open: what is in them can be read though they
  // are removed meanwhile. As often as is wanted.
  absl::Status Hold();

  // Any thread.
  absl::StatusOr<std::string> Read(const Place& place);
  // DataLoss: the files do not reach so far.
  absl::Status CheckReaches(const End& end) const;
  // Of a file that is not there yet, nor any after it.
  absl::StatusOr<End> Fresh() const;
  // Paths of the files that are there, by number.
  absl::StatusOr<std::map<int64_t, std::string>> List() const;
  // Of those files; what cannot be read counts for nothing.
  int64_t Bytes() const;

 private:
  std::string PathOf(int64_t file) const;
  // The file's number, by its name; 0: it is none of ours.
  int64_t NumberOf(const std::string& name) const;
  absl::Status OpenForWriting(int64_t file);
  absl::StatusOr<int64_t> FileAfter(int64_t file);
  absl::StatusOr<int> OpenForReading(int64_t file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseReaders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const std::string kind_;
  const int64_t file_bytes_;
  const NewNumber new_number_;
  int64_t written_ = 0;  // file that is open for writing; 0: none
  int writer_ = -1;
  bool dirty_ = false;
  int64_t full_ = -1, next_ = 0;  // the file that is to follow `full_`, once one is
  absl::Mutex mutex_;
  std::map<int64_t, int> readers_ ABSL_GUARDED_BY(mutex_);  // descriptors by file
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace warpsmith::store
