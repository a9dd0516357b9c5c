// split_concatenation: a reduce over an axis along which its value is one thing before a place and
// another from there on (a softmax over scores with a sink behind them) becomes a reduce of each
// part and a map that combines the two. The parts are what was concatenated, so that nothing of
// the whole needs to be in memory. All reduces of the graph that are cut at the same place are.
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using absl::StrCat;
using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// Where a reduce is cut: `condition`, that its index variable `axis` is below `place`.
struct Cut {
  size_t axis = 0;  // of the reduce axes
  int64_t place = 0, extent = 0;
  ExprPtr condition, value;  // the node's value, inlined
};

std::optional<Op> OperatorOf(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return Op::kAdd;
    case Combiner::kProd:
      return Op::kMul;
    case Combiner::kMax:
      return Op::kMax;
    case Combiner::kMin:
      return Op::kMin;
    default:
      return std::nullopt;
  }
}

// A condition of a select in `e` that is of this form; null: there is none.
ExprPtr FindCondition(const Node& node, const ExprPtr& e) {
  if (e->op == Op::kSelect && e->args[0]->op == Op::kLt) {
    const ExprPtr &index = e->args[0]->args[0], &place = e->args[0]->args[1];
    const int axis = index->op == Op::kIndex ? index->var - static_cast<int>(node.axes.size()) : -1;
    if (axis >= 0 && place->op == Op::kConst && place->integer > 0 &&
        place->integer < node.reduce_axes[axis].extent) {
      return e->args[0];
    }
  }
  for (const ExprPtr& arg : e->args) {
    if (ExprPtr found = FindCondition(node, arg); found != nullptr) return found;
  }
  return nullptr;
}

std::optional<Cut> FindCut(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  const DType type = node.value->type;
  // Parts of 16 bits would be rounded before they are combined.
  if (!node.reduce || !OperatorOf(node.combiner) || type == DType::kF16 || type == DType::kBF16)
    return std::nullopt;
  Cut cut;
  cut.value = Inlined(graph, node.value);
  if (cut.value == nullptr) return std::nullopt;
  cut.condition = FindCondition(node, cut.value);
  if (cut.condition == nullptr) return std::nullopt;
  cut.axis = cut.condition->args[0]->var - node.axes.size();
  cut.place = cut.condition->args[1]->integer;
  cut.extent = node.reduce_axes[cut.axis].extent;
  return cut;
}

// With the condition decided.
ExprPtr Decided(const ExprPtr& e, const ExprPtr& condition, bool holds) {
  if (e->op == Op::kSelect && graph::Same(e->args[0], condition)) {
    return Decided(e->args[holds ? 1 : 2], condition, holds);
  }
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = Decided(arg, condition, holds);
  return copy;
}

// Cuts one node in two, which come before it; it becomes their combination.
void CutNode(Graph& graph, int id, const Cut& cut) {
  const Node whole = graph.nodes[id];
  auto make = [&](const char* name, int64_t extent, const ExprPtr& value) {
    graph::Tensor tensor = graph.tensors[whole.outputs[0]];
    tensor.name = Fresh(graph, StrCat(tensor.name, name));
    Node node = whole;
    node.reduce_axes[cut.axis].extent = extent;
    node.value = value;
    node.outputs = {static_cast<int>(graph.tensors.size())};
    graph.tensors.push_back(tensor);
    return node;
  };
  std::vector<ExprPtr> moved = Coordinates(whole.axes.size() + whole.reduce_axes.size());
  ExprPtr& along = moved[whole.axes.size() + cut.axis];
  along = graph::Binary(Op::kAdd, along, graph::ConstInt(DType::kI64, cut.place));
  const Node before = make(".before", cut.place, Decided(cut.value, cut.condition, true));
  const Node behind = make(".behind", cut.extent - cut.place,
                           graph::Substitute(Decided(cut.value, cut.condition, false), moved));
  auto load = [&](const Node& node) {
    return graph::Load(graph, node.outputs[0], Coordinates(whole.axes.size()));
  };
  Node& now = graph.nodes[id];
  now.reduce = false;
  now.reduce_axes.clear();
  now.value = graph::Binary(*OperatorOf(whole.combiner), load(before), load(behind));
  graph.nodes.insert(graph.nodes.begin() + id, {before, behind});
  RenumberProducers(graph);
}

Graph Apply(const Graph& before, int id) {
  const Cut first = *FindCut(before, id);
  Graph graph = before;
  for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
    const auto cut = FindCut(graph, n);
    if (cut && cut->place == first.place && cut->extent == first.extent) CutNode(graph, n, *cut);
  }
  return graph;
}

// Of reduces that are cut at one place the first stands for all.
bool Applies(const Graph& graph, int node) {
  const auto cut = FindCut(graph, node);
  if (!cut) return false;
  for (int n = 0; n < node; ++n) {
    const auto earlier = FindCut(graph, n);
    if (earlier && earlier->place == cut->place && earlier->extent == cut->extent) return false;
  }
  return true;
}

}  // namespace

const Rule& SplitConcatenation() {
  static const Rule rule = {"split_concatenation",
                            "the first reduce along an axis of what is concatenated there",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
