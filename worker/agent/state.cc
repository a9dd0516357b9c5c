#include "worker/agent/state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/codegen/knob/knob.h"

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
    return MakeState(from.original, schedule, from.target);
  }
  auto groups = from.described->describer.Describe(schedule);
  if (!groups.ok()) return groups.status();
  State state;
  state.original = from.original;
  state.described = from.described;
  state.target = from.target;
  state.schedule = schedule;
  state.groups = *std::move(groups);
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

std::map<std::string, double> Features(const State& state) {
  std::map<std::string, double> features;
  double read = 0, written = 0, operations = 0, transcendental = 0;
  int main = 0;
  for (int i = 0; i < state.groups.size(); ++i) {
    const auto& info = state.groups[i];
    read += info.bytes_read;
    written += info.bytes_written;
    operations += info.operations;
    transcendental += info.transcendental;
    if (BytesOf(info) > BytesOf(state.groups[main])) main = i;
  }
  features["groups"] = state.groups.size();
  features["bytes_read"] = read;
  features["bytes_written"] = written;
  features["operations"] = operations;
  features["transcendental"] = transcendental;
  features["operations_per_byte"] = read + written > 0 ? operations / (read + written) : 0;
  features["time_us"] = state.time_us;
  features["light_us"] = state.light_us;
  features["light_share"] = state.time_us > 0 ? state.light_us / state.time_us : 0;
  if (!state.groups.empty()) {
    const auto& info = state.groups[main];
    features["main.share"] = Share(state, main);
    features["main.skeleton"] = info.skeleton;
    features["main.stages"] = info.stages;
    features["main.row_outputs"] = info.row_outputs;
    features["main.rows"] = info.rows;
    features["main.row_elements"] = info.row_elements;
    features["main.width"] = info.width;
    features["main.blocks"] = info.blocks;
    features["main.estimated_us"] = info.seconds * 1e6;
    features["main.streams"] = info.streams;
    features["main.aligned"] = info.aligned;
    if (info.resolved.skeleton_case() != v1::Group::SKELETON_NOT_SET) {
      for (const auto& row : codegen::KnobsOf(info.skeleton))
        features[absl::StrCat("main.", row.name)] = codegen::ValueOf(info.resolved, row);
    }
  }
  int registers = 0, spills = 0, shared = 0, resident = 0;
  for (const auto& kernel : state.report.kernels()) {
    registers = std::max(registers, kernel.registers());
    spills = std::max(spills, kernel.spill_bytes());
    shared = std::max(shared, kernel.shared_bytes());
    resident = resident == 0 ? kernel.blocks_per_sm() : std::min(resident, kernel.blocks_per_sm());
  }
  features["kernels"] = state.report.kernels_size();
  features["registers"] = registers;
  features["spill_bytes"] = spills;
  features["shared_bytes"] = shared;
  features["resident_blocks"] = resident;
  return features;
}

}  // namespace warpsmith::agent
