// Two times, which no expression mixes because they are two types:
//
//   Instant      base::Now(), Clock::TimeNow(): the machine's monotonic clock, which nobody sets.
//   All
//                that is waited for, compared or measured.
//   absl::Time   absl::Now(), Clock::Date(): the time of day, which somebody may set by hours.
//   Dates
//                that are written down or shown, and nothing else.
//
//   const base::Instant deadline = base::Now() + absl::Seconds(5);
//   pollfd fd{socket, POLLIN, 0};
//   while (base::Now() < deadline && poll(&fd, 1, base::PollMs(deadline)) == 0) ...
//
// Timed waits of Abseil (AwaitWithTimeout, CondVar, Notification) and of gRPC are monotonic in
// every program that links this library: monotonic_waits.cc. Give Abseil durations, never an
// absl::Time.
//
// A Clock is time as an argument, so that what waits can be tested without waiting:
//
//   SimulatedClock clock;
//   Lease lease(&clock, absl::Seconds(30));
//   clock.AdvanceTime(absl::Seconds(31));   // wakes whoever waited for less
//
// Thread-safe.
#pragma once

#include <compare>
#include <map>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace warpsmith::base {

// Means something within one start of one machine: not stored, not sent.
class Instant {
 public:
  constexpr Instant() = default;  // the clock's origin
  explicit constexpr Instant(absl::Duration since_origin) : since_origin_(since_origin) {}
  static constexpr Instant InfiniteFuture() { return Instant(absl::InfiniteDuration()); }
  static constexpr Instant InfinitePast() { return Instant(-absl::InfiniteDuration()); }

  constexpr absl::Duration since_origin() const { return since_origin_; }

  friend Instant operator+(Instant a, absl::Duration d) { return Instant(a.since_origin_ + d); }
  friend Instant operator-(Instant a, absl::Duration d) { return Instant(a.since_origin_ - d); }
  friend absl::Duration operator-(Instant a, Instant b) {
    return a.since_origin_ - b.since_origin_;
  }
  friend constexpr bool operator==(Instant a, Instant b) {
    return a.since_origin_ == b.since_origin_;
  }
  friend constexpr std::strong_ordering operator<=>(Instant a, Instant b) {
    if (a == b) return std::strong_ordering::equal;
    return a.since_origin_ < b.since_origin_ ? std::strong_ordering::less
                                             : std::strong_ordering::greater;
  }

 private:
  absl::Duration since_origin_;
};

Instant Now();

// What poll() takes to wait until then: whole milliseconds, so rounded up that it does not return
// before; 0 if it has passed, -1 (for ever) for the infinite future. Of a deadline further off than
// twelve days, twelve days.
int PollMs(Instant deadline);

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant TimeNow() = 0;
  virtual absl::Time Date() = 0;
  // Blocks for at least this long; at once if it is zero or less.
  virtual void Sleep(absl::Duration duration) = 0;
  // With `mutex` held: waits until `condition` is true or `deadline` has passed; says whether the
  // condition is true. The mutex is free while it waits, as with absl::Mutex::AwaitWithDeadline.
  virtual bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                                 Instant deadline) = 0;
  // base::Now() and absl::Now(). Never destroyed.
  static Clock* Real();
};

// Stands still until it is moved.
class SimulatedClock : public Clock {
 public:
  // `date` is that of the origin; from there on both go on together.
  explicit SimulatedClock(absl::Time date = absl::UnixEpoch()) : date_(date) {}

  Instant TimeNow() override;
  absl::Time Date() override;
  void Sleep(absl::Duration duration) override;
  bool AwaitWithDeadline(absl::Mutex* mutex, const absl::Condition& condition,
                         Instant deadline) override;

  // Moves the time (never back) and wakes those whose deadline has come. The caller must not hold a
  // mutex that somebody waits with.
  void AdvanceTime(absl::Duration duration);
  // How many wait with a deadline: lets a test know that a thread has come to its wait.
  int Waiters();

 private:
  struct Waiter;

  const absl::Time date_;
  absl::Mutex mutex_;
  Instant now_ ABSL_GUARDED_BY(mutex_);
  std::multimap<Instant, std::shared_ptr<Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpsmith::base
