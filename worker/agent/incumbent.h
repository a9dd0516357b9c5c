// Speedups of an incumbent over its baselines.
#pragma once

#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::agent {

// Stores the baselines and both speedups of the incumbent's times over them
// (common/problem/speedup.h). 0 where one is unknown.
void SetBaselines(const v1::BaselineReport& report, v1::Incumbent& incumbent);

}  // namespace warpsmith::agent
