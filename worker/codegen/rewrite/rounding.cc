// own_rounding: who reads what several read rounded to 16 bits rounds it for itself.
//
//   h[m, n] = bf16(w[m, n])                   h[m, n] = bf16(w[m, n])
//   s[n] = sum[m](f32(h[m, n]))        ->     s[n] = sum[m](f32(bf16(w[m, n])))
//
// The values are the same. But h may be stored in 16 bits for a product of which it is a factor,
// and a group that keeps its digits (precision.unrounded) makes s of w as it is.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/codegen/group/domain.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// Nodes of an expression, beyond which chains of maps that read a map twice double at every link.
constexpr int kMaxParts = 1024;

bool IsMap(const Graph& graph, int tensor) {
  const int node = graph.tensors[tensor].node;
  return node >= 0 && graph.nodes[node].map();
}

// Whether something of fp32 that was not made of 16 bits alone is rounded in it.
bool Rounds(const graph::Expr& e) {
  if (e.op == Op::kCast && IsHalf(e.type)) {
    const graph::Expr& from = *e.args[0];
    if (from.type == graph::DType::kF32 && !(from.op == Op::kCast && from.args[0]->type == e.type))
      return true;
  }
  return std::any_of(e.args.begin(), e.args.end(), [](const ExprPtr& arg) { return Rounds(*arg); });
}

// Whether it is what it loads, moved or in a wider type.
bool Widens(const graph::Expr& e) {
  return e.op == Op::kLoad || (e.op == Op::kCast && !IsHalf(e.type) && Widens(*e.args[0]));
}

// An expression with what it reads in 16 bits made of what that was before it was rounded.
class Own {
 public:
  explicit Own(const Graph& graph) : graph_(graph) {}

  ExprPtr Of(const ExprPtr& e, bool below) {
    if (--left_ < 0 || e->args.empty()) return e;
    auto copy = std::make_shared<graph::Expr>(*e);
    for (ExprPtr& arg : copy->args) arg = Of(arg, below);
    if (e->op != Op::kLoad || !IsMap(graph_, e->tensor)) return copy;
    const Node& node = graph_.nodes[graph_.tensors[e->tensor].node];
    const bool half = IsHalf(graph_.tensors[e->tensor].type);
    // What is in fp32 is read as it is, but for what only moves or widens.
    if (!half && (below || !Widens(*node.value))) return copy;
    const bool rounds = half && Rounds(*node.value);
    const int before = replacements_;
    const ExprPtr made = Of(graph::Substitute(node.value, copy->args), below || rounds);
    if (rounds) {
      replaced_.insert(e->tensor);
      ++replacements_;
    }
    return replacements_ > before ? made : copy;
  }

  const std::set<int>& replaced() const { return replaced_; }
  bool fits() const { return left_ >= 0; }

 private:
  const Graph& graph_;
  std::set<int> replaced_;  // what was read in 16 bits
  int replacements_ = 0;
  int left_ = kMaxParts;
};

// The graph with roundings of its own in the node; none where it reads nothing that is still needed
// rounded by others.
std::optional<Graph> WithOwn(const Graph& before, int id) {
  const std::vector<int> results = ResultsOf(before);
  const Node& node = before.nodes[id];
  if (node.map() && std::count(results.begin(), results.end(), node.outputs[0]) == 0)
    return std::nullopt;
  Own own(before);
  ExprPtr value = own.Of(node.value, false);
  if (!own.fits() || own.replaced().empty()) return std::nullopt;
  Graph graph = before;
  graph.nodes[id].value = std::move(value);
  for (int needed : NeededNodes(graph, results, [&](int t) { return graph.tensors[t].node < 0; })) {
    if (own.replaced().count(graph.nodes[needed].outputs[0]) > 0) return graph;
  }
  return std::nullopt;
}

bool Applies(const Graph& graph, int id) { return WithOwn(graph, id).has_value(); }

Graph Apply(const Graph& before, int id) { return *WithOwn(before, id); }

}  // namespace

const Rule& OwnRounding() {
  static const Rule rule = {"own_rounding", "what reads roundings to 16 bits that others read",
                            Rule::Use::kDigits, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
