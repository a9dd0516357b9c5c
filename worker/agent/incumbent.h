// Speedups of an incumbent over its baselines.
#pragma once

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::agent {

// The baseline that a speedup is measured against: the fastest that meets the accuracy rule, or the
// fastest of all where none does. nullptr: there is none.
const v1::Baseline* StrongestBaseline(const v1::BaselineReport& report);

// Stores the baselines and both speedups: over the strongest, and over eager (op_by_op without
// PyTorch). 0 where one is unknown.
void SetBaselines(const v1::BaselineReport& report, v1::Incumbent& incumbent);

}  // namespace warpsmith::agent
