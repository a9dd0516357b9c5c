// A node's expression over plain axis variables, and what it reads on the way.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/ir/index.h"
#include "worker/codegen/ir/value.h"

namespace warpsmith::codegen {

struct Traced {
  Values values;
  std::vector<Index> env;    // the node's axes, then its reduce axes: variables 0, 1, ...
  ValuePtr value = nullptr;  // its expression; null: `status` says why
  absl::Status status;
  std::vector<std::pair<int, std::vector<Index>>> stage_reads;  // tensor, coordinates
  std::map<int, std::vector<Index>> inlined;                    // tensor, first coordinates
};

// Results of `stage_nodes` are read as such, all else that is not in memory is inlined.
void Trace(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& stage_nodes,
           const graph::Node& node, Traced& traced);

}  // namespace warpsmith::codegen
