// How many places there are where something is read or evaluated: boxes of index variables, what
// conditions leave of them, and how many elements an index expression names there.
#pragma once

#include <cstdint>
#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"

namespace warpsmith::graph {

int64_t Length(const Interval& range);
int64_t Volume(const std::vector<Interval>& box);

// Sets used[v] of each index variable v of e.
void MarkVariables(const Expr& e, std::vector<bool>& used);

// How many values an index takes, at most.
int64_t Distinct(const ExprPtr& e, const std::vector<Interval>& ranges);

// What holds where something is evaluated.
struct Condition {
  const Expr* e;
  bool value;
  auto operator<=>(const Condition&) const = default;
};

// The part of the points of `ranges` that fulfil all conditions, by sampling; what depends on data
// may be either.
double SampledShare(const std::vector<Interval>& ranges, const std::vector<Condition>& conditions);

}  // namespace warpsmith::graph
