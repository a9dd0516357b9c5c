#include "worker/agent/incumbent.h"

#include "common/problem/speedup.h"

namespace warpsmith::agent {

void SetBaselines(const v1::BaselineReport& report, v1::Incumbent& incumbent) {
  *incumbent.mutable_baselines() = report;
  problem::TellForOneLaunch(incumbent.mutable_times(), incumbent.mutable_baselines());
  const problem::Speedups speedups = problem::SpeedupsOf(incumbent.times(), incumbent.baselines());
  incumbent.set_speedup(speedups.strongest);
  incumbent.set_speedup_eager(speedups.eager);
}

}  // namespace warpsmith::agent
