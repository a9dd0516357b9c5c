// Makes every timed wait of Abseil follow the monotonic clock, gRPC's own among them.
//
// Abseil 20220623 turns each timeout into a time of day and lets the kernel wait for that: set the
// machine's clock back by an hour, and Mutex::AwaitWithTimeout(..., 1 s) takes an hour and a
// second. gRPC keeps its timers with such waits (deadlines of calls, keepalive, reconnecting), so
// that a mutex of our own would mend half of it (github.com/grpc/grpc/issues/32176). Abseil leaves
// the wait of its semaphores to be replaced by whoever links it; this is the same wait, on the
// other clock. The time of day is read twice, when Abseil (or gRPC) makes its timeout and when the
// wait begins here, some microseconds later, or more where a thread is not given a processor. A
// clock that was set between the two is told by its distance from the monotonic one, which every
// wait looks at: for a moment after it has changed, the timeout may be of the old or of the new
// time of day, and the nearer of the two that have not long passed is taken. Both read the clock
// itself: absl::Now() does not, and notices up to two seconds late that it was set.
//
// From 20240116 on Abseil does this itself. Linked into whatever uses warpsmith_base
// (CMakeLists.txt).
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "absl/base/config.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

extern "C" {
// What the linker asks for, so that this file is not left out of a program.
extern const bool warpsmith_monotonic_waits;
const bool warpsmith_monotonic_waits = true;
}

#if ABSL_LTS_RELEASE_VERSION == 20220623

namespace {

using absl::synchronization_internal::KernelTimeout;
using absl::synchronization_internal::Waiter;

static_assert(ABSL_WAITER_MODE == ABSL_WAITER_MODE_FUTEX);
static_assert(sizeof(Waiter) == sizeof(std::atomic<int32_t>), "a Waiter is its count of posts");

bool TakePost(std::atomic<int32_t>& posts) {
  int32_t have = posts.load(std::memory_order_relaxed);
  while (have > 0) {
    if (posts.compare_exchange_weak(have, have - 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// A smaller change is a clock that is being corrected, or a thread that was held up between two
// readings.
constexpr int64_t kSetNs = 1'000'000'000;
// A timeout is no older than that when its wait begins.
constexpr int64_t kInDoubtNs = 1'000'000'000;

// Nanoseconds from the monotonic clock to the time of day, as the last wait found it and as it was
// before somebody set the clock (0: nobody looked yet, nobody has); and when that was noticed.
std::atomic<int64_t> offset_ns = 0, offset_before_ns = 0, noticed_ns = 0;

// The moment on CLOCK_MONOTONIC at which a time of day comes if nobody sets the clock.
timespec MonotonicOf(KernelTimeout timeout) {
  timespec date;
  clock_gettime(CLOCK_REALTIME, &date);
  const int64_t now = absl::ToInt64Nanoseconds(warpsmith::base::Now().since_origin());
  const int64_t offset = absl::ToInt64Nanoseconds(absl::DurationFromTimespec(date)) - now;
  int64_t known = offset_ns.load();
  if (std::abs(offset - known) > kSetNs && offset_ns.compare_exchange_strong(known, offset) &&
      known != 0) {
    offset_before_ns = known;
    noticed_ns = now;
  }
  const int64_t until =
      absl::ToInt64Nanoseconds(absl::DurationFromTimespec(timeout.MakeAbsTimespec()));
  int64_t at = until - offset;
  if (offset_before_ns.load() != 0 && now - noticed_ns.load() < kInDoubtNs) {
    const int64_t before = until - offset_before_ns.load();
    const auto has_just_passed = [now](int64_t moment) {
      return moment <= now && now - moment < kInDoubtNs;
    };
    if (has_just_passed(at) || has_just_passed(before)) {
      at = now;
    } else {
      at = std::min(at, before) >= now ? std::min(at, before) : std::max(at, before);
    }
  }
  return absl::ToTimespec(absl::Nanoseconds(std::max(at, now)));
}

}  // namespace

// Abseil's extension point: waits until somebody posts to this thread (true) or `timeout` (false).
extern "C" __attribute__((visibility("default"))) bool ABSL_INTERNAL_C_SYMBOL(
    AbslInternalPerThreadSemWait)(KernelTimeout timeout) {
  auto* const identity = absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  auto& posts = *reinterpret_cast<std::atomic<int32_t>*>(Waiter::GetWaiter(identity));
  timespec until{};
  if (timeout.has_timeout()) until = MonotonicOf(timeout);
  while (!TakePost(posts)) {
    // Absolute, and CLOCK_MONOTONIC as long as FUTEX_CLOCK_REALTIME is not asked for.
    const long ended =
        syscall(SYS_futex, &posts, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0,
                timeout.has_timeout() ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (ended != 0 && errno == ETIMEDOUT) return false;
  }
  return true;
}

#elif ABSL_LTS_RELEASE_VERSION < 20240116
#error "this Abseil waits by the time of day: look up its semaphore and make it monotonic here"
#endif
