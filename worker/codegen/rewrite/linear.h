// Sums of what is linear in a sum of products, which product.cc and windows.cc rewrite.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/graph/affine.h"
#include "common/graph/graph.h"

namespace warpsmith::codegen {

// sum[over](factor * sum[k](a * b) + rest), all in variables of one numbering: the sum's axes, what
// it sums over, what the product sums over, and what a rule adds. What is summed over and read by
// its digits alone (v / c and v % c) is two.
struct LinearSum {
  std::vector<graph::Axis> axes;      // of each variable
  int kept = 0, over = 0, k = 0;      // how many there are of each, in that order
  graph::ExprPtr a, b, factor, rest;  // rest: null where there is none
  double product = 0;                 // elements of the product

  std::set<int> Kept() const;
  std::set<int> Over() const;
  std::set<int> K() const;
  bool IsOver(int variable) const { return variable >= kept && variable < kept + over; }
  // Points that these variables span.
  double Span(const std::set<int>& variables) const;
  std::vector<graph::Interval> Ranges() const;
  // A variable more; its number.
  int Add(int64_t extent);
  // Whether a node of so many axes may be.
  static bool HasRank(size_t axes) { return axes <= size_t{graph::kMaxRank}; }
  // `value` times factor.
  graph::ExprPtr Weighed(const graph::ExprPtr& value) const;
};

// Node `id` as such sums, one for each product that nobody else needs: of fp32 or fp64, none where
// what stands between rounds to less.
std::vector<LinearSum> LinearSumsOf(const graph::Graph& graph, int id);

std::set<int> VariablesOf(const graph::ExprPtr& e);
graph::ExprPtr Replaced(const graph::ExprPtr& e, const graph::ExprPtr& what,
                        const graph::ExprPtr& by);
// The expression with integers that are affine written in one form, and with digits that can be
// told; `ranges`: of its variables.
graph::ExprPtr Told(const graph::ExprPtr& e, const std::vector<graph::Interval>& ranges);

// As many times fewer multiplications and additions a way has to need than the product has.
inline constexpr double kGain = 1.5;

// Card time that a way of making a sum takes at least, in picoseconds: elements that are written
// and read again, terms that threads add up, and factors that products multiply. A card's balance,
// to weigh ways against each other.
double WaysCost(double elements, double terms, double products);

// Puts sums in the place of node `id`, which becomes a map of what they are.
class Replacement {
 public:
  Replacement(const graph::Graph& before, int id, const LinearSum& sum);
  // A sum of `value` over the variables `over`, with axes for `of`; what loads it.
  graph::ExprPtr Sum(const std::string& part, const std::set<int>& of, const std::set<int>& over,
                     const graph::ExprPtr& value);
  // The graph with `value` and what `rest` sums up to as the node.
  graph::Graph Done(graph::ExprPtr value);

 private:
  graph::Graph graph_;
  const int id_;
  const LinearSum sum_;
  const std::string name_;
  std::vector<graph::Node> nodes_;
};

}  // namespace warpsmith::codegen
