// split_reduction: a reduce over several axes whose value needs reduces of its own along some of
// them (a loss over all rows of a softmax) goes along those first and over the others after that.
// What it needs of a row and what it makes of one are then computed where the row is read, once.
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// Variables by which loads of what reduces and scans computed are indexed; `e` is inlined.
void CollectRows(const Graph& graph, const ExprPtr& e, std::set<int>& variables) {
  if (e->op == Op::kLoad && graph.tensors[e->tensor].node >= 0) CollectVariables(e, variables);
  for (const ExprPtr& arg : e->args) CollectRows(graph, arg, variables);
}

// Which reduce axes say the row; none: there is nothing to split.
std::optional<std::vector<bool>> FindRows(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  const DType type = node.value->type;
  const bool indexed = node.combiner == Combiner::kArgMax || node.combiner == Combiner::kArgMin;
  // Parts of 16 bits would be rounded before they are combined.
  if (!node.reduce || indexed || node.reduce_axes.size() < 2 || type == DType::kF16 ||
      type == DType::kBF16)
    return std::nullopt;
  const ExprPtr value = Inlined(graph, node.value);
  if (value == nullptr) return std::nullopt;
  std::set<int> variables;
  CollectRows(graph, value, variables);
  std::vector<bool> rows;
  int64_t along = 1, over = 1;
  for (size_t a = 0; a < node.reduce_axes.size(); ++a) {
    rows.push_back(variables.count(static_cast<int>(node.axes.size() + a)) > 0);
    (rows.back() ? over : along) *= node.reduce_axes[a].extent;
  }
  if (along == 1 || over == 1) return std::nullopt;
  return rows;
}

Graph Apply(const Graph& before, int id) {
  const std::vector<bool> rows = *FindRows(before, id);
  Graph graph = before;
  const Node whole = graph.nodes[id];
  const size_t kept = whole.axes.size();
  Node row = whole, all = whole;
  row.reduce_axes.clear();
  all.reduce_axes.clear();
  for (size_t a = 0; a < rows.size(); ++a) {
    (rows[a] ? all.reduce_axes : row.reduce_axes).push_back(whole.reduce_axes[a]);
  }
  row.axes.insert(row.axes.end(), all.reduce_axes.begin(), all.reduce_axes.end());
  std::vector<ExprPtr> moved = Coordinates(kept);
  size_t over = kept, along = row.axes.size();
  for (const bool is_row : rows)
    moved.push_back(graph::Index(static_cast<int>(is_row ? over++ : along++)));
  row.value = graph::Substitute(whole.value, moved);

  graph::Tensor tensor = graph.tensors[whole.outputs[0]];
  tensor.name = Fresh(graph, absl::StrCat(tensor.name, ".rows"));
  for (const graph::Axis& axis : all.reduce_axes) tensor.shape.push_back(axis.extent);
  row.outputs = {static_cast<int>(graph.tensors.size())};
  graph.tensors.push_back(tensor);
  all.value = graph::Load(graph, row.outputs[0], Coordinates(row.axes.size()));
  graph.nodes[id] = all;
  graph.nodes.insert(graph.nodes.begin() + id, row);
  RenumberProducers(graph);
  return graph;
}

bool Applies(const Graph& graph, int node) { return FindRows(graph, node).has_value(); }

}  // namespace

const Rule& SplitReduction() {
  static const Rule rule = {"split_reduction",
                            "a reduce over axes some of which its value has reduces along",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
