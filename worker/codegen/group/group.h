// A group of a schedule, analysed: its space, its resolved knobs, its generated struct.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/plan/storage.h"

namespace warpsmith::codegen {

struct AnalysedGroup {
  int work = 0;      // in Work.groups
  std::string name;  // of its struct
  Space space;
  v1::Group resolved;
  GroupSource source;
  // (tensor read, root): read only at the element that the same thread writes.
  std::set<std::pair<int, int>> reads_where_it_writes;
};

// One group; `number` makes its struct's name.
absl::StatusOr<AnalysedGroup> AnalyseGroup(const graph::Graph& graph, const std::vector<int>& roots,
                                           const InMemory& in_memory, const v1::Group& knobs,
                                           int number, const Target& target);
// Every group of the schedule that has something to run.
absl::StatusOr<std::vector<AnalysedGroup>> AnalyseGroups(const graph::Graph& graph,
                                                         const v1::Schedule& schedule,
                                                         const Work& work, const Target& target);

}  // namespace warpsmith::codegen
