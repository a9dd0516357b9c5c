// A rewrite rule: algebra on graphs that holds for every input. Each has a file of its own;
// rewrite.cc alone lists them. And what rules are made with.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace warpsmith::codegen {

struct Rule {
  enum class Use {
    kFirst,   // as accurate as the graph was: first schedules may have it
    kMove,    // may lose digits: tried as a move
    kDigits,  // the same, for schedules that keep digits
  };
  const char* name;
  const char* wants;  // "a sum of ...": what a node has to be
  Use use;
  bool (*applies)(const graph::Graph& graph, int node);
  // The graph with the node rewritten, where it applies; its tensors keep their names.
  graph::Graph (*apply)(const graph::Graph& graph, int node);
};

const Rule& FactorBehindSum();
const Rule& OwnRounding();
const Rule& ProductInHalves();
const Rule& SinglePassVariance();
const Rule& SplitConcatenation();
const Rule& SplitReduction();
const Rule& SumBeforeProduct();
const Rule& SumOfProducts();
const Rule& WindowOfWindows();

// Elements that the axes span.
int64_t Span(const std::vector<graph::Axis>& axes);
// A node's own coordinates: its first `count` index variables.
std::vector<graph::ExprPtr> Coordinates(size_t count);
// Adds the index variables that the expression has.
void CollectVariables(const graph::ExprPtr& e, std::set<int>& variables);
// A tensor's name that the graph has not.
std::string Fresh(const graph::Graph& graph, std::string name);
// Says for every tensor anew which node makes it.
void RenumberProducers(graph::Graph& graph);
// The expression with loads of maps replaced by what those compute, until loads are of inputs,
// reduces and scans; null if that is too much.
graph::ExprPtr Inlined(const graph::Graph& graph, const graph::ExprPtr& e);

}  // namespace warpsmith::codegen
