// The host device's clock: the processor time of the calling thread, on which its kernels run. What
// other processes and other guests of the machine take in between is not in it, so that a busy
// machine makes nothing slower and no hang of what is right.
//
// Async-signal-safe.
#pragma once

#include <time.h>

#include <cstdint>

namespace warpsmith::device {

inline int64_t HostNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// Since `start`, an earlier HostNanoseconds() of this thread.
inline double HostSecondsSince(int64_t start) {
  return 1e-9 * static_cast<double>(HostNanoseconds() - start);
}

}  // namespace warpsmith::device
