// Slices written at places that a table names: what a map gives, told by who writes instead of by
// what is written.
//
//   last: i64[n: N] = max[t: T](select(slots[t] == n, t, -1))
//   new: f16[n: N, d: D] = select(last[n] >= 0, y[last[n], d], cache[n, d])
//
// is `cache`, but for every (t, d) with last[slots[t]] == t: there new[slots[t], d] is y[t, d]. Of
// several writers of a place the last one's value stays; who names a place outside of the tensor
// writes nothing. And `last` itself is -1, but for every t: last[slots[t]] is at least t.
#pragma once

#include <optional>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::graph {

struct Scatter {
  // The tensor of the same shape and type that stays elsewhere; -1: of a search (`last`), which is
  // -1 there, and of whose writers of a place the greatest value stays.
  int base = -1;
  std::vector<Axis> axes;      // of the writers; the expressions below are over them
  std::vector<ExprPtr> place;  // i64, where a writer writes: one for each axis of the tensor
  // bool: the place is inside, and it is this writer's value that stays (of a search: that may). At
  // most one writer of a place; nothing is loaded from a place before it is known to be inside.
  ExprPtr wins;
  ExprPtr value;     // of those that win
  int search = -1;   // the tensor that says who is the last to name a place (`last`)
  int64_t part = 1;  // so many writers that follow each other in row-major order name one place,
                     // the last axes aside that they do not decide
};

// nullopt: `tensor` is no map, or search, of that form.
std::optional<Scatter> ScatterOf(const Graph& graph, int tensor);

}  // namespace warpsmith::graph
