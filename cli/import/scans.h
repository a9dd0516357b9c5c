// Scans that a module writes with other operators.
#pragma once

#include "common/graph/graph.h"

namespace warpsmith::import {

// Writes as one scan
//   a scan of a flipped tensor, flipped back: a scan in reverse;
//   a scan of all but the last element behind what combines to nothing (zeros for a sum): an
//   exclusive one.
// The graph must be valid and keeps its tensors, outputs and meaning; what it no longer needs stays
// until it is pruned.
void FoldScans(graph::Graph& graph);

}  // namespace warpsmith::import
