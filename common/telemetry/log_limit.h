// How many lines of each kind go to a log: some at once, and then so many a second. What a
// misbehaving worker or client brings about, and what a fleet of thousands does all the time, costs
// no more than that.
//
//   LogLimit limit({.lines_per_second = 20, .lines_at_once = 200});
//   if (!limit.Takes(kLeaseGranted, now)) return;
//   for (const LogLimit::LeftOut& out : limit.TakeLeftOut(now)) ...    // from time to time
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/telemetry/log_line.h"

namespace warpsmith::telemetry {

class LogLimit {
 public:
  struct Options {
    double lines_per_second = 20;  // of each kind; 0: there is no limit
    double lines_at_once = 200;
    absl::Duration between_told = absl::Seconds(10);
  };
  explicit LogLimit(const Options& options) : options_(options) {}

  // Whether the line is to be written. Of what is critical each is.
  bool Takes(const LogEvent& event, base::Instant now);
  struct LeftOut {
    const LogEvent* event = nullptr;
    int64_t lines = 0;
  };
  // Since it was last told of them; at most so often for each kind.
  std::vector<LeftOut> TakeLeftOut(base::Instant now);
  // Ever.
  int64_t left_out() const { return left_out_; }

 private:
  struct Kind {
    double room = 0;  // lines that may be written now, as of `since`
    base::Instant since;
    int64_t untold = 0;
    base::Instant told = base::Instant::InfinitePast();
  };

  const Options options_;
  std::atomic<int64_t> left_out_{0};
  absl::Mutex mutex_;
  absl::flat_hash_map<const LogEvent*, Kind> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace warpsmith::telemetry
