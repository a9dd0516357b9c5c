// How a reduce reads memory: what its domain's axes and their order are guessed from.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/graph.h"
#include "worker/codegen/group/trace.h"

namespace warpsmith::codegen {

// Along the reduce's own axes, then its reduce axes.
struct Reading {
  bool known = false, guarded = false, overlapping = false, parted = false;
  std::vector<int64_t> stride;   // of the main load, the one that runs along most; 0: none
  std::vector<int64_t> extents;  // as far as its conditions on an axis alone let it run
};

// `traced` is of `node`.
Reading ReadingOf(const graph::Node& node, const Traced& traced, const graph::Graph& graph);

// Whether one of the reduce axes runs through neighbours in memory.
bool RunsAlong(const graph::Node& node, const Reading& reading);

// A node's reduce axes, outermost in memory first.
std::vector<int> ReduceOrder(const graph::Node& node, const Reading& reading);

}  // namespace warpsmith::codegen
