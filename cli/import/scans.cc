// Cumulative operators. Those of f16 and bf16 are kept in f32 and rounded once: PyTorch's CPU does
// the same, its CUDA kernels round at every step.
#include "cli/import/scans.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "cli/import/lowering.h"
#include "common/graph/affine.h"

namespace warpsmith::import {
namespace {

using graph::Cast;
using graph::Combiner;
using graph::DType;
using graph::Expr;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// A scan of the operand along `dim`, computed in `type`; a number is its own scan.
int Scanned(Lowering& l, std::string name, Combiner combiner, DType type, std::string index_name,
            const std::function<ExprPtr(ExprPtr)>& converted) {
  const int self = l.Tensor("self");
  const Shape& shape = l.ShapeOf(self);
  const auto element = [&](const Exprs& at) {
    return Cast(type, converted(Load(l.graph, self, at)));
  };
  if (shape.empty()) return l.AddMap(std::move(name), shape, element);
  return l.AddScan(std::move(name), combiner, shape, Wrap(l.Int("dim"), shape.size()), element,
                   std::move(index_name));
}

Operator Cumulative(const char* arguments, Combiner combiner) {
  return {arguments, [combiner](Lowering& l) {
            const DType out = l.Out().type, type = OpMath(out);
            if (out == DType::kBool) return l.Unsupported("of bool");
            const bool wide = type != out;
            // The operand takes the result's type first.
            const int scan = Scanned(l, l.Name(wide ? "wide" : ""), combiner, type, "",
                                     [&](ExprPtr x) { return Cast(out, std::move(x)); });
            l.Bind(wide ? l.CastTensor(scan, out, l.Name()) : scan);
            return absl::OkStatus();
          }};
}

Operator Extreme(const char* arguments, bool maximum) {
  return {arguments, [maximum](Lowering& l) {
            const bool indexed = l.Used(1);
            if (indexed && l.ShapeOf(l.Tensor("self")).empty()) {
              return l.Unsupported("the index of a tensor without dimensions");
            }
            const Combiner combiner = indexed ? (maximum ? Combiner::kArgMax : Combiner::kArgMin)
                                              : (maximum ? Combiner::kMax : Combiner::kMin);
            const DType out = l.Out().type, type = out == DType::kBool ? DType::kI32 : out;
            const int scan = Scanned(l, l.Name(type == out ? "" : "i32"), combiner, type,
                                     indexed ? l.Name("index") : "", [](ExprPtr x) { return x; });
            l.Bind(type == out ? scan : l.CastTensor(scan, out, l.Name()));
            if (indexed) l.Bind(scan + 1, 1);
            return absl::OkStatus();
          }};
}

// ---- folding ----------------------------------------------------------------------------------

// An affine index as its terms in order; any other as it is.
ExprPtr Tidied(const ExprPtr& e, int variables) {
  const auto affine = graph::AsAffine(e, variables);
  if (!affine) return e;
  ExprPtr sum = I(affine->constant);
  bool empty = affine->constant == 0;
  // What is added comes first, so that 7 - k stays what it is.
  for (int v = 0; v < variables; ++v) {
    const int64_t c = affine->coefficients[v];
    if (c == 0) continue;
    const ExprPtr term = std::abs(c) == 1 ? graph::Index(v) : Mul(graph::Index(v), I(std::abs(c)));
    if (c < 0) {
      sum = Sub(sum, term);
    } else {
      sum = empty ? term : Add(term, sum);
    }
    empty = false;
  }
  return sum;
}

// The expression with loads of views (maps that only load) replaced by loads of what they view.
ExprPtr ThroughViews(const Graph& graph, const ExprPtr& e, int variables) {
  if (e->args.empty()) return e;
  Exprs args;
  for (const ExprPtr& arg : e->args) args.push_back(ThroughViews(graph, arg, variables));
  if (e->op != Op::kLoad) {
    auto copy = std::make_shared<Expr>(*e);
    copy->args = std::move(args);
    return copy;
  }
  for (ExprPtr& arg : args) arg = Tidied(arg, variables);
  const int node = graph.tensors[e->tensor].node;
  if (node < 0 || !graph.nodes[node].map() || graph.nodes[node].value->op != Op::kLoad) {
    return Load(graph, e->tensor, std::move(args));
  }
  return ThroughViews(graph, graph::Substitute(graph.nodes[node].value, args), variables);
}

// Whether every load is within its tensor wherever it happens.
bool Inside(const Graph& graph, const ExprPtr& e, const std::vector<graph::Interval>& ranges) {
  for (size_t a = 0; a < e->args.size(); ++a) {
    if (!Inside(graph, e->args[a], ranges)) return false;
    if (e->op != Op::kLoad) continue;
    const auto bounds = graph::BoundsOf(e->args[a], ranges);
    if (!bounds || bounds->low < 0 || bounds->high >= graph.tensors[e->tensor].shape[a]) {
      return false;
    }
  }
  return true;
}

// The scan that `e` loads an element of; null if it is anything else, or a scan with an index.
const Node* ScanOf(const Graph& graph, const ExprPtr& e) {
  if (e->op != Op::kLoad || graph.tensors[e->tensor].node < 0) return nullptr;
  const Node& node = graph.nodes[graph.tensors[e->tensor].node];
  return node.scan && node.outputs.size() == 1 ? &node : nullptr;
}

bool IsAffine(const ExprPtr& e, int variables, int variable, int64_t coefficient,
              int64_t constant) {
  const auto affine = graph::AsAffine(e, variables);
  if (!affine || affine->constant != constant) return false;
  for (int v = 0; v < variables; ++v) {
    if (affine->coefficients[v] != (v == variable ? coefficient : 0)) return false;
  }
  return true;
}

// Whether `load` reads the node's own place on every axis but `axis`, and all extents but that one
// agree.
bool SameBeside(const Graph& graph, const Node& node, const ExprPtr& load, int axis) {
  const std::vector<int64_t>& shape = graph.tensors[load->tensor].shape;
  if (shape.size() != node.axes.size()) return false;
  for (int a = 0; a < static_cast<int>(shape.size()); ++a) {
    if (a == axis) continue;
    if (shape[a] != node.axes[a].extent) return false;
    const bool one = shape[a] == 1 && IsAffine(load->args[a], shape.size(), -1, 0, 0);
    if (!one && !IsAffine(load->args[a], shape.size(), a, 1, 0)) return false;
  }
  return true;
}

Exprs Variables(const Node& node) {
  Exprs variables;
  for (size_t a = 0; a < node.axes.size(); ++a) {
    variables.push_back(graph::Index(static_cast<int>(a)));
  }
  return variables;
}

// y[k] = scan[K - 1 - k]: the scan the other way, of its values the other way.
std::optional<Node> Reversed(const Graph& graph, const Node& node) {
  const Node* scan = ScanOf(graph, node.value);
  if (scan == nullptr) return std::nullopt;
  const int axis = scan->scan->axis, rank = static_cast<int>(node.axes.size());
  if (!SameBeside(graph, node, node.value, axis)) return std::nullopt;
  const int64_t last = scan->axes[axis].extent - 1;
  if (node.axes[axis].extent != last + 1 ||
      !IsAffine(node.value->args[axis], rank, axis, -1, last)) {
    return std::nullopt;
  }
  Node folded = node;
  folded.scan = *scan->scan;
  folded.scan->reverse = !scan->scan->reverse;
  folded.combiner = scan->combiner;
  Exprs variables = Variables(node);
  variables[axis] = Sub(I(last), variables[axis]);
  folded.value = ThroughViews(graph, graph::Substitute(scan->value, variables), rank);
  return folded;
}

// A number, or an element of a tensor that is one number.
std::optional<double> NumberOf(const Graph& graph, const ExprPtr& e) {
  if (e->op == Op::kConst) {
    return graph::IsFloat(e->type) ? e->number : static_cast<double>(e->integer);
  }
  if (e->op != Op::kLoad || graph.tensors[e->tensor].node < 0) return std::nullopt;
  const Node& node = graph.nodes[graph.tensors[e->tensor].node];
  if (!node.map() || node.value->op != Op::kConst) return std::nullopt;
  return NumberOf(graph, node.value);
}

// What a sum or a product of nothing is; no other combiner is written this way.
std::optional<double> Nothing(Combiner combiner) {
  if (combiner == Combiner::kSum) return 0;
  if (combiner == Combiner::kProd) return 1;
  return std::nullopt;
}

// y[k] = select(k < 1, nothing, scan[k - 1]): exclusive, and one element longer, whose last value
// nobody sees.
std::optional<Node> Exclusive(const Graph& graph, const Node& node) {
  if (node.value->op != Op::kSelect) return std::nullopt;
  const ExprPtr &condition = node.value->args[0], &first = node.value->args[1],
                &load = node.value->args[2];
  const Node* scan = ScanOf(graph, load);
  if (scan == nullptr || scan->scan->exclusive || scan->scan->reverse) return std::nullopt;
  const int axis = scan->scan->axis, rank = static_cast<int>(node.axes.size());
  if (!SameBeside(graph, node, load, axis)) return std::nullopt;
  const int64_t extent = node.axes[axis].extent;
  const std::optional<double> nothing = Nothing(scan->combiner);
  if (scan->axes[axis].extent != extent - 1 || !IsAffine(load->args[axis], rank, axis, 1, -1) ||
      !nothing || NumberOf(graph, first) != nothing || condition->op != Op::kLt ||
      condition->args[0]->type != DType::kI64 || !IsAffine(condition->args[0], rank, axis, 1, 0) ||
      !IsAffine(condition->args[1], rank, -1, 0, 1)) {
    return std::nullopt;
  }
  Node folded = node;
  folded.scan = *scan->scan;
  folded.scan->exclusive = true;
  folded.combiner = scan->combiner;
  folded.value = ThroughViews(graph, scan->value, rank);
  if (!Inside(graph, folded.value, graph::RangesOf(folded))) {
    folded.value = graph::Select(Less(graph::Index(axis), I(extent - 1)), folded.value,
                                 Literal(folded.value->type, *nothing));
  }
  return folded;
}

}  // namespace

void FoldScans(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!node.map()) continue;
    std::optional<Node> folded = Reversed(graph, node);
    if (!folded) folded = Exclusive(graph, node);
    if (folded) node = *std::move(folded);
  }
}

const OperatorTable& ScanOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.cumsum.default", Cumulative("self:t dim:i dtype:d?", Combiner::kSum)},
      {"aten.cumprod.default", Cumulative("self:t dim:i dtype:d?", Combiner::kProd)},
      {"aten.logcumsumexp.default", Cumulative("self:t dim:i", Combiner::kLogSumExp)},
      {"aten.cummax.default", Extreme("self:t dim:i", true)},
      {"aten.cummin.default", Extreme("self:t dim:i", false)},
  };
  return *kTable;
}

}  // namespace warpsmith::import
