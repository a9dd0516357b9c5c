#include "worker/codegen/rewrite/rule.h"

#include <memory>

namespace warpsmith::codegen {

using graph::ExprPtr;
using graph::Graph;
using graph::Op;

int64_t Span(const std::vector<graph::Axis>& axes) {
  int64_t n = 1;
  for (const graph::Axis& axis : axes) n *= axis.extent;
  return n;
}

std::vector<ExprPtr> Coordinates(size_t count) {
  std::vector<ExprPtr> coordinates;
  for (size_t a = 0; a < count; ++a) coordinates.push_back(graph::Index(static_cast<int>(a)));
  return coordinates;
}

void CollectVariables(const ExprPtr& e, std::set<int>& variables) {
  if (e->op == Op::kIndex) variables.insert(e->var);
  for (const ExprPtr& arg : e->args) CollectVariables(arg, variables);
}

std::string Fresh(const Graph& graph, std::string name) {
  while (graph.Find(name) >= 0) name += "_";
  return name;
}

void RenumberProducers(Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (int t : graph.nodes[n].outputs) graph.tensors[t].node = static_cast<int>(n);
  }
}

namespace {

// Expression nodes that a sum's value may have once maps are written into it: each load of a map is
// a copy of what it computes, so chains that read a map twice double at every link.
constexpr int kMaxInlined = 4096;

ExprPtr InlinedWithin(const Graph& graph, const ExprPtr& e, int& left) {
  if (--left < 0) return e;
  if (e->op == Op::kLoad) {
    std::vector<ExprPtr> at;
    for (const ExprPtr& arg : e->args) at.push_back(InlinedWithin(graph, arg, left));
    const int node = graph.tensors[e->tensor].node;
    if (node < 0 || !graph.nodes[node].map()) return graph::Load(graph, e->tensor, at);
    return InlinedWithin(graph, graph::Substitute(graph.nodes[node].value, at), left);
  }
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = InlinedWithin(graph, arg, left);
  return copy;
}

}  // namespace

ExprPtr Inlined(const Graph& graph, const ExprPtr& e) {
  int left = kMaxInlined;
  ExprPtr inlined = InlinedWithin(graph, e, left);
  return left < 0 ? nullptr : inlined;
}

}  // namespace warpsmith::codegen
