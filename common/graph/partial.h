// Maps that leave elements of another tensor as they are: slices written in place, slots of a
// cache.
#pragma once

#include <optional>
#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"

namespace warpsmith::graph {

// new[i] = select(condition, value, base[i]), or the other way round: it differs from `base` only
// where `condition` is `where`. All are over the axes of the node that computes it, which are the
// base's.
struct PartialUpdate {
  ExprPtr condition, value;
  bool where = true;
  int base = -1;
};

// The ways to see a tensor so: none if what computes it is no map of that form, two if both sides
// are elements at their own places.
std::vector<PartialUpdate> PartialMapsOf(const Graph& graph, int tensor);
// The one of a state's new value in which it is the state that stays; nullopt: none.
std::optional<PartialUpdate> PartialUpdateOf(const Graph& graph, const Graph::Update& update);

// A range for each axis of the new tensor outside of which nothing changes; empty ranges: nothing
// does. What data decides may be anywhere.
std::vector<Interval> ChangedBox(const Graph& graph, int tensor, const PartialUpdate& partial);

}  // namespace warpsmith::graph
