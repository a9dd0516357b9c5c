// How many states a second code generation describes on one core: schedules of a problem that
// differ in one knob, as agents ask for them. No device.
//
//   warpsmith-bench-describe problems/starter.json
#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>
#include <string>

#include "absl/time/clock.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith {
namespace {

struct Count {
  int64_t described = 0, refused = 0;
  double seconds = 0;
};

// Turns one knob of one group at a time, for `limit`.
Count Turn(const graph::Graph& graph, const codegen::Target& target, absl::Duration limit) {
  Count count;
  const v1::Schedule first = codegen::DefaultSchedule(graph, target);
  codegen::Describer describer(graph, target);
  auto infos = describer.Describe(first);
  if (!infos.ok()) return count;
  std::mt19937 random(1);
  const absl::Time start = absl::Now();
  while (absl::Now() - start < limit) {
    v1::Schedule schedule = first;
    const int g = static_cast<int>(random() % schedule.groups_size());
    const auto skeleton = (*infos)[g].resolved.skeleton_case();
    if (skeleton == v1::Group::SKELETON_NOT_SET) {
      if (schedule.groups_size() == 1) break;
      continue;
    }
    codegen::SetSkeleton(*schedule.mutable_groups(g), skeleton);
    const auto& rows = codegen::KnobsOf(skeleton);
    const auto& row = rows[random() % rows.size()];
    const auto values = codegen::ValuesOf(row, codegen::ValueOf((*infos)[g].resolved, row));
    codegen::SetValue(*schedule.mutable_groups(g), row, values[random() % values.size()]);
    ++(describer.Describe(schedule).ok() ? count.described : count.refused);
  }
  count.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return count;
}

int Run(const std::string& problems, double seconds) {
  auto set = problem::LoadSet(problems);
  if (!set.ok()) {
    std::fprintf(stderr, "%s\n", set.status().ToString().c_str());
    return 1;
  }
  Count all;
  std::printf("%-40s %12s %9s\n", "problem", "states/s", "refused");
  for (const auto& problem : set->problems()) {
    auto graph = problem::GraphOf(problem, problem.workloads(0));
    if (!graph.ok()) continue;
    const Count count = Turn(*graph, codegen::Target{}, absl::Seconds(seconds));
    if (count.seconds == 0) continue;
    std::printf("%-40s %12.0f %9lld\n", problem.name().c_str(),
                (count.described + count.refused) / count.seconds,
                static_cast<long long>(count.refused));
    all.described += count.described;
    all.refused += count.refused;
    all.seconds += count.seconds;
  }
  std::printf("%-40s %12.0f %9lld\n", "all", (all.described + all.refused) / all.seconds,
              static_cast<long long>(all.refused));
  return 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  std::string problems;
  double seconds = 0.2;
  CLI::App app("States that code generation describes a second on one core");
  app.add_option("problems", problems, "problem set (JSON)")->required();
  app.add_option("--seconds", seconds, "for each problem")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(problems, seconds);
}
