#include "worker/agent/moves.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace warpsmith::agent {
namespace {

constexpr int kMaxThreadRegisters = 255;
constexpr int64_t kReservedSharedPerBlock = 1 << 10;
// What the skeleton itself takes of the dynamic shared memory: two places of 32 bytes for each
// warp, and two for the block.
int64_t ScratchBytes(int threads) { return 64 * (threads / 32) + 64; }

}  // namespace

std::string GroupName(const v1::Group& group) {
  return group.roots_size() > 0 ? group.roots(0) : "?";
}

std::string Bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

Action* AddMove(const State& state, int index, const char* specialist, const std::string& kind,
                const std::string& from, const std::string& to, double prior,
                const std::function<void(v1::Group&)>& edit, std::vector<Action>& actions) {
  const v1::Group& before = state.schedule.groups(index);
  v1::Group after = before;
  edit(after);
  if (Bytes(after) == Bytes(before)) return nullptr;
  Action action;
  action.specialist = specialist;
  action.kind = kind;
  const std::string group = GroupName(before);
  action.name =
      absl::StrCat("group ", group, ": ", kind, " ", from, from.empty() ? "" : " -> ", to);
  action.key = absl::StrCat(group, " ", kind, "=", to);
  action.schedule = state.schedule;
  *action.schedule.mutable_groups(index) = std::move(after);
  action.prior = prior;
  actions.push_back(std::move(action));
  return &actions.back();
}

int VectorElements(const codegen::GroupInfo& info, const v1::Group& resolved) {
  const int64_t bytes = std::max<int64_t>(resolved.memory().vector_bytes(), info.element_bytes);
  return static_cast<int>(std::max<int64_t>(1, bytes / std::max<int64_t>(1, info.element_bytes)));
}

RowNeeds NeedsOf(const codegen::GroupInfo& info, const v1::OccupancyKnobs& occupancy, int vector) {
  RowNeeds needs;
  needs.reread = info.stages + (info.row_outputs ? 1 : 0) >= 2;
  const int64_t blocks = std::max(1, occupancy.blocks_per_row());
  const int64_t per_block = blocks > 1 || occupancy.threads_per_row() == 0
                                ? occupancy.block_threads()
                                : occupancy.threads_per_row();
  needs.threads = std::max<int64_t>(1, per_block * blocks);
  needs.vectors = CeilDiv(info.row_elements, needs.threads * vector);
  needs.vector_bytes = int64_t{vector} * info.element_bytes * std::max(1, info.streams);
  return needs;
}

Capacity CapacityOf(const codegen::Target& target, int threads, int blocks) {
  Capacity capacity;
  const int64_t registers = std::min<int64_t>(
      kMaxThreadRegisters, target.registers_per_sm / std::max(1, threads * blocks));
  capacity.registers = 4 * std::max<int64_t>(0, registers - kWorkingRegisters);
  const int64_t shared =
      std::min(target.shared_per_block,
               target.shared_per_sm / std::max(1, blocks) - kReservedSharedPerBlock);
  capacity.shared = std::max<int64_t>(0, shared - ScratchBytes(threads));
  return capacity;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

}  // namespace warpsmith::agent
