// Updates that leave elements of their state as they are: slices written in place, slots of a
// cache.
#pragma once

#include <optional>
#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"

namespace warpsmith::graph {

// new[i] = select(condition, value, state[i]), or the other way round: the state changes only where
// `condition` is `where`. All are over the axes of the node that computes the new state, which are
// the state's.
struct PartialUpdate {
  ExprPtr condition, value;
  bool where = true;
};

// nullopt: what computes the new state is no map of that form.
std::optional<PartialUpdate> PartialUpdateOf(const Graph& graph, const Graph::Update& update);

// A range for each axis of the state outside of which nothing changes; empty ranges: nothing does.
// What data decides may be anywhere.
std::vector<Interval> ChangedBox(const Graph& graph, const Graph::Update& update,
                                 const PartialUpdate& partial);

}  // namespace warpsmith::graph
