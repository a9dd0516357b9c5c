// The fewest floating-point operations known for a graph: what is left of it once everything is
// computed once, where it is needed, and in the best order.
//
//  * Equal parts of an expression are evaluated once, and each once for every different set of
//    places that it reads: exp(x[r]) in a map over r and c counts its rows, and a sum over windows
//    of x the elements of x (running sums).
//  * What stands behind a condition on indexes counts where it holds, and what is multiplied by
//  zero
//    elsewhere does too: half of the products with a triangle, a diagonal as the scaling that it
//    is. What data decide counts nothing outside of products, and within them as if it held.
//  * A sum of products goes in the order of multiplications that takes least. What only that sum
//    reads is part of it, if it is a sum of products itself or linear in one: the sum of a
//    product's rows multiplies by the sum of its weights.
//
// Not known are algorithms that multiply less often by cleverness (Strassen, Winograd, FFT).
#pragma once

#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"
#include "common/graph/roof.h"

namespace warpsmith::graph {

struct Work {
  double simple = 0;          // all but the products
  double transcendental = 0;  // of them
  Products products;

  void Add(const Work& other);
  // In simple operations, by what an H200 takes for each: what orders are compared by.
  double weight() const;
};

// What of a node has to be evaluated.
struct Asked {
  ExprPtr value;                 // the node's, or the part of it; null: nothing
  std::vector<Interval> ranges;  // of the node's axes, then its reduce axes
  double elements = 0;           // of its outputs; at most all in the ranges of its axes
};

// One Asked for each node.
Work FewestKnown(const Graph& graph, const std::vector<Asked>& asked);

}  // namespace warpsmith::graph
