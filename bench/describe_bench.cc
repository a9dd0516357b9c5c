// How many states a second code generation describes on one core: schedules of a workload that
// differ in one knob, as agents ask for them, from the first on, when nothing is known of the graph
// yet; and what all moves of a state take, of the first schedule's and of those that a move of it
// leads to. By the time of the process, so that others on the machine count little. No device.
//
//   warpsmith-bench-describe problems/models.json
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "common/problem/problem.h"
#include "worker/agent/specialist.h"
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

// What the specialists offer, and how long that takes.
struct Moves {
  int states = 0, groups = 0;
  size_t moves = 0;
  double first_seconds = 0, next_seconds = 0;  // of the first state, and a state behind it
};

std::vector<agent::Action> All(const agent::State& state) {
  std::vector<agent::Action> all;
  for (const auto& specialist : agent::MakeSpecialists()) {
    for (agent::Action& action : specialist->Actions(state)) all.push_back(std::move(action));
  }
  return all;
}

Moves MovesOf(const graph::Graph& graph, const codegen::Target& target) {
  constexpr size_t kStates = 10;
  Moves moves;
  const auto shared = std::make_shared<const graph::Graph>(graph);
  double start = ProcessSeconds();
  const auto first = agent::MakeState(shared, codegen::FirstSchedule(graph, target), target);
  if (!first.ok()) return moves;
  const std::vector<agent::Action> actions = All(*first);
  moves.first_seconds = ProcessSeconds() - start;
  moves.groups = static_cast<int>(first->groups.size());
  moves.moves = actions.size();
  start = ProcessSeconds();
  for (size_t i = 0; i < actions.size(); i += actions.size() / kStates + 1) {
    const auto state = agent::MakeState(*first, actions[i].schedule);
    if (!state.ok()) continue;
    (void)All(*state);
    ++moves.states;
  }
  moves.next_seconds = (ProcessSeconds() - start) / std::max(1, moves.states);
  return moves;
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
  std::printf("%-50s %12s %9s %7s %6s %9s %9s\n", "workload", "states/s", "refused", "groups",
              "moves", "first ms", "next ms");
  const auto print = [](const std::string& name, const Count& count) {
    std::printf("%-50s %12.0f %9lld", name.c_str(), PerSecond(count),
                static_cast<long long>(count.refused));
  };
  for (const auto& problem : set->problems()) {
    for (const auto& workload : problem.workloads()) {
      auto graph = problem::GraphOf(problem, workload);
      if (!graph.ok()) continue;
      const Count count = Turn(*graph, codegen::Target{}, states);
      if (count.described + count.refused == 0) continue;
      print(problem.name() + " " + workload.name(), count);
      const Moves moves = MovesOf(*graph, codegen::Target{});
      std::printf(" %7d %6zu %9.1f %9.1f\n", moves.groups, moves.moves, moves.first_seconds * 1e3,
                  moves.next_seconds * 1e3);
      all.described += count.described;
      all.refused += count.refused;
      all.seconds += count.seconds;
    }
  }
  print("all", all);
  std::printf("\n");
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
