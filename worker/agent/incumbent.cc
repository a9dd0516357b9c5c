#include "worker/agent/incumbent.h"

namespace warpsmith::agent {

const v1::Baseline* StrongestBaseline(const v1::BaselineReport& report) {
  const v1::Baseline* strongest = nullptr;
  for (const auto& baseline : report.baselines()) {
    if (baseline.median_us() <= 0) continue;
    const bool better = strongest == nullptr || (baseline.accurate() && !strongest->accurate()) ||
                        (baseline.accurate() == strongest->accurate() &&
                         baseline.median_us() < strongest->median_us());
    if (better) strongest = &baseline;
  }
  return strongest;
}

void SetBaselines(const v1::BaselineReport& report, v1::Incumbent& incumbent) {
  *incumbent.mutable_baselines() = report;
  incumbent.set_speedup(0);
  incumbent.set_speedup_eager(0);
  const double time_us = incumbent.trial().timing().median_us();
  if (time_us <= 0) return;
  if (const auto* strongest = StrongestBaseline(report)) {
    incumbent.set_speedup(strongest->median_us() / time_us);
  }
  for (const auto& baseline : report.baselines()) {
    if (baseline.name() == "eager" || baseline.name() == "op_by_op") {
      incumbent.set_speedup_eager(baseline.median_us() / time_us);
    }
  }
}

}  // namespace warpsmith::agent
