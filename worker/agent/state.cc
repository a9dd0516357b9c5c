#include "worker/agent/state.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace warpsmith::agent {
namespace {

// log(time / light) assumed before anything was measured.
constexpr double kUnmeasuredRoom = 0.7;

int64_t BytesOf(const codegen::GroupInfo& info) { return info.bytes_read + info.bytes_written; }

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
  return state;
}

double Share(const State& state, int index) {
  int64_t all = 0;
  for (const auto& info : state.groups) all += BytesOf(info);
  return all > 0 ? static_cast<double>(BytesOf(state.groups[index])) / all : 1.0;
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
    return tensor.node >= 0 && graph::IsFloat(tensor.type) && graph::SizeOf(tensor.type) == 2;
  });
}

}  // namespace warpsmith::agent
