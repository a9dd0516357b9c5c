// A LogFile in memory for tests and simulations: it outlives who has it open, fails on purpose, and
// loses what was not synced.
//
//   MemoryFile disk;
//   auto outbox = *Outbox::Open(*disk.Open());
//   disk.set_capacity(disk.bytes().size() + 20);      // full, nearly
//   disk.set_plan([&](absl::string_view call) {       // of each call, before it is done
//     return call == "Sync" ? FileFault::kFails : FileFault::kNone;
//   });
//   outbox.reset();                                   // the process has died
//   disk.LosePower(disk.unsynced() / 2);              // and its machine
//   auto next = *Outbox::Open(*disk.Open());
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/daemon/log_file.h"

namespace warpsmith::daemon {

enum class FileFault {
  kNone,
  kFails,         // nothing is done, and an error told
  kPart,          // of an Append the first half is done, of anything else nothing; an error is told
  kDoneButFails,  // done, and an error told; of a Replace as kFails
};

class MemoryFile {
 public:
  // Asked with the name of the method: "Read", "Append", "Sync", "Truncate", "Replace".
  using Plan = std::function<FileFault(absl::string_view call)>;

  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  // What Open gave must be gone.
  ~MemoryFile();

  // FailedPrecondition: what was opened before still is. The answer must not outlive this.
  absl::StatusOr<std::unique_ptr<LogFile>> Open();

  void set_plan(Plan plan) { plan_ = std::move(plan); }
  // Room on the disk, bytes. An Append that finds too little writes what fits and fails; a Replace
  // needs room for the new content beside the old.
  void set_capacity(int64_t bytes) { capacity_ = bytes; }

  // What whoever opens it reads.
  const std::string& bytes() const { return bytes_; }
  // Damage: it holds this from now on, durably.
  void set_bytes(std::string bytes);

  // Changes since the last Sync. After one that failed, as on a real disk, later ones say OK and
  // keep nothing more until the content is replaced or cut to nothing.
  int unsynced() const { return static_cast<int>(changes_.size()); }
  // Of them the first `kept` remain, and of the one after those, if it is an Append, its first
  // `more_bytes`. Nobody may have it open.
  void LosePower(int kept, size_t more_bytes = 0);

 private:
  class Handle;
  // Puts `bytes` behind the first `keep` bytes of what was before. A power loss leaves all or
  // nothing of one that is `whole`.
  struct Change {
    size_t keep;
    std::string bytes;
    bool whole;
  };
  void Do(Change change);
  static void Apply(const Change& change, std::string& bytes);

  Plan plan_;
  int64_t capacity_ = INT64_MAX;
  std::string bytes_;
  std::string synced_;
  std::vector<Change> changes_;  // from synced_ to bytes_
  bool lost_ = false;  // a Sync failed: what was before it does not reach the disk any more
  bool open_ = false;
};

}  // namespace warpsmith::daemon
