// What a task adds to its run's scores: the one that is reached, the one that may be expected, and
// the one that is there to be reached. A score is the geometric mean over tasks, so what each adds
// is a logarithm of its speedup over the strongest baseline, and a mean of these is the score's.
//
// Pure; any thread.
#pragma once

#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

// In log speedup, each at least as much as the one before. All 0 where there is no kernel, or one
// that is slower than the baseline: a user would run that then (board::ScoreOf).
struct Outlook {
  double reached = 0;
  // With what ExpectedGainOfRest expects of a task that GoesOn, and no more than the limit. What
  // the slice under way has brought by now is part of what was expected of it.
  double expected = 0;
  // At the speed of light: what launching takes stays.
  double limit = 0;
};
Outlook OutlookOf(const v1::TaskRecord& record);

}  // namespace warpsmith::planner
