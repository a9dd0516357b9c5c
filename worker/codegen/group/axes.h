// What the views of a group (elements, stages, scan) are built of: a domain's axes, and how their
// refusals name a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/ir/index.h"

namespace warpsmith::codegen {

// 'y', quoted.
std::string TensorName(const graph::Graph& graph, int tensor);

// Appends an axis; one of extent 1 is none. `stride`: of the pattern along it, elements.
void AddAxis(const graph::Axis& axis, Role role, int64_t stride, Domain& domain);
// The axes of one role as indexes.
std::vector<Index> AxesOf(const Domain& domain, Role role);
// Axes of these extents along those of a role: one for one, extents of 1 aside, or else the same
// points in row-major order.
std::vector<Index> Along(const Domain& domain, Role role, const std::vector<int64_t>& extents);

}  // namespace warpsmith::codegen
