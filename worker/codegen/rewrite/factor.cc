// factor_behind_sum: a number that a factor of a product is multiplied by is multiplied by behind
// the sum.
//
//   a'[m, k] = a[m, k] * c
//   t[m, n] = sum[k](a'[m, k] * b[n, k])    ->    t[m, n] = sum[k](a[m, k] * b[n, k]) * c
//
// Attention scales queries and keys before it multiplies them. As they lie in memory no kernel has
// to write them out first. Of fp32 and fp64 alone: narrower types round what is scaled.
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// Views and scalings that stand behind each other.
constexpr int kMostLinks = 16;

// What is left of an expression when numbers that it is multiplied by are taken out of it, views of
// what is scaled among it; they are multiplied into `number`. The expression itself: there are
// none.
ExprPtr WithoutNumbers(const Graph& graph, const ExprPtr& e, double& number, int links = 0) {
  if (links > kMostLinks) return e;
  if (e->op == Op::kMul) {
    for (int i : {0, 1}) {
      if (e->args[i]->op != Op::kConst) continue;
      number *= e->args[i]->number;
      return WithoutNumbers(graph, e->args[1 - i], number, links + 1);
    }
    return e;
  }
  const int node = e->op == Op::kLoad ? graph.tensors[e->tensor].node : -1;
  if (node < 0 || !graph.nodes[node].map()) return e;
  const ExprPtr of = graph.nodes[node].value;
  if (of->op != Op::kLoad && of->op != Op::kMul) return e;
  double more = 1;
  const ExprPtr left = WithoutNumbers(graph, graph::Substitute(of, e->args), more, links + 1);
  if (more == 1) return e;
  number *= more;
  return left;
}

struct Found {
  ExprPtr a, b;
  double number = 1;
};

std::optional<Found> Find(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  const DType type = node.value->type;
  if (!node.reduce || node.combiner != graph::Combiner::kSum || node.value->op != Op::kMul ||
      (type != DType::kF32 && type != DType::kF64))
    return std::nullopt;
  Found found;
  found.a = WithoutNumbers(graph, node.value->args[0], found.number);
  found.b = WithoutNumbers(graph, node.value->args[1], found.number);
  // Numbers that the type does not hold, or holds with few digits, might be two that cancel.
  const double size = std::abs(found.number);
  const bool constant = found.a->op == Op::kConst || found.b->op == Op::kConst;
  if (found.number == 1 || constant || !(size > 1e-9 && size < 1e9)) return std::nullopt;
  return found;
}

bool Applies(const Graph& graph, int node) { return Find(graph, node).has_value(); }

Graph Apply(const Graph& before, int id) {
  const Found found = *Find(before, id);
  Graph graph = before;
  Node& whole = graph.nodes[id];
  const DType type = whole.value->type;
  Node sum = whole;
  sum.value = graph::Binary(Op::kMul, found.a, found.b);
  graph::Tensor tensor = graph.tensors[whole.outputs[0]];
  tensor.name = Fresh(graph, absl::StrCat(tensor.name, ".product"));
  sum.outputs = {static_cast<int>(graph.tensors.size())};
  graph.tensors.push_back(tensor);
  whole.reduce = false;
  whole.reduce_axes.clear();
  whole.value =
      graph::Binary(Op::kMul, graph::Load(graph, sum.outputs[0], Coordinates(sum.axes.size())),
                    graph::Const(type, found.number));
  graph.nodes.insert(graph.nodes.begin() + id, sum);
  RenumberProducers(graph);
  return graph;
}

}  // namespace

const Rule& FactorBehindSum() {
  static const Rule rule = {"factor_behind_sum",
                            "a sum of products of which a factor is multiplied by a number",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
