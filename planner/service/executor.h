// One thread that runs what is posted to it, in order: a strand. State that only its actions touch
// needs no lock.
//
//   Executor strand("core", 10'000);
//   if (!strand.Post([&] { ... })) ...   // full: tell the caller to come later
//   strand.Stop();                       // runs what is queued, then ends the thread
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace warpsmith::planner {

class Executor {
 public:
  using Action = std::function<void()>;

  enum class Priority {
    kNormal,
    kLow
  };  // kLow: where cores are scarce, the process's others go first

  // `name` (at most 15 characters) is the thread's; `limit` bounds Post.
  Executor(const std::string& name, size_t limit, Priority priority = Priority::kNormal);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Any thread. False: too much is queued, or it was stopped; the action is not run.
  bool Post(Action action);
  // As Post, beyond the limit too: for what ends work, and so must not be refused. False only after
  // Stop.
  bool PostAlways(Action action);
  // Runs what is queued and what that posts, then returns. Not from the executor's own thread.
  void Stop();

 private:
  bool Add(Action action, size_t limit);
  void Run(Priority priority);
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || stopping_; }

  const size_t limit_;
  absl::Mutex mutex_;
  std::deque<Action> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::planner
