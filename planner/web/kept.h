// What takes its time to make and is wanted by several: made by one at a time, and kept for those
// who want the same soon after. So however many ask, only so much is made.
//
//   Kept kept;
//   Kept::Made made = kept.Get("r1/gelu@host", [] { return Make(); });
//
// Any thread; Get blocks while something is made.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace warpsmith::web {

inline constexpr absl::Duration kKeepFor = absl::Seconds(2);
// Callers that wait for their turn; more are told to come again.
inline constexpr int kMaxWaiting = 8;

class Kept {
 public:
  using Made = absl::StatusOr<std::string>;

  // ResourceExhausted: too many wait. Else what `make` said, less than kKeepFor ago.
  Made Get(const std::string& name, const std::function<Made()>& make);

 private:
  struct Entry {
    Made made;
    base::Instant at;
  };
  absl::Mutex making_;
  absl::Mutex mutex_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(making_);
};

}  // namespace warpsmith::web
