// Algebra on graphs that holds for every input.
//
// single_pass_variance: sum((x - mean)^2), where mean is the mean of x over the same axes, becomes
//   sum(x^2) - sum(x)^2 / n, both sums in f64, not below 0. The row is then read once. In f64 the
//   cancellation costs less than the rounding of an f32 mean does in the two-pass form: the
//   relative error is about (mean / deviation)^2 * 2^-52, and f32 data hold no deviation below mean
//   * 2^-24. Infinities and NaN give NaN in both forms.
//
// Reduces that compute the same are computed once, always: the later one becomes a view of the
// first.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

constexpr char kSinglePassVariance[] = "single_pass_variance";

int64_t Product(const std::vector<graph::Axis>& axes) {
  int64_t n = 1;
  for (const graph::Axis& axis : axes) n *= axis.extent;
  return n;
}

std::vector<ExprPtr> Coordinates(size_t count) {
  std::vector<ExprPtr> coordinates;
  for (size_t a = 0; a < count; ++a) coordinates.push_back(graph::Index(static_cast<int>(a)));
  return coordinates;
}

void RenumberProducers(Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (int t : graph.nodes[n].outputs) graph.tensors[t].node = static_cast<int>(n);
  }
}

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

// The expression with loads of maps replaced by what those compute, until loads are of inputs,
// reduces and scans; null if that is more than kMaxInlined nodes.
ExprPtr Inlined(const Graph& graph, const ExprPtr& e) {
  int left = kMaxInlined;
  ExprPtr inlined = InlinedWithin(graph, e, left);
  return left < 0 ? nullptr : inlined;
}

struct Variance {
  int sum = -1;      // node of sum(x)
  int squares = -1;  // node of sum((x - mean)^2)
};

// A load of a sum at the node's own kept axes, divided by the number of elements: that sum's node.
int MeanOf(const Graph& graph, const ExprPtr& e, const Node& node) {
  const int64_t count = Product(node.reduce_axes);
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

std::string Fresh(const Graph& graph, std::string name) {
  while (graph.Find(name) >= 0) name += "_";
  return name;
}

Graph SinglePassVariance(const Graph& before, const Variance& variance) {
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
  const ExprPtr count = graph::Const(DType::kF64, static_cast<double>(Product(sum.reduce_axes)));
  const ExprPtr square =
      graph::Binary(Op::kDiv, graph::Binary(Op::kMul, load(total), load(total)), count);
  squares_now.value = graph::Cast(
      DType::kF32, graph::Binary(Op::kMax, graph::Binary(Op::kSub, load(total_squares), square),
                                 graph::Const(DType::kF64, 0)));
  graph.nodes.insert(graph.nodes.begin() + variance.sum, {total, total_squares});
  RenumberProducers(graph);
  return graph;
}

// But for what they compute: the same shape of work.
bool SameShape(const Node& a, const Node& b) {
  if (a.reduce != b.reduce || (a.reduce && a.combiner != b.combiner) ||
      a.axes.size() != b.axes.size() || a.reduce_axes.size() != b.reduce_axes.size()) {
    return false;
  }
  for (size_t i = 0; i < a.axes.size(); ++i) {
    if (a.axes[i].extent != b.axes[i].extent) return false;
  }
  for (size_t i = 0; i < a.reduce_axes.size(); ++i) {
    if (a.reduce_axes[i].extent != b.reduce_axes[i].extent) return false;
  }
  return true;
}

ExprPtr Renamed(const ExprPtr& e, const std::map<int, int>& to) {
  if (e->args.empty() && e->op != Op::kLoad) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  if (e->op == Op::kLoad) {
    auto found = to.find(e->tensor);
    if (found != to.end()) copy->tensor = found->second;
  }
  for (ExprPtr& arg : copy->args) arg = Renamed(arg, to);
  return copy;
}

// Nodes stay, and what reads them, so that a schedule made for the graph as it was still holds: a
// repeated one becomes a view of the first.
Graph ShareCommonNodes(const Graph& before) {
  Graph graph = before;
  std::vector<ExprPtr> values(graph.nodes.size());  // with the first ones in place of the repeated
  std::map<int, int> first;                         // tensor -> the same one before
  std::map<size_t, std::vector<size_t>> by_shape;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    values[n] = first.empty() ? node.value : Renamed(node.value, first);
    if (!node.reduce) continue;  // maps are inlined, and equal values are one there
    const size_t key = node.axes.size() * 64 + node.reduce_axes.size() * 2 + node.reduce;
    for (size_t m : by_shape[key]) {
      const Node& other = graph.nodes[m];
      if (other.outputs.size() != node.outputs.size() || !SameShape(other, node) ||
          !graph::Same(values[m], values[n]))
        continue;
      if (node.outputs.size() > 1) break;  // argmax: two views would need two nodes
      first[node.outputs[0]] = other.outputs[0];
      node.reduce = false;
      node.reduce_axes.clear();
      node.value = graph::Load(graph, other.outputs[0], Coordinates(node.axes.size()));
      break;
    }
    if (first.count(node.outputs[0]) == 0) by_shape[key].push_back(n);
  }
  return graph;
}

}  // namespace

std::vector<std::string> ApplicableRewrites(const Graph& graph) {
  std::vector<std::string> rules;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (FindVariance(graph, static_cast<int>(n)).has_value()) {
      rules.push_back(
          StrCat(kSinglePassVariance, ":", graph.tensors[graph.nodes[n].outputs[0]].name));
    }
  }
  return rules;
}

absl::StatusOr<Graph> Rewrite(const Graph& graph,
                              const google::protobuf::RepeatedPtrField<std::string>& rewrites) {
  Graph result = ShareCommonNodes(graph);
  for (const std::string& rewrite : rewrites) {
    const std::vector<std::string> parts = absl::StrSplit(rewrite, absl::MaxSplits(':', 1));
    if (parts.size() != 2 || parts[0] != kSinglePassVariance) {
      return absl::InvalidArgumentError(
          StrCat("rewrite '", rewrite, "' is unknown; there is ", kSinglePassVariance, ":TENSOR"));
    }
    const int tensor = result.Find(parts[1]);
    if (tensor < 0 || result.tensors[tensor].node < 0) {
      return absl::InvalidArgumentError(
          StrCat("rewrite '", rewrite, "': no node computes '", parts[1], "'"));
    }
    const auto variance = FindVariance(result, result.tensors[tensor].node);
    if (!variance.has_value()) {
      return absl::InvalidArgumentError(
          StrCat("rewrite '", rewrite, "' does not apply: '", parts[1],
                 "' is no sum of (x - mean of x)^2 over the mean's axes"));
    }
    result = SinglePassVariance(result, *variance);
  }
  return result;
}

}  // namespace warpsmith::codegen
