// Makes events durable, many to one transaction, and only then lets answers go.
//
//   Committer committer(store, epoch, last_revision, on_fatal);
//   committer.Enqueue({.events = {bytes}, .blobs = {bytes}, .done = [] { /* tell the caller */ }});
//
// Entries become durable in the order of Enqueue. `done` runs on the committer's thread when the
// entry and all before it are durable; an entry without events waits for those before it. It must
// not block.
//
// A commit that cannot be made is the end: events were applied already and cannot be taken back, so
// `on_fatal` is called, must not return to a planner that goes on, and no `done` runs any more. An
// answer that was lost (Unavailable, DeadlineExceeded) is asked for again first. A snapshot that
// cannot be saved is only logged: the log has everything.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/store/store.h"

namespace warpsmith::planner {

inline constexpr size_t kMaxBatchEvents = 2'000;
inline constexpr size_t kMaxBatchBytes = 32 << 20;  // an entry alone may be larger
inline constexpr int kCommitAttempts = 5;
inline constexpr absl::Duration kCommitRetryPause = absl::Milliseconds(100);

class Committer {
 public:
  struct Entry {
    std::vector<std::string> events;
    std::vector<std::string> blobs;
    std::function<void()> done;             // may be empty
    std::optional<store::Record> snapshot;  // saved after the entry's events
  };
  using OnFatal = std::function<void(const absl::Status&)>;

  // `store` must outlive this; `after` is its last revision.
  Committer(store::Store* store, int64_t epoch, int64_t after, OnFatal on_fatal);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // Any thread; never blocks.
  void Enqueue(Entry entry);
  // Entries not yet durable.
  size_t Backlog();
  // Commits what is queued, runs its `done`s, ends the thread.
  void Stop();

 private:
  void Run();
  std::vector<Entry> TakeBatch();
  absl::Status Commit(const std::vector<Entry>& batch);
  absl::Status Insist(const std::function<absl::Status()>& attempt);
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || stopping_; }

  store::Store* const store_;
  const int64_t epoch_;
  const OnFatal on_fatal_;
  int64_t after_;  // of the committer's thread
  absl::Mutex mutex_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::planner
