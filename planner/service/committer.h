// Makes writes durable on a thread of its own, many to one transaction.
//
//   Committer committer(Writer(store, epoch, last_revision),
//                       {.on_durable = [](int64_t number) { /* that write and all before it */ },
//                        .on_stalled = ..., .on_fatal = ...});
//   committer.Enqueue(std::move(write));
//
// Writes become durable in the order of Enqueue.
//
// A store that does not answer, or has no room, is asked again and again: what was applied cannot
// be taken back, and the disk may be freed. on_stalled says so once, when that begins; on_durable
// ends it. Any other error is the end: on_fatal is called, must not return to a planner that goes
// on, and nothing is durable any more.
//
// The callbacks run on the committer's thread and must not block.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "planner/service/write.h"

namespace warpsmith::planner {

// A store that fails is asked again after the first pause, and each time after twice as long.
inline constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
inline constexpr absl::Duration kLongestPause = absl::Seconds(1);
// It stalls when it failed so often in a row.
inline constexpr int kFailuresOfAStall = 5;
// From one commit's beginning to the next: each costs several waits for the disk and pages of
// several indices, and what comes meanwhile goes together. One that nothing went before begins at
// once.
inline constexpr absl::Duration kBetweenCommits = absl::Milliseconds(8);

class Committer {
 public:
  using OnFatal = std::function<void(const absl::Status&)>;
  struct Callbacks {
    std::function<void(int64_t number)> on_durable;
    std::function<void(const absl::Status&)> on_stalled;
    OnFatal on_fatal;
    // Null, or told of each checkpoint that was saved, by its revision.
    std::function<void(int64_t revision)> on_saved;
    // Null, or told of each try that failed, and of each transaction: with its tries it took so
    // long, and made so many events durable.
    std::function<void()> on_failed;
    std::function<void(absl::Duration, size_t)> on_committed;
  };

  Committer(Writer writer, Callbacks callbacks);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // Any thread; never blocks.
  void Enqueue(Write write);
  // Commits what is queued and ends the thread. What the store does not take by then in one try
  // more is not written; nobody was told of it.
  void Stop();

 private:
  void Run();
  std::vector<Write> TakeBatch();
  absl::Status Insist(const std::vector<Write>& batch);
  // Whether the committer is to stop, at the end of the pause or before.
  bool Pause(absl::Duration pause);
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || stopping_; }

  Writer writer_;  // of the committer's thread
  const Callbacks callbacks_;
  absl::Mutex mutex_;
  std::deque<Write> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::Instant next_commit_;  // not before; of the committer's thread
  std::thread thread_;
};

}  // namespace warpsmith::planner
