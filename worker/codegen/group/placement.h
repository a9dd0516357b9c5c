// Where the roots of a group lie in its stages.
#pragma once

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"

namespace warpsmith::codegen {

// Fills domain.roots: `roots` (tensors) in their order, each at the first place tried that is a
// bijection and that its kernel can be built for. `domain` has its axes, `nodes` and `totals`, all
// of `placed` (graph's). InvalidArgument: a root of another size than the domain, its rows or its
// totals, or one that lies in none of the places. `cropped`: one may have fewer elements than there
// are rows, as long as each is a row's.
absl::Status PlaceRoots(const graph::Graph& graph, const InMemory& in_memory,
                        const std::set<int>& placed, const std::vector<int>& roots, bool cropped,
                        Domain& domain);

}  // namespace warpsmith::codegen
