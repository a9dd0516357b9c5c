// Reduces over the rows of a domain, beside its stages.
#pragma once

#include <map>

#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/reading.h"

namespace warpsmith::codegen {

// Fills domain.totals and segments with those of `readings` (reduces, nodes, of as many points as
// the domain) that combine over kept axes and have a result for each place of a row. `domain` has
// its axes and pattern. Of totals that keep different axes, those like the first are taken.
void PlaceTotals(const graph::Graph& graph, const std::map<int, Reading>& readings, Domain& domain);

}  // namespace warpsmith::codegen
