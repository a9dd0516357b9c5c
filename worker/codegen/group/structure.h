// A schedule's groups as work, analysed: all of it that does not depend on knobs.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/group/analysis.h"

namespace warpsmith::codegen {

struct GroupWork {
  int group = 0;  // in the schedule
  // Null: nothing to run, it only names other tensors' memory.
  std::shared_ptr<const Analysis> analysis;
};

struct Structure {
  std::vector<GroupWork> groups;
  std::map<int, int> alias;    // a root that is a reshape: the tensor whose memory it shares
  int Base(int tensor) const;  // the tensor whose memory it shares in the end
};

// Analyses of groups of one graph, for all schedules that have a group of the same roots which
// finds the same tensors in memory. Not thread-safe; the graph outlives what it gives.
class Analyses {
 public:
  explicit Analyses(const graph::Graph& graph) : graph_(graph) {}
  // `needed`: the nodes of which the roots are computed where `in_memory` can be read.
  std::shared_ptr<const Analysis> Of(const std::vector<int>& roots, const std::set<int>& in_memory,
                                     const std::vector<int>& needed);

 private:
  const graph::Graph& graph_;
  std::map<std::vector<int>, std::shared_ptr<const Analysis>> kept_;
};

// Checks a schedule against a graph: roots exist once, order, nothing missing. InvalidArgument.
// `analyses`: of this graph, those that are known.
absl::StatusOr<Structure> StructureOf(const graph::Graph& graph, const v1::Schedule& schedule,
                                      Analyses& analyses);
absl::StatusOr<Structure> StructureOf(const graph::Graph& graph, const v1::Schedule& schedule);
// Of each group the earlier ones without which it cannot be made, by what it reads and by what they
// read.
std::vector<std::vector<bool>> NeededGroups(const Structure& structure);
// Equal for schedules of one graph that have the same structure.
std::string StructureKey(const v1::Schedule& schedule);

// The tensor among `in_memory` whose elements in order are exactly those of `tensor`; -1: none.
int ReshapeOf(const graph::Graph& graph, int tensor, const InMemory& in_memory);

}  // namespace warpsmith::codegen
