#include "worker/agent/record.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/graph/signature.h"
#include "worker/agent/moves.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::agent {
namespace {

// What other units do for each fp32 operation at peak (a fused multiply-add counts as two): of
// compute capability 9.0, 16 results of a special function unit and 64 fused multiply-adds of fp64
// a cycle and SM against 128 of fp32 (CUDA C++ Programming Guide, arithmetic instructions).
constexpr double kSpecialRate = 1.0 / 16;
constexpr double kFp64Rate = 1.0 / 2;

double MicrosecondsAt(double amount, double rate) { return rate > 0 ? amount / rate * 1e6 : 0; }

double MovedBytes(const codegen::GroupInfo& info) {
  return static_cast<double>(info.bytes_read + info.bytes_written);
}

// The group of a schedule that has a root of that name; -1: none.
int GroupWith(const v1::Schedule& schedule, const std::string& root) {
  for (int g = 0; g < schedule.groups_size(); ++g) {
    const auto& roots = schedule.groups(g).roots();
    if (std::find(roots.begin(), roots.end(), root) != roots.end()) return g;
  }
  return -1;
}

// The group that a move changes, in the schedule before it or after it: the largest where the move
// is one of the schedule as a whole.
int ChangedGroup(const State& state, const v1::Move& move) {
  for (const std::string* root : {&move.group(), &move.to()}) {
    if (const int group = GroupWith(state.schedule, *root); group >= 0) return group;
  }
  return LargestGroup(state);
}

// Operations that are done in fp64: all where that is the type of what is made, else what is added
// up in it.
double Fp64Operations(const State& state, int group, const codegen::GroupInfo& info) {
  for (const std::string& root : state.schedule.groups(group).roots()) {
    const int tensor = state.graph().Find(root);
    if (tensor >= 0 && state.graph().tensors[tensor].type == graph::DType::kF64) {
      return info.operations;
    }
  }
  if (!info.reduces || info.resolved.precision().accumulator() != v1::ACCUMULATOR_F64) return 0;
  return static_cast<double>(info.rows) * static_cast<double>(info.row_elements) *
         std::max(1, info.stages);
}

// Of the group's first kernel, by the compiler; null: it has not spoken.
const v1::StaticReport::Kernel* KernelOf(const State& state, int group) {
  const std::string prefix =
      codegen::EntryPrefix(state.graph().Find(GroupName(state.schedule.groups(group))));
  for (const auto& kernel : state.report.kernels()) {
    // Not the one behind it that combines what blocks have left.
    if (absl::StartsWith(kernel.entry(), prefix) && !absl::EndsWith(kernel.entry(), "_combine")) {
      return &kernel;
    }
  }
  return nullptr;
}

// Blocks, and what they take of an SM.
void AddResidency(const State& state, int group, v1::GroupFeatures& features) {
  const codegen::GroupInfo& info = state.groups[group];
  const codegen::Target& card = state.target;
  double registers = static_cast<double>(info.registers);
  double shared = static_cast<double>(info.shared_bytes);
  if (const auto* kernel = KernelOf(state, group); kernel != nullptr && kernel->registers() > 0) {
    registers = kernel->registers();
    shared = std::max<double>(shared, kernel->shared_bytes());
  }
  features.set_blocks(static_cast<double>(info.blocks));
  features.set_threads(info.threads);
  features.set_registers(registers);
  features.set_shared_bytes(shared);
  if (info.threads <= 0 || info.blocks <= 0) return;
  int64_t resident =
      std::min<int64_t>(card.max_blocks_per_sm, card.max_threads_per_sm / info.threads);
  const double block_registers = registers * info.threads;
  if (block_registers > 0) {
    resident = std::min<int64_t>(
        resident,
        static_cast<int64_t>(static_cast<double>(card.registers_per_sm) / block_registers));
  }
  if (shared > 0 && card.shared_per_sm > 0) {
    resident = std::min<int64_t>(
        resident, static_cast<int64_t>(static_cast<double>(card.shared_per_sm) / shared));
  }
  resident = std::max<int64_t>(1, resident);
  const double slots = static_cast<double>(resident) * card.sm_count;
  features.set_waves(static_cast<double>(info.blocks) / slots);
  const double on_sm =
      std::min<double>(static_cast<double>(resident),
                       std::max(1.0, static_cast<double>(info.blocks) / card.sm_count));
  features.set_occupancy(on_sm * info.threads / card.max_threads_per_sm);
  features.set_register_share(block_registers * on_sm / static_cast<double>(card.registers_per_sm));
  if (card.shared_per_sm > 0) {
    features.set_shared_share(shared * on_sm / static_cast<double>(card.shared_per_sm));
  }
}

// Which knobs the two settings of a group have otherwise; what each resolves to.
void AddKnobs(const State& from, const State& after, v1::Move& move) {
  const int before_group = GroupWith(from.schedule, move.group());
  const int after_group = GroupWith(after.schedule, move.group());
  if (before_group < 0 || after_group < 0) return;
  const codegen::GroupInfo& before = from.groups[before_group];
  const codegen::GroupInfo& now = after.groups[after_group];
  if (before.skeleton != now.skeleton ||
      now.resolved.skeleton_case() == v1::Group::SKELETON_NOT_SET) {
    return;
  }
  v1::Group was = from.schedule.groups(before_group), is = after.schedule.groups(after_group);
  codegen::SetSkeleton(was, before.skeleton);
  codegen::SetSkeleton(is, now.skeleton);
  for (const codegen::KnobRow& row : codegen::KnobsOf(now.skeleton)) {
    if (codegen::ValueOf(was, row) == codegen::ValueOf(is, row)) continue;
    auto& knob = *move.add_knobs();
    knob.set_name(row.name);
    knob.set_from(codegen::ValueOf(before.resolved, row));
    knob.set_to(codegen::ValueOf(now.resolved, row));
  }
}

// The plan as a whole.
void AddState(const State& state, v1::Trial& trial) {
  auto& features = *trial.mutable_state();
  for (const auto& info : state.groups) {
    features["bytes_read"] += static_cast<double>(info.bytes_read);
    features["bytes_written"] += static_cast<double>(info.bytes_written);
    features["operations"] += info.operations;
    features["transcendental"] += info.transcendental;
    features["estimated_us"] += info.seconds * 1e6;
  }
  features["groups"] = static_cast<double>(state.groups.size());
  features["kernels"] = state.report.kernels_size();
  features["time_us"] = state.time_us;
  features["light_us"] = state.light_us;
  for (const auto& kernel : state.report.kernels()) {
    double& spills = features["spill_bytes"];
    spills = std::max<double>(spills, kernel.spill_bytes());
  }
}

}  // namespace

v1::Schedule Resolved(const State& state) {
  v1::Schedule resolved = state.schedule;
  for (int g = 0; g < resolved.groups_size(); ++g) {
    const auto roots = resolved.groups(g).roots();
    *resolved.mutable_groups(g) = state.groups[g].resolved;
    *resolved.mutable_groups(g)->mutable_roots() = roots;
  }
  return resolved;
}

v1::GroupFeatures FeaturesOf(const State& state, int group) {
  v1::GroupFeatures features;
  if (group < 0 || group >= static_cast<int>(state.groups.size())) return features;
  const codegen::GroupInfo& info = state.groups[group];
  const double bytes = MovedBytes(info);
  features.set_skeleton(codegen::NameOf(info.skeleton));
  features.set_share(Share(state, group));
  features.set_memory_us(1e6 * state.roof.MemorySeconds(static_cast<double>(info.bytes_read),
                                                        static_cast<double>(info.bytes_written)));
  features.set_arithmetic_us(MicrosecondsAt(info.operations, state.roof.operations) +
                             MicrosecondsAt(2 * info.tensor_products, state.roof.products));
  features.set_special_us(
      MicrosecondsAt(info.transcendental, state.roof.operations * kSpecialRate));
  features.set_fp64_us(
      MicrosecondsAt(Fp64Operations(state, group, info), state.roof.operations * kFp64Rate));
  features.set_estimated_us(info.seconds * 1e6);
  AddResidency(state, group, features);
  features.set_rows(static_cast<double>(info.rows));
  features.set_row_elements(static_cast<double>(info.row_elements));
  features.set_stages(info.stages);
  if (info.streams > 0) {
    features.set_access_bytes(static_cast<double>(info.width * info.stream_bytes) / info.streams);
  }
  features.set_streams(info.streams);
  features.set_aligned(info.aligned);
  features.set_passes(info.passes);
  features.set_kept(info.kept);
  if (bytes > 0) features.set_workspace_share(static_cast<double>(info.workspace_bytes) / bytes);
  if (state.target.l2_bytes > 0) {
    features.set_cache_share(bytes / static_cast<double>(state.target.l2_bytes));
  }
  features.set_launches(info.launches);
  return features;
}

void RecordProposal(const State& from, const Action& action, v1::Trial& trial) {
  trial.set_specialist(action.specialist);
  trial.set_action(action.name);
  trial.set_parent_id(from.trial_id);
  v1::Move& move = *trial.mutable_move();
  move.set_kind(action.kind);
  move.set_group(action.group);
  move.set_from(action.from);
  move.set_to(action.to);
  const int group = ChangedGroup(from, move);
  if (const int root = from.graph().Find(action.group); root >= 0) {
    const int node = from.graph().tensors[root].node;
    if (node >= 0) move.set_root_kind(graph::KindOf(from.graph().nodes[node]));
    move.set_skeleton(codegen::NameOf(from.groups[group].skeleton));
  }
  AddState(from, trial);
  *trial.mutable_before() = FeaturesOf(from, group);
}

void RecordResult(const State* from, const State& after, v1::Trial& trial) {
  *trial.mutable_resolved() = Resolved(after);
  *trial.mutable_after() = FeaturesOf(after, ChangedGroup(after, trial.move()));
  trial.mutable_move()->clear_knobs();
  if (from != nullptr) AddKnobs(*from, after, *trial.mutable_move());
}

}  // namespace warpsmith::agent
