#include "common/base/clock.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/check.h"

namespace warpsmith::base {
namespace {

constexpr int kLongestPollMs = 1 << 30;

class RealClock : public Clock {
 public:
  Instant TimeNow() override { return Now(); }
  absl::Time Date() override { return absl::Now(); }
  void Sleep(absl::Duration duration) override { absl::SleepFor(duration); }
  bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                         Instant deadline) override {
    return mutex->AwaitWithTimeout(condition, deadline - Now());
  }
};

}  // namespace

Instant Now() {
  return Instant(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

int PollMs(Instant deadline) {
  if (deadline == Instant::InfiniteFuture()) return -1;
  const absl::Duration left = deadline - Now();
  if (left <= absl::ZeroDuration()) return 0;
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left), kLongestPollMs)) + 1;
}

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

// `expired` is guarded by the mutex that its owner waits with, so that setting it wakes the owner.
struct SimulatedClock::Waiter {
  absl::Mutex* mutex;
  const absl::Condition* condition;
  bool expired = false;
  bool Ready() const { return expired || condition->Eval(); }
};

Instant SimulatedClock::TimeNow() {
  absl::MutexLock lock(&mutex_);
  return now_;
}

absl::Time SimulatedClock::Date() { return date_ + TimeNow().since_origin(); }

void SimulatedClock::Sleep(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return;
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  bool never = false;
  AwaitWithDeadline(&mutex, absl::Condition(&never), TimeNow() + duration);
}

bool SimulatedClock::AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                                       Instant deadline) {
  if (condition.Eval()) return true;
  auto waiter = std::make_shared<Waiter>(Waiter{mutex, &condition});
  {
    absl::MutexLock lock(&mutex_);
    if (deadline <= now_) return false;
    waiters_.emplace(deadline, waiter);
  }
  mutex->Await(absl::Condition(waiter.get(), &Waiter::Ready));
  if (waiter->expired) return condition.Eval();
  // The condition came first. If the clock took the waiter off its list meanwhile, it is about to
  // lock `mutex` to tell: wait for it, so that the mutex may go away after we return.
  bool listed = false;
  {
    absl::MutexLock lock(&mutex_);
    for (auto [it, end] = waiters_.equal_range(deadline); it != end; ++it) {
      if (it->second == waiter) {
        waiters_.erase(it);
        listed = true;
        break;
      }
    }
  }
  if (!listed) mutex->Await(absl::Condition(&waiter->expired));
  return condition.Eval();
}

void SimulatedClock::AdvanceTime(absl::Duration duration) {
  WS_CHECK(duration >= absl::ZeroDuration(), "time does not run backwards");
  std::vector<std::shared_ptr<Waiter>> due;
  {
    absl::MutexLock lock(&mutex_);
    now_ = now_ + duration;
    const auto end = waiters_.upper_bound(now_);
    for (auto it = waiters_.begin(); it != end; ++it) due.push_back(it->second);
    waiters_.erase(waiters_.begin(), end);
  }
  for (const auto& waiter : due) {
    absl::MutexLock lock(waiter->mutex);
    waiter->expired = true;
  }
}

int SimulatedClock::Waiters() {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(waiters_.size());
}

}  // namespace warpsmith::base
