#include "worker/agent/state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "worker/agent/moves.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::agent {
namespace {

// log(time / light) assumed before anything was measured.
constexpr double kUnmeasuredRoom = 0.7;

// What a group may be said to take longer than estimated.
constexpr double kMostSlower = 10;

int64_t BytesOf(const codegen::GroupInfo& info) { return info.bytes_read + info.bytes_written; }

void InheritTimes(const State& from, State& state) {
  if (from.group_us.empty()) return;
  std::unordered_map<std::string, int> before;  // by their first root, which no two share
  for (int b = 0; b < from.schedule.groups_size(); ++b)
    before.emplace(GroupName(from.schedule.groups(b)), b);
  state.group_us.assign(state.schedule.groups_size(), 0);
  for (int g = 0; g < state.schedule.groups_size(); ++g) {
    const v1::Group& group = state.schedule.groups(g);
    const auto found = before.find(GroupName(group));
    if (found != before.end() && Bytes(from.schedule.groups(found->second)) == Bytes(group))
      state.group_us[g] = from.group_us[found->second];
  }
}

}  // namespace

const graph::Graph& State::graph() const { return described->graph; }

std::vector<codegen::Layout> State::Layouts(int group) const {
  return described->describer.Layouts(schedule, group);
}

bool State::Resolves(const v1::Schedule& other, int group) const {
  return described->describer.Check(other, group).ok();
}

absl::StatusOr<State> MakeState(std::shared_ptr<const graph::Graph> original,
                                const v1::Schedule& schedule, const codegen::Target& target) {
  auto rewritten = codegen::Rewrite(*original, schedule.rewrites());
  if (!rewritten.ok()) return rewritten.status();
  State state;
  state.original = std::move(original);
  state.described = std::make_shared<Described>(*std::move(rewritten), target);
  state.target = target;
  state.schedule = schedule;
  auto groups = state.described->describer.Describe(schedule);
  if (!groups.ok()) return groups.status();
  state.groups = *std::move(groups);
  return state;
}

absl::StatusOr<State> MakeState(const State& from, const v1::Schedule& schedule) {
  const auto& rewrites = from.schedule.rewrites();
  if (!std::equal(rewrites.begin(), rewrites.end(), schedule.rewrites().begin(),
                  schedule.rewrites().end())) {
    auto state = MakeState(from.original, schedule, from.target);
    if (!state.ok()) return state.status();
    state->light_us = from.light_us;
    state->roof = from.roof;
    return state;
  }
  auto groups = from.described->describer.Describe(schedule);
  if (!groups.ok()) return groups.status();
  State state;
  state.original = from.original;
  state.described = from.described;
  state.target = from.target;
  state.schedule = schedule;
  state.groups = *std::move(groups);
  state.light_us = from.light_us;
  state.roof = from.roof;
  InheritTimes(from, state);
  return state;
}

double EstimateOf(const State& state) {
  double seconds = 0;
  for (const codegen::GroupInfo& group : state.groups) seconds += group.seconds;
  return seconds;
}

int GroupOfEntry(const State& state, absl::string_view entry) {
  for (int g = 0; g < state.schedule.groups_size(); ++g) {
    const int root = state.graph().Find(GroupName(state.schedule.groups(g)));
    if (absl::StartsWith(entry, codegen::EntryPrefix(root))) return g;
  }
  return -1;
}

void TakeTimes(State& state, const v1::Profile& profile, int workload) {
  std::vector<double> us(state.groups.size());
  double all = 0;
  for (const auto& kernel : profile.kernels()) {
    if (kernel.workload() != workload) continue;
    all += kernel.us();
    if (const int g = GroupOfEntry(state, kernel.entry()); g >= 0) us[g] += kernel.us();
  }
  if (all <= 0 || state.time_us <= 0) return;
  for (double& one : us) one *= state.time_us / all;
  state.group_us = std::move(us);
}

double Share(const State& state, int index) {
  double own = 0, all = 0;
  const auto add = [&](const std::function<double(int)>& of) {
    own = of(index);
    all = 0;
    for (int g = 0; g < static_cast<int>(state.groups.size()); ++g) all += of(g);
    return all > 0;
  };
  const auto us = [&](int g) {
    const double measured = state.group_us.empty() ? 0 : state.group_us[g];
    return measured > 0 ? measured : 1e6 * state.groups[g].seconds;
  };
  if (!add(us) && !add([&](int g) { return static_cast<double>(BytesOf(state.groups[g])); }))
    return 1;
  return own / all;
}

double Slower(const State& state, int index) {
  const double estimated = 1e6 * state.groups[index].seconds;
  if (state.group_us.empty() || estimated <= 0) return 1;
  return std::clamp(state.group_us[index] / estimated, 1.0, kMostSlower);
}

double Room(const State& state, int index) {
  double room = kUnmeasuredRoom;
  if (state.time_us > 0 && state.light_us > 0) {
    room = std::clamp(std::log(state.time_us / state.light_us), 0.02, 3.0);
  }
  return room * Share(state, index);
}

int LargestGroup(const State& state) {
  int largest = -1;
  for (int i = 0; i < state.groups.size(); ++i) {
    if (largest < 0 || BytesOf(state.groups[i]) > BytesOf(state.groups[largest])) largest = i;
  }
  return largest;
}

bool RoundsToHalves(const graph::Graph& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const graph::Tensor& tensor) {
    return tensor.node >= 0 && codegen::IsHalf(tensor.type);
  });
}

namespace {

// The tensor in fp32 that a tensor is made of by maps of 16 bits, and of nothing else that is
// computed; -1: there is none.
int RoundedFrom(const graph::Graph& graph, int tensor) {
  while (true) {
    const graph::Node& node = graph.nodes[graph.tensors[tensor].node];
    if (!node.map()) return -1;
    int from = -1;
    for (const int read : graph::LoadedTensors(node.value)) {
      if (graph.tensors[read].node < 0 || read == from) continue;
      if (from >= 0) return -1;
      from = read;
    }
    if (from < 0 || graph.tensors[from].elements() != graph.tensors[tensor].elements()) return -1;
    const graph::DType type = graph.tensors[from].type;
    if (type == graph::DType::kF32) return from;
    if (!codegen::IsHalf(type)) return -1;
    tensor = from;
  }
}

// The tensor in which all that read a tensor have it in fp32; -1: there is none.
int WidenedOf(const graph::Graph& graph, int tensor) {
  const auto is = [&](int other) { return other == tensor; };
  int widened = -1;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node < 0) continue;
    const graph::Node& node = graph.nodes[graph.tensors[t].node];
    const auto loads = graph::LoadedTensors(node.value);
    if (std::none_of(loads.begin(), loads.end(), is)) continue;
    const graph::Expr& value = *node.value;
    const bool widens = node.map() && value.op == graph::Op::kCast &&
                        value.type == graph::DType::kF32 && value.args[0]->op == graph::Op::kLoad &&
                        graph.tensors[t].elements() == graph.tensors[tensor].elements();
    if (!widens || widened >= 0) return -1;
    widened = static_cast<int>(t);
  }
  return widened;
}

// Whether a product of matrices has it, or what only moves or casts it, for a factor, each element
// several times.
bool IsFactor(const graph::Graph& graph, int tensor) {
  std::set<int> same = {tensor};
  for (const graph::Node& node : graph.nodes) {
    const auto loads = graph::LoadedTensors(node.value);
    if (std::none_of(loads.begin(), loads.end(), [&](int t) { return same.count(t) > 0; }))
      continue;
    const int64_t points = codegen::Product(node.axes) * codegen::Product(node.reduce_axes);
    if (node.reduce && node.value->op == graph::Op::kMul &&
        points > graph.tensors[tensor].elements())
      return true;
    const graph::Expr* value = node.value.get();
    while (value->op == graph::Op::kCast) value = value->args[0].get();
    if (node.map() && value->op == graph::Op::kLoad) same.insert(node.outputs[0]);
  }
  return false;
}

}  // namespace

v1::Schedule Unrounded(const graph::Graph& graph, v1::Schedule schedule, bool factors,
                       const std::set<std::string>& keep) {
  if (!RoundsToHalves(graph)) return schedule;
  const std::vector<int> results = codegen::ResultsOf(graph);
  std::set<int> stored;
  for (const v1::Group& group : schedule.groups()) {
    for (const std::string& root : group.roots()) stored.insert(graph.Find(root));
  }
  v1::Schedule whole = schedule;
  whole.clear_groups();
  for (v1::Group& group : *schedule.mutable_groups()) {
    const std::vector<std::string> roots(group.roots().begin(), group.roots().end());
    group.clear_roots();
    group.mutable_precision()->set_unrounded(true);
    for (std::string root : roots) {
      const int tensor = graph.Find(root);
      const graph::DType type = graph.tensors[tensor].type;
      bool there = false;  // what is read instead is stored already
      if (codegen::IsHalf(type) && std::count(results.begin(), results.end(), tensor) == 0 &&
          keep.count(root) == 0 && (factors || !IsFactor(graph, tensor))) {
        for (const int wide : {WidenedOf(graph, tensor), RoundedFrom(graph, tensor)}) {
          if (wide < 0) continue;
          there = !stored.insert(wide).second;
          root = graph.tensors[wide].name;
          break;
        }
      }
      if (!there) group.add_roots(root);
    }
    if (!group.roots().empty()) *whole.add_groups() = group;
  }
  return whole;
}

}  // namespace warpsmith::agent
