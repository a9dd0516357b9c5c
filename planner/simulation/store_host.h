// The machine of a store: a simulated disk that one planner writes to, or several that share it,
// and what becomes of it. The checker is told of every event as it becomes durable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/store/checksum.h"
#include "common/store/faulty_store.h"
#include "common/store/memory_store.h"
#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/world.h"

namespace warpsmith::planner::simulation {

class StoreHost {
 public:
  // A process' own way to it. What is under way when the process dies holds on to it.
  struct Link {
    Link(std::shared_ptr<store::MemoryStore::Disk> disk, store::FaultyStore::Plan plan)
        : store(std::move(disk)), faulty(&store, std::move(plan), &store) {}

    store::MemoryStore store;
    store::FaultyStore faulty;
  };

  // All outlive this.
  StoreHost(World* world, Checker* checker) : world_(world), checker_(checker), own_(disk_) {}

  std::shared_ptr<Link> Open(store::FaultyStore::Plan plan) {
    return std::make_shared<Link>(disk_, std::move(plan));
  }
  // So many events are read before the checkpoint.
  void set_kept_events(int64_t events);

  // It takes no writes until then.
  void FillUp(int64_t until_ms) { full_until_ms_ = until_ms; }
  bool full() const { return world_->now_ms() < full_until_ms_; }

  // Of what it has and the checker does not know.
  void TellChecker();
  // The leader's counter was moved, or somebody was made the leader.
  void Moved() { moved_ms_ = world_->now_ms(); }
  int64_t moved_ms() const { return moved_ms_; }
  int64_t epoch() const;
  int64_t last() const;
  std::string Token() const;

  // A copy that is behind takes its place: as a replica that was promoted. False: it is not.
  void TakeCopy();
  bool BringBackCopy();
  // A person goes on with it, whatever it is, as another history.
  void AcceptLoss();
  enum class History { kWhole, kStale, kAccepted };
  History history() const { return history_; }
  int64_t stale_ms() const { return stale_ms_; }  // since when it is not whole
  // Who knows what was there needs its next beats to see that it is not.
  bool settles() const {
    return history_ == History::kStale && world_->now_ms() < stale_ms_ + kSettlesMs;
  }

  // Tasks in the archive.
  std::vector<v1::Task> Archived();
  // What the log makes, applied to nothing.
  std::string StateOfLog();
  // A checksum of all that was made durable and answered, in order.
  int64_t Digest() const { return digest_; }
  void Note(const std::string& bytes) { digest_ = store::Checksum(bytes, digest_); }

 private:
  static constexpr int64_t kSettlesMs = 10'000;

  World* const world_;
  Checker* const checker_;
  const std::shared_ptr<store::MemoryStore::Disk> disk_ =
      std::make_shared<store::MemoryStore::Disk>();
  store::MemoryStore own_;
  std::unique_ptr<store::MemoryStore::Disk> copy_;
  History history_ = History::kWhole;
  int64_t stale_ms_ = 0;
  int64_t full_until_ms_ = 0;
  int64_t moved_ms_ = 0;
  size_t checked_ = 0;   // events that the checker knows
  int64_t epoch_ = 0;    // of the last of them
  int64_t batches_ = 0;  // of trials, that are recorded up to there
  int64_t digest_ = 0;
};

}  // namespace warpsmith::planner::simulation
