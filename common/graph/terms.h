// What is summed, as terms that are products of factors; and what can be said of factors.
#pragma once

#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"

namespace warpsmith::graph {

struct Guard {  // where `e` is `value`
  ExprPtr e;
  bool value;
};

struct Term {
  std::vector<ExprPtr> factors;  // without constants; none: it is one
  std::vector<Guard> guards;     // on indexes, or that name one: elsewhere the term is zero
};

inline constexpr int kMaxVariables = 64;  // of terms
inline constexpr int kMaxFactors = 8;     // of a term

struct Terms {
  std::vector<Term> terms;
  std::vector<Interval> ranges;  // of all index variables of the terms
  std::vector<int> through;  // nodes that are parts of the terms, which need no result of theirs
};

// The terms of `value`, whose index variables have `ranges`. With `alone` (of each tensor whether
// one node alone reads it, and nobody outside), maps and sums that only this value reads are part
// of its terms where that leads to sums, whose axes become variables behind the others; what is
// multiplied by a sum is multiplied by each of its terms, and values are rounded at the end only.
Terms TermsOf(const Graph& graph, const ExprPtr& value, std::vector<Interval> ranges,
              const std::vector<bool>* alone);

// Of an equation: the variable that one side is, but for a constant that is added, as whatever
// integer, and that the other side, data for instance, says without it; -1: none.
int NamedBy(const Expr& equation, int side);

// Conditions on indexes outside of which a value is zero, seen through maps; and those by which
// data name one.
std::vector<Guard> NonzeroWhere(const Graph& graph, const ExprPtr& e);
// The same of who may be -infinity: what is added to it elsewhere decides nothing.
std::vector<Guard> FiniteWhere(const Graph& graph, const ExprPtr& e);

// Bits that hold every value of an expression as a float, once scales are taken out of it: 8
// (float8_e4m3fn), 16, 32 or 64, seen through maps.
int BitsOf(const Graph& graph, const ExprPtr& e);

}  // namespace warpsmith::graph
