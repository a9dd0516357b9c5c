#include "worker/codegen/skeleton/topk/form.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/graph/places.h"

namespace warpsmith::codegen {
namespace {

using graph::Expr;
using graph::ExprPtr;
using graph::Op;

// Elements that one that is put in order is made of.
constexpr int kMostLoads = 24;

bool IsInteger(const ExprPtr& e, int64_t value) {
  return e->op == Op::kConst && !graph::IsFloat(e->type) && e->integer == value;
}
bool IsVariable(const ExprPtr& e, int var) { return e->op == Op::kIndex && e->var == var; }

// What its nodes say, and which axis is which.
struct Nodes {
  const graph::Node *ranks = nullptr, *finds = nullptr;
  std::vector<ExprPtr> at;  // of the ranks' tensor, over the finding node's axes
  int along = -1;           // the axis of the ranks that is put in order
  int place = -1;           // the axis of the result that is the place
  ExprPtr mine;             // what is compared, over the ranks' axes
  bool descending = false;
};

// max of c: select(rank[.., c] == k, c, 0)
bool Finds(const graph::Graph& graph, Nodes& nodes) {
  const graph::Node& node = *nodes.finds;
  if (!node.reduce || node.combiner != graph::Combiner::kMax || node.reduce_axes.size() != 1)
    return false;
  const int candidate = static_cast<int>(node.axes.size());
  const ExprPtr& chosen = node.value;
  if (chosen->op != Op::kSelect || !IsVariable(chosen->args[1], candidate) ||
      !IsInteger(chosen->args[2], 0))
    return false;
  const ExprPtr& equal = chosen->args[0];
  if (equal->op != Op::kEq || equal->args[0]->op != Op::kLoad || equal->args[1]->op != Op::kIndex)
    return false;
  nodes.place = equal->args[1]->var;
  const int producer = graph.tensors[equal->args[0]->tensor].node;
  if (producer < 0 || nodes.place >= candidate) return false;
  nodes.ranks = &graph.nodes[producer];
  nodes.at = equal->args[0]->args;
  std::vector<bool> seen(candidate + 1, false);
  seen[nodes.place] = true;  // the place picks no row
  for (size_t a = 0; a < nodes.at.size(); ++a) {
    const ExprPtr& e = nodes.at[a];
    if (IsInteger(e, 0)) continue;
    if (e->op != Op::kIndex || seen[e->var]) return false;
    seen[e->var] = true;
    if (e->var == candidate) nodes.along = static_cast<int>(a);
  }
  return nodes.along >= 0 && nodes.ranks->axes[nodes.along].extent == node.reduce_axes[0].extent;
}

// sum of d: select(mine < theirs, 1, select(mine == theirs and d < c, 1, 0)), or theirs < mine
bool Ranks(Nodes& nodes) {
  const graph::Node& node = *nodes.ranks;
  if (!node.reduce || node.combiner != graph::Combiner::kSum || node.reduce_axes.size() != 1 ||
      node.reduce_axes[0].extent != node.axes[nodes.along].extent)
    return false;
  const ExprPtr& before = node.value;
  if (before->op != Op::kSelect || before->args[0]->op != Op::kLt || !IsInteger(before->args[1], 1))
    return false;
  const ExprPtr& equal = before->args[2];
  if (equal->op != Op::kSelect || equal->args[0]->op != Op::kAnd || !IsInteger(equal->args[1], 1) ||
      !IsInteger(equal->args[2], 0))
    return false;
  const ExprPtr &same = equal->args[0]->args[0], &earlier = equal->args[0]->args[1];
  const int other = static_cast<int>(node.axes.size());
  if (same->op != Op::kEq || earlier->op != Op::kLt || !IsVariable(earlier->args[0], other) ||
      !IsVariable(earlier->args[1], nodes.along))
    return false;
  std::vector<bool> used(other + 1);
  graph::MarkVariables(*same->args[0], used);
  if (used[other]) return false;  // its own element, and nothing of another
  std::vector<ExprPtr> moved(other + 1);
  moved[nodes.along] = graph::Index(other);
  nodes.mine = same->args[0];
  const ExprPtr theirs = graph::Substitute(nodes.mine, moved);
  if (!graph::Same(same->args[1], theirs)) return false;
  const ExprPtr &left = before->args[0]->args[0], &right = before->args[0]->args[1];
  nodes.descending = graph::Same(left, nodes.mine) && graph::Same(right, theirs);
  return nodes.descending || (graph::Same(left, theirs) && graph::Same(right, nodes.mine));
}

// Rows kept and elements reduced, each as one axis of the frame.
Frame FrameOf(const TopkForm& form, Values& values) {
  Frame frame;
  frame.row = values.NewVariable("r", {0, form.rows - 1});
  frame.column = values.NewVariable("c", {0, form.elements - 1});
  frame.row_variables = BitOf(frame.row);
  return frame;
}

absl::Status Build(const Analysis& group, const Nodes& nodes, TopkForm& form) {
  const graph::Graph& graph = group.graph();
  form.kernel.values = std::make_unique<Values>();
  Values& values = *form.kernel.values;
  form.kernel.frame = FrameOf(form, values);
  const Frame& frame = form.kernel.frame;
  form.place = values.NewVariable("p", {0, form.places - 1});
  std::vector<int64_t> extents;
  for (size_t a = 0; a < nodes.finds->axes.size(); ++a) {
    if (static_cast<int>(a) != nodes.place) extents.push_back(nodes.finds->axes[a].extent);
  }
  std::vector<Index> result = Unflatten(Index::Of(frame.row), extents);
  result.insert(result.begin() + nodes.place, Index::Of(form.place));
  std::vector<Index> element;
  for (size_t a = 0; a < nodes.at.size(); ++a) {
    const ExprPtr& e = nodes.at[a];
    element.push_back(static_cast<int>(a) == nodes.along ? Index::Of(frame.column)
                      : e->op == Op::kIndex              ? result[e->var]
                                                         : Index(0));
  }
  TensorAccess access;
  access.in_memory = group.in_memory();
  access.stage = [](int, const std::vector<Index>&) -> absl::StatusOr<ValuePtr> { return nullptr; };
  Inliner inliner(graph, values, std::move(access));
  graph::Node of_element;  // the ranks' axes, and no other element
  of_element.axes = nodes.ranks->axes;
  of_element.value = nodes.mine;
  auto key = inliner.Body(of_element, element);
  if (!key.ok()) return key.status();
  int loads = 0;
  for (ValuePtr value : values.Closure({*key})) {
    if (value->kind == Value::Kind::kReduce)
      return absl::InvalidArgumentError("what is put in order is reduced itself");
    if (value->kind == Value::Kind::kOp) form.steps += StepsOf(value->op);
    loads += value->kind == Value::Kind::kLoad;
  }
  if (loads > kMostLoads)
    return absl::InvalidArgumentError(
        absl::StrCat("what is put in order is made of ", loads, " elements; at most ", kMostLoads));
  if (values.full()) return absl::InvalidArgumentError("too many variables");
  form.kernel.roots.push_back(
      {form.root, Level::kRows, *key, Flatten(result, graph.tensors[form.root].shape)});
  return absl::OkStatus();
}

}  // namespace

TopkForm FormTopk(const Analysis& group) {
  TopkForm form;
  const graph::Graph& graph = group.graph();
  form.status = absl::InvalidArgumentError("it finds no first elements of rows");
  if (group.roots().size() != 1) return form;
  form.root = group.roots()[0];
  Nodes nodes;
  if (graph.tensors[form.root].node < 0) return form;
  nodes.finds = &graph.nodes[graph.tensors[form.root].node];
  if (!Finds(graph, nodes) || group.in_memory()(nodes.ranks->outputs[0]) || !Ranks(nodes))
    return form;
  form.places = nodes.finds->axes[nodes.place].extent;
  form.rows = Product(nodes.finds->axes) / form.places;
  form.elements = nodes.finds->reduce_axes[0].extent;
  form.descending = nodes.descending;
  form.type = nodes.mine->type;
  if (form.elements > kMostRanked || form.places > kMostPlaces) {
    form.status =
        absl::InvalidArgumentError(absl::StrCat(form.places, " places of rows of ", form.elements,
                                                "; at most ", kMostPlaces, " of ", kMostRanked));
    return form;
  }
  form.domain.axes.push_back({{0, "r", {0, form.rows - 1}}, Role::kKept});
  form.domain.axes.push_back({{1, "c", {0, form.elements - 1}}, Role::kReduced});
  form.domain.primary = graph.tensors[form.root].node;
  form.domain.stages = 1;
  form.status = Build(group, nodes, form);
  form.written = form.domain;
  form.written.roots = {{form.root, Level::kRows}};
  return form;
}

}  // namespace warpsmith::codegen
