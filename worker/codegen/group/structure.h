// A schedule's groups as work, analysed: all of it that does not depend on knobs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/group/analysis.h"

namespace warpsmith::codegen {

struct GroupWork {
  int group = 0;                       // in the schedule
  std::unique_ptr<Analysis> analysis;  // null: nothing to run, it only names other tensors' memory
};

struct Structure {
  std::vector<GroupWork> groups;
  std::map<int, int> alias;  // a root that is a reshape: the tensor whose memory it shares
};

// Checks a schedule against a graph: roots exist once, order, nothing missing. InvalidArgument.
absl::StatusOr<Structure> StructureOf(const graph::Graph& graph, const v1::Schedule& schedule);
// Equal for schedules of one graph that have the same structure.
std::string StructureKey(const v1::Schedule& schedule);

// The tensor among `in_memory` whose elements in order are exactly those of `tensor`; -1: none.
int ReshapeOf(const graph::Graph& graph, int tensor, const InMemory& in_memory);

}  // namespace warpsmith::codegen
