// How many states a second code generation describes on one core: schedules of a workload that
// differ in one knob, as agents ask for them, from the first on, when nothing is known of the graph
// yet. By the time of the process, so that others on the machine count little. No device.
//
//   warpsmith-bench-describe problems/models.json
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>

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

double ProcessSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Turns one knob of one group at a time, `states` times.
Count Turn(const graph::Graph& graph, const codegen::Target& target, int states) {
  Count count;
  const v1::Schedule first = codegen::DefaultSchedule(graph, target);
  codegen::Describer describer(graph, target);
  auto infos = describer.Describe(first);
  if (!infos.ok()) return count;
  std::mt19937 random(1);
  const double start = ProcessSeconds();
  for (int i = 0; i < states; ++i) {
    v1::Schedule schedule = first;
    const int g = static_cast<int>(random() % schedule.groups_size());
    const auto skeleton = (*infos)[g].resolved.skeleton_case();
    if (skeleton == v1::Group::SKELETON_NOT_SET) continue;
    codegen::SetSkeleton(*schedule.mutable_groups(g), skeleton);
    const auto& rows = codegen::KnobsOf(skeleton);
    const auto& row = rows[random() % rows.size()];
    const auto values = codegen::ValuesOf(row, codegen::ValueOf((*infos)[g].resolved, row));
    codegen::SetValue(*schedule.mutable_groups(g), row, values[random() % values.size()]);
    ++(describer.Describe(schedule).ok() ? count.described : count.refused);
  }
  count.seconds = ProcessSeconds() - start;
  return count;
}

double PerSecond(const Count& count) {
  return static_cast<double>(count.described + count.refused) / count.seconds;
}

int Run(const std::string& problems, int states) {
  auto set = problem::LoadSet(problems);
  if (!set.ok()) {
    std::fprintf(stderr, "%s\n", set.status().ToString().c_str());
    return 1;
  }
  Count all;
  std::printf("%-50s %12s %9s\n", "workload", "states/s", "refused");
  const auto print = [](const std::string& name, const Count& count) {
    std::printf("%-50s %12.0f %9lld\n", name.c_str(), PerSecond(count),
                static_cast<long long>(count.refused));
  };
  for (const auto& problem : set->problems()) {
    for (const auto& workload : problem.workloads()) {
      auto graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) continue;
      const Count count = Turn(*graph, codegen::Target{}, states);
      if (count.described + count.refused == 0) continue;
      print(problem.name() + " " + workload.name(), count);
      all.described += count.described;
      all.refused += count.refused;
      all.seconds += count.seconds;
    }
  }
  print("all", all);
  return 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  std::string problems;
  int states = 2000;
  CLI::App app("States that code generation describes a second on one core");
  app.add_option("problems", problems, "problem set (JSON)")->required();
  app.add_option("--states", states, "of each workload")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(problems, states);
}
