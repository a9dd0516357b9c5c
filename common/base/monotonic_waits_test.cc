// The time of day is this test's own: whoever reads it, Abseil and gRPC among them, finds it moved.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <thread>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/file.h"

namespace {
std::atomic<int64_t> ahead_seconds = 0;
}

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, id, time));
  if (id == CLOCK_REALTIME) time->tv_sec += ahead_seconds;
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

namespace warpsmith::base {
namespace {

constexpr absl::Duration kWait = absl::Milliseconds(50);
constexpr absl::Duration kLongest = absl::Seconds(20);  // then it is told to end

bool Sleeps(pid_t thread) {
  const std::string stat =
      ReadFile(absl::StrCat("/proc/self/task/", thread, "/stat")).value_or(") X");
  return stat[stat.rfind(')') + 2] == 'S';
}

// How long a wait of kWait took while the clock was `before` hours ahead, then `meanwhile`.
absl::Duration Waited(int before, int meanwhile, bool by_clock) {
  ahead_seconds = before * 3600;
  absl::Mutex mutex;
  bool never = false, waiting = false, ended = false;
  pid_t thread = 0;
  absl::Duration took;
  std::thread waiter([&] {
    absl::MutexLock lock(&mutex);
    thread = gettid();
    waiting = true;
    const Instant start = Now();
    if (by_clock) {
      Clock::Real()->AwaitWithDeadline(&mutex, absl::Condition(&never), start + kWait);
    } else {
      mutex.AwaitWithTimeout(absl::Condition(&never), kWait);
    }
    took = Now() - start;
    ended = true;
  });
  { absl::MutexLock lock(&mutex, absl::Condition(&waiting)); }
  // It holds the mutex until it waits, and from there on it sleeps.
  const Instant began = Now();
  while (!Sleeps(thread) && Now() < began + kWait) std::this_thread::yield();
  ahead_seconds = meanwhile * 3600;
  for (; Now() < began + kLongest; absl::SleepFor(kWait / 50)) {
    absl::MutexLock lock(&mutex);
    if (ended) break;
  }
  {
    absl::MutexLock lock(&mutex);
    never = true;
  }
  waiter.join();
  ahead_seconds = 0;
  return took;
}

TEST_CASE("setting the machine's clock neither lengthens nor shortens a wait") {
  struct Case {
    int before, meanwhile;  // hours ahead
  };
  for (const auto [before, meanwhile] :
       {Case{0, 0}, {1, 1}, {-1, -1}, {0, 1}, {0, -1}, {1, 0}, {-1, 1}}) {
    for (const bool by_clock : {false, true}) {
      INFO(before << " hours ahead, then " << meanwhile << (by_clock ? ", by Clock" : ""));
      const absl::Duration took = Waited(before, meanwhile, by_clock);
      CHECK(took >= kWait);
      CHECK(took < kLongest);
    }
  }
}

// Abseil's wait, with a timeout that was made before the clock was set or after it.
TEST_CASE("nor does setting it between a timeout's making and its wait") {
  using absl::synchronization_internal::KernelTimeout;
  struct Case {
    int before, meanwhile;  // hours ahead
  };
  for (const auto [before, meanwhile] : {Case{0, 0}, {1, 0}, {0, 1}, {0, -1}, {-1, 1}}) {
    INFO(before << " hours ahead, then " << meanwhile);
    for (const bool made_after : {false, true}) {
      absl::Duration took;
      bool posted = true;
      std::atomic<bool> ended = false;
      std::thread waiter([&, before = before, meanwhile = meanwhile] {
        ahead_seconds = before * 3600;
        absl::Mutex mutex;
        absl::MutexLock lock(&mutex);
        bool never = false;
        mutex.AwaitWithTimeout(absl::Condition(&never), absl::Milliseconds(1));  // looks at it
        if (made_after) ahead_seconds = meanwhile * 3600;
        timespec date;
        clock_gettime(CLOCK_REALTIME, &date);
        const KernelTimeout timeout(absl::TimeFromTimespec(date) + kWait);
        ahead_seconds = meanwhile * 3600;
        const Instant start = Now();
        posted = ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(timeout);
        took = Now() - start;
        ended = true;
      });
      for (const Instant begin = Now(); !ended && Now() < begin + kLongest;) {
        absl::SleepFor(kWait / 50);
      }
      REQUIRE(ended);
      waiter.join();
      CHECK_FALSE(posted);
      CHECK(took >= kWait - absl::Milliseconds(1));
      CHECK(took < kLongest);
    }
  }
  ahead_seconds = 0;
}

TEST_CASE("what has passed is not waited for, also just after the clock was set") {
  using absl::synchronization_internal::KernelTimeout;
  for (const int hours : {0, 1, -1}) {
    for (const absl::Duration ago : {absl::Microseconds(1), absl::Milliseconds(20)}) {
      INFO(hours << " hours ahead, " << ago << " ago");
      std::atomic<bool> ended = false;
      std::thread waiter([&] {
        ahead_seconds = hours * 3600;
        timespec date;
        clock_gettime(CLOCK_REALTIME, &date);
        const KernelTimeout timeout(absl::TimeFromTimespec(date) - ago);
        ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(timeout);
        ended = true;
      });
      for (const Instant begin = Now(); !ended && Now() < begin + kLongest;) {
        absl::SleepFor(kWait / 50);
      }
      REQUIRE(ended);
      waiter.join();
    }
  }
  ahead_seconds = 0;
}

TEST_CASE("the monotonic clock is not the time of day") {
  const Instant before = Now();
  const absl::Time date = absl::Now();
  ahead_seconds = 3600;
  CHECK(absl::Now() - date >= absl::Hours(1));
  CHECK(Now() - before < absl::Minutes(30));
  ahead_seconds = 0;
}

// absl::Now() counts on from what it last read of the clock for some two seconds, once it has been
// asked for a while; Abseil's timeouts are made of the clock itself.
TEST_CASE("nor does it in the seconds in which absl::Now() has not noticed it") {
  for (const int hours : {1, -1}) {
    INFO(hours << " hours ahead");
    for (const Instant end = Now() + absl::Milliseconds(1200); Now() < end;) {
      absl::Now();
      absl::SleepFor(absl::Milliseconds(1));
    }
    const absl::Duration took = Waited(hours, hours, /*by_clock=*/false);
    CHECK(took >= kWait);
    CHECK(took < kLongest);
  }
}

}  // namespace
}  // namespace warpsmith::base
