#include "planner/core/allocator.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::planner {
namespace {

// What a first slice is taken to gain: more than most do, so that every task is tried early.
const double kUntriedGain = std::log(4.0);
// Distance to the light where nobody has said how far it is.
const double kUnknownHeadroom = std::log(2.0);
// The part of the headroom that a slice as long as all before it is hoped to close.
constexpr double kOptimism = 0.25;
// Gains shrink from slice to slice; each older one says half as much as the next.
constexpr double kGainDecay = 0.5;
constexpr double kHistoryWeight = 0.5;

double Headroom(const v1::Task& task) {
  if (task.light_us() <= 0 || task.best_us() <= 0) return kUnknownHeadroom;
  return std::max(0.0, std::log(task.best_us() / task.light_us()));
}

double Gain(const v1::SliceGain& slice) {
  if (slice.speedup_before() <= 0 || slice.speedup_after() <= 0) return 0;
  return std::max(0.0, std::log(slice.speedup_after() / slice.speedup_before()));
}

}  // namespace

double NextSlice(const v1::Task& task) {
  const double left = task.seconds_budget() - task.seconds_spent();
  if (left < kMinSliceSeconds) return 0;
  // Slices that ended early, lost or failed, do not count.
  const double share = task.slices() == 0 ? kFirstSlice : kNextSlice;
  const double slice = std::max(kMinSliceSeconds, share * task.seconds_budget());
  return left - slice < kMinSliceSeconds ? left : slice;
}

double ExpectedGain(const v1::Task& task) {
  const double slice = NextSlice(task);
  if (slice <= 0) return 0;
  if (task.gains_size() == 0) return kUntriedGain / slice;
  double gain = 0;
  double seconds = 0;
  double weight = 1;
  for (int i = task.gains_size() - 1; i >= 0; --i, weight *= kHistoryWeight) {
    gain += weight * Gain(task.gains(i));
    seconds += weight * task.gains(i).seconds();
  }
  const double headroom = Headroom(task);
  const double hoped = kOptimism * headroom * slice / (task.seconds_spent() + slice);
  const double rate = (kGainDecay * gain + hoped) / (seconds + slice);
  return std::min(rate, headroom / slice);
}

}  // namespace warpsmith::planner
