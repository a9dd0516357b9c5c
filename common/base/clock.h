// Time as an argument, so that what waits can be tested without waiting.
//
//   SimulatedClock clock(absl::UnixEpoch());
//   Lease lease(&clock, absl::Seconds(30));
//   clock.AdvanceTime(absl::Seconds(31));   // wakes whoever waited for less
//
// Thread-safe.
#pragma once

#include <map>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpsmith::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time TimeNow() = 0;
  // Blocks for at least this long; at once if it is zero or less.
  virtual void Sleep(absl::Duration duration) = 0;
  // With `mutex` held: waits until `condition` is true or `deadline` has passed; says whether the
  // condition is true. The mutex is free while it waits, as with absl::Mutex::AwaitWithDeadline.
  virtual bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                                 absl::Time deadline) = 0;
  // The system's time of day when it was first asked for, and from there on what has passed:
  // whoever sets the machine's clock moves no deadline. Never destroyed.
  static Clock* Real();
};

// Stands still until it is moved.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(absl::Time now) : now_(now) {}

  absl::Time TimeNow() override;
  void Sleep(absl::Duration duration) override;
  bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                         absl::Time deadline) override;

  // Moves the time (never back) and wakes those whose deadline has come. The caller must not hold a
  // mutex that somebody waits with.
  void AdvanceTime(absl::Duration duration);
  void SetTime(absl::Time now);
  // How many wait with a deadline: lets a test know that a thread has come to its wait.
  int Waiters();

 private:
  struct Waiter;

  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, std::shared_ptr<Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpsmith::base
