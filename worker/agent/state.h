// What a specialist sees when it proposes: one schedule, what its groups are, and what was
// measured.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "warpsmith/v1/trial.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::agent {

// A lease has one workload. One of a task that was stored before each workload had its own has
// several, and one schedule for all; knobs are chosen for the one that moves the most bytes.
struct State {
  std::string trial_id;  // of the trial that judged this schedule, or judges it now
  v1::Schedule schedule;
  std::shared_ptr<const graph::Graph> original;  // that workload's, before any rewrite
  std::shared_ptr<struct Described> described;   // the graph after schedule.rewrites
  std::vector<codegen::GroupInfo> groups;        // parallel to schedule.groups
  codegen::Target target;
  v1::StaticReport report;  // empty until it was compiled
  double time_us = 0;       // 0 until it was measured
  // Of each group, in proportion to its kernels' in a profile; 0 where that is not known; empty:
  // there was no profile.
  std::vector<double> group_us;
  double light_us = 0;  // speed of light on this device; 0: unknown
  graph::Roof roof;     // of this device, measured

  const graph::Graph& graph() const;
  // Joint moves of a group.
  std::vector<codegen::Layout> Layouts(int group) const;
  // Whether that group's knobs are ones that its kernel can have.
  bool Resolves(const v1::Schedule& schedule, int group) const;
};

// A rewritten graph and what is known of schedules of it. States of one graph share it.
struct Described {
  Described(graph::Graph rewritten, const codegen::Target& target)
      : graph(std::move(rewritten)), describer(graph, target) {}
  const graph::Graph graph;
  codegen::Describer describer;
};

// InvalidArgument: the schedule is not one for this graph.
absl::StatusOr<State> MakeState(std::shared_ptr<const graph::Graph> original,
                                const v1::Schedule& schedule, const codegen::Target& target);
// The same problem on the same card under another schedule; cheap where it has the same rewrites,
// and then groups that stay as they are take as long as they did.
absl::StatusOr<State> MakeState(const State& from, const v1::Schedule& schedule);

// Seconds that its groups are estimated to take.
double EstimateOf(const State& state);

// The group that a kernel belongs to, by its entry; -1: none does.
int GroupOfEntry(const State& state, absl::string_view entry);
// What groups take of the state's time, by its kernels' profile.
void TakeTimes(State& state, const v1::Profile& profile, int workload);

// Fraction of what all groups take that group `index` does, 0..1: measured, or estimated, or else
// of the bytes that they move.
double Share(const State& state, int index);
// How many times as long as estimated the group was measured to take, 1..10; 1: as long or less, or
// it is not known. There another way to make the same is likelier to pay.
double Slower(const State& state, int index);

// Gain in log time that is left for group `index`: its share of log(time / light). Before anything
// was measured half of that range is assumed.
double Room(const State& state, int index);

// The group that moves most bytes; -1: there is none.
int LargestGroup(const State& state);

// Whether some of what the graph computes is rounded to 16 bits.
bool RoundsToHalves(const graph::Graph& graph);
// The schedule with no digits lost to roundings to 16 bits on the way to what is stored; and where
// that is read in fp32 alone, it is stored so. Without `factors`, those of products stay stored as
// they are; and so do those of `keep`.
v1::Schedule Unrounded(const graph::Graph& graph, v1::Schedule schedule, bool factors,
                       const std::set<std::string>& keep = {});

}  // namespace warpsmith::agent
