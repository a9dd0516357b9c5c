#include "common/problem/speedup.h"

#include <algorithm>
#include <vector>

namespace warpsmith::problem {

void TellForOneLaunch(v1::Times* candidate, v1::BaselineReport* report) {
  std::vector<v1::Times*> all;
  const auto add = [&](v1::Times* times) {
    if (times->graph_us() > 0 && times->launch_us() > 0) all.push_back(times);
  };
  add(candidate);
  for (v1::Baseline& baseline : *report->mutable_baselines()) add(baseline.mutable_times());
  if (all.empty()) return;
  const double least = (*std::min_element(all.begin(), all.end(), [](v1::Times* a, v1::Times* b) {
                         return a->launch_us() < b->launch_us();
                       }))->launch_us();
  for (v1::Times* times : all) {
    times->set_graph_us(times->graph_us() - times->launch_us() + least);
    times->set_launch_us(least);
  }
}

double QuickestUs(const v1::Baseline& baseline) {
  const double graph = baseline.times().graph_us(), call = baseline.times().call_us();
  return graph > 0 && call > 0 ? std::min(graph, call) : std::max(graph, call);
}

std::string QuickestName(const v1::Baseline& baseline) {
  const double graph = baseline.times().graph_us();
  if (graph <= 0 || graph > QuickestUs(baseline) || baseline.name() == kOpByOp) {
    return baseline.name();
  }
  return baseline.name() == kEager ? "graph" : baseline.name() + "_graph";
}

const v1::Baseline* Strongest(const v1::BaselineReport& report) {
  const v1::Baseline* strongest = nullptr;
  for (const v1::Baseline& baseline : report.baselines()) {
    if (!baseline.accurate() || QuickestUs(baseline) <= 0) continue;
    if (strongest == nullptr || QuickestUs(baseline) < QuickestUs(*strongest)) {
      strongest = &baseline;
    }
  }
  return strongest;
}

Speedups SpeedupsOf(const v1::Times& candidate, const v1::BaselineReport& report) {
  Speedups speedups;
  const v1::Baseline* const strongest = Strongest(report);
  if (strongest != nullptr && candidate.graph_us() > 0) {
    speedups.strongest = QuickestUs(*strongest) / candidate.graph_us();
  }
  for (const v1::Baseline& baseline : report.baselines()) {
    if (baseline.name() != kEager && baseline.name() != kOpByOp) continue;
    const v1::Times& theirs = baseline.times();
    if (theirs.call_us() > 0 && candidate.call_us() > 0) {
      speedups.eager = theirs.call_us() / candidate.call_us();
    } else if (theirs.graph_us() > 0 && candidate.graph_us() > 0) {
      speedups.eager = theirs.graph_us() / candidate.graph_us();
    }
  }
  return speedups;
}

}  // namespace warpsmith::problem
