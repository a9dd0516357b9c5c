// Sums in which a row adds to the one place along an axis that its key names, and nothing
// elsewhere:
//
//   y[i, j] = sum over r of select(key(r) == i and ..., value(r, j), 0)
//
// Rows that name another place need not be looked at. Of the native oracle; pure.
#pragma once

#include <optional>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::oracle {

// From so many points on it is worth knowing (below, all are gone through); rows that are few are
// as well all looked at.
inline constexpr int64_t kManyPoints = int64_t{1} << 22;
inline constexpr int64_t kManyRows = 64;
// Keys that are kept: of each row, for each of a batch.
inline constexpr int64_t kMostKeys = int64_t{1} << 28;

struct NamedPlaces {
  int axis = -1;             // of the node's axes
  graph::ExprPtr key;        // i64, over the node's axes and reduce axes, not over that one
  std::vector<int> batches;  // axes that it is over, ascending
  int64_t places = 1, batch_count = 1, rows = 1;
};

// nullopt: the node is something else, or small. `elements`: of the result, that are wanted.
std::optional<NamedPlaces> NamedPlacesOf(const graph::Node& node, int64_t elements);

}  // namespace warpsmith::oracle
