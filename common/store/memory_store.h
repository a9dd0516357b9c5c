// A store in memory, which keeps the log whole: for simulations and tests, where "durable" means
// that it outlives the planner that writes to it.
//
//   MemoryStore store;
//   ...                                 // the planner dies
//   MemoryStore again(store.disk());    // the next one finds what was there
//
// Several may share a disk, each of a planner of its own. What one of them has read or answered for
// is looked for in the log as RedisStore does it.
//
// Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/store/leadership.h"
#include "common/store/store.h"

namespace warpsmith::store {

class MemoryStore final : public Store, public Leadership {
 public:
  struct Event {
    int64_t epoch = 0;
    std::string bytes;
  };
  struct Disk {
    absl::Mutex mutex;
    int64_t epoch ABSL_GUARDED_BY(mutex) = 0;
    int64_t beat ABSL_GUARDED_BY(mutex) = 0;
    bool lost ABSL_GUARDED_BY(mutex) = false;   // an event was there, and is not: nobody leads
    std::string leader ABSL_GUARDED_BY(mutex);  // address
    int64_t first ABSL_GUARDED_BY(mutex) = 0;   // event before the first of the log
    std::vector<Event> log ABSL_GUARDED_BY(mutex);
    // What is earlier before the checkpoint is not read any more.
    int64_t kept_events ABSL_GUARDED_BY(mutex) = INT64_MAX;
    int64_t checkpoint ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, std::string> entries ABSL_GUARDED_BY(mutex);  // of the checkpoint
    std::map<std::string, std::string> archive ABSL_GUARDED_BY(mutex);
    std::deque<Facts> facts ABSL_GUARDED_BY(mutex);  // oldest first
    // Of each subject, its facts' numbers from 0, of all that ever were.
    std::unordered_map<std::string, std::deque<int64_t>> facts_of ABSL_GUARDED_BY(mutex);
    FactsKept kept ABSL_GUARDED_BY(mutex);
    int64_t facts_bytes ABSL_GUARDED_BY(mutex) = INT64_MAX;  // room for them
    Identity identity ABSL_GUARDED_BY(mutex) = {"00000000000000aa", 1};
    std::unordered_map<std::string, std::string> blobs ABSL_GUARDED_BY(mutex);
    std::unordered_map<std::string, Mark> unnamed ABSL_GUARDED_BY(mutex);  // of these
  };

  explicit MemoryStore(std::shared_ptr<Disk> disk = std::make_shared<Disk>())
      : disk_(std::move(disk)) {}
  std::shared_ptr<Disk> disk() const { return disk_; }
  // What is there becomes what is elsewhere: for a copy that is taken, and brought back later.
  static void Copy(Disk& from, Disk& to);

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

  absl::StatusOr<Standing> Look() override;
  absl::StatusOr<int64_t> LeadAfter(const Standing& seen, const std::string& address) override;
  absl::Status Beat(int64_t epoch, const std::string& address) override;
  absl::Status Resign(int64_t epoch) override { return Beat(epoch, ""); }

  // Its history is another one from here on; whoever leads is deposed. Gives the generation.
  absl::StatusOr<int64_t> RaiseGeneration();

 private:
  // With disk_->mutex held.
  int64_t Last() const;
  int64_t RaiseEpoch(const std::string& address);
  absl::Status CheckLast() const;
  absl::Status CheckLost() const;
  // Of a loss the others are told, too.
  absl::Status Marked(const absl::Status& status);
  absl::Status CheckOpen() const;
  absl::Status CheckWriter(int64_t epoch);
  absl::Status CheckPlace(const Batch& batch);
  void AddBlob(const std::string& blob);
  void AddFacts(const std::vector<Facts>& facts);

  const std::shared_ptr<Disk> disk_;
  // Guarded by disk_->mutex.
  bool closed_ = false;
  int64_t known_ = 0;  // the last event that was answered for, or read
  int64_t known_epoch_ = 0;
  int64_t generation_ = 0;  // when it was first asked; 0: it was not
};

}  // namespace warpsmith::store
