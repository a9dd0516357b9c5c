// Helpers with which specialists build their actions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/agent/specialist.h"

namespace warpsmith::agent {

// The name by which people know a group: its first root.
std::string GroupName(const v1::Group& group);

// Appends the move that `edit` makes on group `index`, unless it changes nothing. Gives it, until
// the next one is appended, or nullptr.
//   kind "unroll", to "4": key "y unroll=4", name "group y: unroll 2 -> 4" if `from` is "2", and
//   "group y: unroll 4" if it is empty.
Action* AddMove(const State& state, int index, const char* specialist, const std::string& kind,
                const std::string& from, const std::string& to, double prior,
                const std::function<void(v1::Group&)>& edit, std::vector<Action>& actions);

// Serialised so that equal schedules give equal bytes.
std::string Bytes(const google::protobuf::MessageLite& message);

// Elements in one vector access of a group.
int VectorElements(const codegen::GroupInfo& info, const v1::Group& resolved);

// What rows need to be kept on chip between passes.
struct RowNeeds {
  bool reread = false;       // the row is wanted more than once: keeping it saves traffic
  int64_t threads = 0;       // threads of a row, all its blocks together
  int64_t vectors = 0;       // vectors of a row for each of them, rounded up
  int64_t vector_bytes = 0;  // bytes of one such vector of all streams together
};
RowNeeds NeedsOf(const codegen::GroupInfo& info, const v1::OccupancyKnobs& occupancy, int vector);

// Bytes of a row that one block can keep, when `blocks` blocks of `threads` share a multiprocessor.
struct Capacity {
  int64_t registers = 0;  // bytes a thread may keep in registers
  int64_t shared = 0;     // bytes of the block's dynamic shared memory
};
Capacity CapacityOf(const codegen::Target& target, int threads, int blocks);

// Registers that a thread of a skeleton needs beside what it keeps.
inline constexpr int kWorkingRegisters = 40;

int64_t CeilDiv(int64_t a, int64_t b);
int64_t PowerOfTwoAtLeast(int64_t n);

}  // namespace warpsmith::agent
