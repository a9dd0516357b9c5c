// The order in which a sum of a product of several factors takes the fewest operations.
//
//   y[m] = sum over n, k: a[m, k] * w[n, k]    first the sum of w over n, then a times that over k
//
// Two factors at a time are multiplied, and summed over what neither the result nor another factor
// has. All orders are looked at (dynamic programming over sets of factors: Pfeifer, Haegeman,
// Verstraete, "Faster identification of optimal contraction sequences for tensor networks", 2014,
// without its pruning).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/graph/work.h"

namespace warpsmith::graph {

struct NetworkFactor {
  uint64_t variables = 0;  // a bit each
  int bits = 32;           // that hold its elements, once scales are taken out: 8, 16, 32, 64
  double elements = 0;     // different ones
};

// `kept`: variables of the result. `points`: how many places there are in the space of so many
// variables. Up to kMaxFactors factors.
Work FewestInNetwork(const std::vector<NetworkFactor>& factors, uint64_t kept,
                     const std::function<double(uint64_t variables)>& points);

}  // namespace warpsmith::graph
