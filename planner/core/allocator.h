// What a task's next slice promises. A free worker takes the task (queue.h) whose next slice is
// expected to raise the set's score, the geometric mean of speedups, most for each GPU second. In
// logarithms the mean is a sum, so a task's share of it is its own gain in log speedup.
//
// The estimate is optimistic where little is known: an untried task comes before all but the most
// rewarding tried ones, and a tried one keeps a share of its headroom (the distance to the speed of
// light) that shrinks with the time spent on it.
//
// Pure functions; any thread.
#pragma once

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

// A worker is moved from the task it is warm on only to one that promises this much more.
inline constexpr double kMoveMargin = 1.25;
// Shares of a task's budget: the first slice finds the large gains, later ones go where they pay.
// Few and long, since each opens the problem again (inputs, reference, baselines).
inline constexpr double kFirstSlice = 0.7;
inline constexpr double kNextSlice = 0.3;
// A shorter slice would go into opening the problem. What would be left behind is added.
inline constexpr double kMinSliceSeconds = 2;

// Length of the next slice, in seconds: at most what is left of the budget. 0: nothing is left.
double NextSlice(const v1::Task& task);

// Expected gain in log speedup a GPU second over the next slice. 0 where no slice is left.
double ExpectedGain(const v1::Task& task);

// Whether budget goes into it as things are: it waits, or is worked on.
inline bool GoesOn(const v1::Task& task) {
  return task.state() == v1::QUEUED || task.state() == v1::LEASED;
}

// Expected gain in log speedup over all that is left of the budget: slice after slice, each of
// which brings what is expected of it once those before it have.
double ExpectedGainOfRest(const v1::Task& task);

}  // namespace warpsmith::planner
