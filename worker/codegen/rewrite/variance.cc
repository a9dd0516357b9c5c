// single_pass_variance: sum((x - mean)^2), where mean is the mean of x over the same axes, becomes
// sum(x^2) - sum(x)^2 / n, both sums in f64, not below 0. The row is then read once. In f64 the
// cancellation costs less than the rounding of an f32 mean does in the two-pass form: the relative
// error is about (mean / deviation)^2 * 2^-52, and f32 data hold no deviation below mean * 2^-24.
// Infinities and NaN give NaN in both forms.
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

struct Variance {
  int sum = -1;      // node of sum(x)
  int squares = -1;  // node of sum((x - mean)^2)
};

// A load of a sum at the node's own kept axes, divided by the number of elements: that sum's node.
int MeanOf(const Graph& graph, const ExprPtr& e, const Node& node) {
  const int64_t count = Span(node.reduce_axes);
  if ((e->op != Op::kDiv && e->op != Op::kMul) || e->args[1]->op != Op::kConst ||
      e->args[0]->op != Op::kLoad)
    return -1;
  const double factor = e->args[1]->number;
  if (e->op == Op::kDiv ? factor != static_cast<double>(count)
                        : static_cast<float>(factor) != 1.0f / static_cast<float>(count)) {
    return -1;
  }
  const ExprPtr& load = e->args[0];
  const int producer = graph.tensors[load->tensor].node;
  if (producer < 0) return -1;
  const Node& sum = graph.nodes[producer];
  if (!sum.reduce || sum.combiner != graph::Combiner::kSum || sum.value->type != DType::kF32)
    return -1;
  if (sum.axes.size() != node.axes.size() || sum.reduce_axes.size() != node.reduce_axes.size())
    return -1;
  for (size_t a = 0; a < node.axes.size(); ++a) {
    if (sum.axes[a].extent != node.axes[a].extent) return -1;
    const bool own = load->args[a]->op == Op::kIndex && load->args[a]->var == static_cast<int>(a);
    if (!own && node.axes[a].extent > 1) return -1;
  }
  for (size_t a = 0; a < node.reduce_axes.size(); ++a) {
    if (sum.reduce_axes[a].extent != node.reduce_axes[a].extent) return -1;
  }
  return producer;
}

std::optional<Variance> FindVariance(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  if (!node.reduce || node.combiner != graph::Combiner::kSum || node.value->type != DType::kF32)
    return std::nullopt;
  const ExprPtr value = Inlined(graph, node.value);
  if (value == nullptr) return std::nullopt;
  ExprPtr difference;
  if (value->op == Op::kMul && graph::Same(value->args[0], value->args[1]))
    difference = value->args[0];
  if (value->op == Op::kPow && value->args[1]->op == Op::kConst && value->args[1]->number == 2)
    difference = value->args[0];
  if (difference == nullptr || difference->op != Op::kSub) return std::nullopt;
  for (int side : {0, 1}) {  // x - mean, or mean - x
    const int sum = MeanOf(graph, difference->args[1 - side], node);
    if (sum < 0 || sum == id) continue;
    const ExprPtr summed = Inlined(graph, graph.nodes[sum].value);
    if (summed != nullptr && graph::Same(difference->args[side], summed)) return Variance{sum, id};
  }
  return std::nullopt;
}

Graph Apply(const Graph& before, int id) {
  const Variance variance = *FindVariance(before, id);
  Graph graph = before;
  const Node sum = graph.nodes[variance.sum], squares = graph.nodes[variance.squares];
  const ExprPtr x = graph::Cast(DType::kF64, sum.value);
  auto make = [&](const std::string& name, const ExprPtr& value) {
    graph::Tensor tensor = graph.tensors[sum.outputs[0]];
    tensor.name = Fresh(graph, name);
    tensor.type = DType::kF64;
    Node node = sum;
    node.value = value;
    node.outputs = {static_cast<int>(graph.tensors.size())};
    graph.tensors.push_back(tensor);
    return node;
  };
  const Node total = make(StrCat(graph.tensors[sum.outputs[0]].name, ".f64"), x);
  const Node total_squares =
      make(StrCat(graph.tensors[squares.outputs[0]].name, ".f64"), graph::Binary(Op::kMul, x, x));
  auto load = [&](const Node& node) {
    return graph::Load(graph, node.outputs[0], Coordinates(node.axes.size()));
  };
  Node& sum_now = graph.nodes[variance.sum];
  sum_now.reduce = false;
  sum_now.reduce_axes.clear();
  sum_now.value = graph::Cast(DType::kF32, load(total));
  Node& squares_now = graph.nodes[variance.squares];
  squares_now.reduce = false;
  squares_now.reduce_axes.clear();
  const ExprPtr count = graph::Const(DType::kF64, static_cast<double>(Span(sum.reduce_axes)));
  const ExprPtr square =
      graph::Binary(Op::kDiv, graph::Binary(Op::kMul, load(total), load(total)), count);
  squares_now.value = graph::Cast(
      DType::kF32, graph::Binary(Op::kMax, graph::Binary(Op::kSub, load(total_squares), square),
                                 graph::Const(DType::kF64, 0)));
  graph.nodes.insert(graph.nodes.begin() + variance.sum, {total, total_squares});
  RenumberProducers(graph);
  return graph;
}

bool Applies(const Graph& graph, int node) { return FindVariance(graph, node).has_value(); }

}  // namespace

const Rule& SinglePassVariance() {
  static const Rule rule = {"single_pass_variance",
                            "a sum of (x - mean of x)^2 over the mean's axes", Rule::Use::kMove,
                            Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
