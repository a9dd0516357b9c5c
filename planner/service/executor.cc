#include "planner/service/executor.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace warpsmith::planner {
namespace {

constexpr int kLowNice = 10;  // a tenth of the time that a normal thread gets beside it

}  // namespace

Executor::Executor(const std::string& name, size_t limit, Priority priority)
    : limit_(limit), thread_([this, priority] { Run(priority); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Executor::~Executor() { Stop(); }

bool Executor::Add(Action action, size_t limit) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || queue_.size() >= limit) return false;
  queue_.push_back(std::move(action));
  return true;
}

bool Executor::Post(Action action) { return Add(std::move(action), limit_); }

bool Executor::PostAlways(Action action) {
  return Add(std::move(action), std::numeric_limits<size_t>::max());
}

void Executor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Executor::Run(Priority priority) {
  // Of this thread alone on Linux. Refused, all are equal, which is no error.
  if (priority == Priority::kLow) setpriority(PRIO_PROCESS, gettid(), kLowNice);
  while (true) {
    Action action;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::Wakes));
      if (queue_.empty()) {
        stopped_ = true;
        return;
      }
      action = std::move(queue_.front());
      queue_.pop_front();
    }
    action();
  }
}

}  // namespace warpsmith::planner
