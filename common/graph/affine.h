// What can be said of index expressions without running them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::graph {

// constant + sum of coefficients[v] * variable v, exactly (no wrapping).
struct Affine {
  int64_t constant = 0;
  std::vector<int64_t> coefficients;  // one for each variable
};

// Inclusive.
struct Interval {
  int64_t low = 0;
  int64_t high = 0;
};

// The ranges of a node's index variables: [0, extent - 1] each, axes first.
std::vector<Interval> RangesOf(const Node& node);

// nullopt: e is not affine, or its numbers are beyond 2^62.
std::optional<Affine> AsAffine(const ExprPtr& e, int variables);

// Bounds of an integer expression; nullopt where nothing useful is known (loads, casts of floats).
// Tight for affine expressions, an upper bound for the others.
std::optional<Interval> BoundsOf(const ExprPtr& e, const std::vector<Interval>& ranges);

// The value of an integer or bool expression at a point; nullopt if it loads, divides by zero or
// has floats in it.
std::optional<int64_t> EvaluateAt(const Expr& e, const std::vector<int64_t>& point);

// Narrows `ranges` to points where `condition` can be `value`: comparisons of affine expressions of
// one variable, and their conjunctions. An empty range means that there is no such point.
void Narrow(const ExprPtr& condition, bool value, std::vector<Interval>& ranges);

}  // namespace warpsmith::graph
