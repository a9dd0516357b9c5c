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

// What is known of a task before its next slice.
struct Prospect {
  double budget = 0, spent = 0;  // seconds
  int slices = 0;
  double headroom = 0;
  bool tried = false;
  double gain = 0, seconds = 0;  // of the slices so far, each older one with half the weight
};

Prospect ProspectOf(const v1::Task& task) {
  Prospect prospect = {.budget = task.seconds_budget(),
                       .spent = task.seconds_spent(),
                       .slices = task.slices(),
                       .headroom = Headroom(task),
                       .tried = task.gains_size() > 0};
  double weight = 1;
  for (int i = task.gains_size() - 1; i >= 0; --i, weight *= kHistoryWeight) {
    prospect.gain += weight * Gain(task.gains(i));
    prospect.seconds += weight * task.gains(i).seconds();
  }
  return prospect;
}

double SliceOf(double budget, double spent, int slices) {
  const double left = budget - spent;
  if (left < kMinSliceSeconds) return 0;
  // Slices that ended early, lost or failed, do not count.
  const double share = slices == 0 ? kFirstSlice : kNextSlice;
  const double slice = std::max(kMinSliceSeconds, share * budget);
  return left - slice < kMinSliceSeconds ? left : slice;
}

double RateOf(const Prospect& of, double slice) {
  if (!of.tried) return kUntriedGain / slice;
  const double hoped = kOptimism * of.headroom * slice / (of.spent + slice);
  const double rate = (kGainDecay * of.gain + hoped) / (of.seconds + slice);
  return std::min(rate, of.headroom / slice);
}

}  // namespace

double NextSlice(const v1::Task& task) {
  return SliceOf(task.seconds_budget(), task.seconds_spent(), task.slices());
}

double ExpectedGain(const v1::Task& task) {
  const double slice = NextSlice(task);
  return slice <= 0 ? 0 : RateOf(ProspectOf(task), slice);
}

double ExpectedGainOfRest(const v1::Task& task) {
  Prospect next = ProspectOf(task);
  double sum = 0;
  while (true) {
    const double slice = SliceOf(next.budget, next.spent, next.slices);
    if (slice <= 0) return sum;
    const double gain = RateOf(next, slice) * slice;
    sum += gain;
    next.spent += slice;
    ++next.slices;
    next.headroom = std::max(0.0, next.headroom - gain);
    next.tried = true;
    next.gain = gain + kHistoryWeight * next.gain;
    next.seconds = slice + kHistoryWeight * next.seconds;
  }
}

}  // namespace warpsmith::planner
