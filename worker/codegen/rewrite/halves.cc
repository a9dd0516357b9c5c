// product_in_halves: a product of which all is read as two halves is two products of one factor.
//
//   s[m, j: 2n] = sum[k](x[m, k] * w[j, k])        p[m, n] = sum[k](x[m, k] * w[n, k])
//   y[m, n] = f(s[m, n], s[m, n + N])         ->   q[m, n] = sum[k](x[m, k] * w[n + N, k])
//                                                  y[m, n] = f(p[m, n], q[m, n])
//
// So the halves meet in one kernel, where those of the whole lie in different tiles: a gate and
// what it gates, by weights that are joined. Maps behind the product that keep its places (a bias,
// a rounding) are halved with it.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// Sums, and places of a half, from which on two kernels' tiles are to be had.
constexpr int64_t kLeastSum = 16, kLeastHalf = 16;

// A product that falls in halves along one of its axes.
struct Halves {
  size_t axis = 0;
  int64_t half = 0;          // its extent
  std::vector<int> members;  // the product's tensor, and of maps that keep its places, in order
  bool IsMember(int tensor) const {
    return std::find(members.begin(), members.end(), tensor) != members.end();
  }
};

// Calls visit(load) for each load of a member.
template <class F>
void ForEachLoad(const Halves& halves, const ExprPtr& e, F&& visit) {
  if (e->op == Op::kLoad && halves.IsMember(e->tensor)) visit(e);
  for (const ExprPtr& arg : e->args) ForEachLoad(halves, arg, visit);
}

bool IsOwnPlace(const ExprPtr& load, size_t axes) {
  if (load->args.size() != axes) return false;
  for (size_t a = 0; a < axes; ++a) {
    if (load->args[a]->op != Op::kIndex || load->args[a]->var != static_cast<int>(a)) return false;
  }
  return true;
}

int64_t ExtentOf(const Node& node, int variable) {
  const auto kept = static_cast<int>(node.axes.size());
  return variable < kept ? node.axes[variable].extent : node.reduce_axes[variable - kept].extent;
}

// The half in which an index lies that runs through no more than one, and where it lies there.
std::optional<std::pair<int, ExprPtr>> PlaceOf(const Halves& halves, const Node& node,
                                               const ExprPtr& index) {
  const auto fits = [&](const ExprPtr& e) {
    return e->op == Op::kIndex && ExtentOf(node, e->var) <= halves.half;
  };
  if (fits(index)) return std::make_pair(0, index);
  if (index->op != Op::kAdd) return std::nullopt;
  for (int a : {0, 1}) {
    const ExprPtr &variable = index->args[a], &offset = index->args[1 - a];
    if (fits(variable) && offset->op == Op::kConst && offset->integer == halves.half)
      return std::make_pair(1, variable);
  }
  return std::nullopt;
}

// Whether every use of the members is of places of their own, by another member, or of one half;
// fills in the members. Both halves are used.
bool Falls(const Graph& graph, Halves& halves) {
  std::array<bool, 2> used{};
  for (const Node& node : graph.nodes) {
    bool reads = false, keeps = node.map(), parts = true;
    ForEachLoad(halves, node.value, [&](const ExprPtr& load) {
      reads = true;
      const graph::Tensor& read = graph.tensors[load->tensor];
      keeps = keeps && IsOwnPlace(load, node.axes.size()) &&
              graph.tensors[node.outputs[0]].shape == read.shape;
      const auto place = PlaceOf(halves, node, load->args[halves.axis]);
      parts = parts && place.has_value();
      if (place) used[place->first] = true;
    });
    if (!reads) continue;
    if (keeps) {
      halves.members.push_back(node.outputs[0]);
    } else if (!parts) {
      return false;
    }
  }
  const auto wanted = [&](int tensor) { return halves.IsMember(tensor); };
  for (int output : graph.outputs) {
    if (wanted(output)) return false;
  }
  for (const auto& update : graph.updates) {
    if (wanted(update.value)) return false;
  }
  return used[0] && used[1];
}

std::optional<Halves> Find(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  if (!node.reduce || node.combiner != graph::Combiner::kSum || node.value->op != Op::kMul ||
      Span(node.reduce_axes) < kLeastSum)
    return std::nullopt;
  for (size_t axis = node.axes.size(); axis-- > 0;) {
    Halves halves;
    halves.axis = axis;
    halves.half = node.axes[axis].extent / 2;
    halves.members = {node.outputs[0]};
    if (node.axes[axis].extent % 2 != 0 || halves.half < kLeastHalf) continue;
    if (Falls(graph, halves)) return halves;
  }
  return std::nullopt;
}

bool Applies(const Graph& graph, int id) { return Find(graph, id).has_value(); }

// A member's value in one half: `made`, of other members the tensors of that half.
ExprPtr InHalf(const Graph& graph, const Halves& halves, const std::map<int, int>& made, int which,
               const ExprPtr& e) {
  if (e->op == Op::kLoad && made.count(e->tensor) > 0)
    return graph::Load(graph, made.at(e->tensor), e->args);
  if (e->op == Op::kIndex && e->var == static_cast<int>(halves.axis) && which == 1)
    return graph::Binary(Op::kAdd, e, graph::ConstInt(graph::DType::kI64, halves.half));
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = InHalf(graph, halves, made, which, arg);
  return copy;
}

// A reader's value, of the halves.
ExprPtr OfHalves(const Graph& graph, const Halves& halves,
                 const std::array<std::map<int, int>, 2>& made, const Node& node,
                 const ExprPtr& e) {
  if (e->args.empty()) return e;
  std::vector<ExprPtr> args;
  for (const ExprPtr& arg : e->args) args.push_back(OfHalves(graph, halves, made, node, arg));
  if (e->op == Op::kLoad && halves.IsMember(e->tensor)) {
    const auto place = PlaceOf(halves, node, e->args[halves.axis]);
    args[halves.axis] = place->second;
    return graph::Load(graph, made[place->first].at(e->tensor), args);
  }
  auto copy = std::make_shared<graph::Expr>(*e);
  copy->args = std::move(args);
  return copy;
}

Graph Apply(const Graph& before, int id) {
  const Halves halves = *Find(before, id);
  Graph graph = before;
  graph.nodes.clear();
  std::array<std::map<int, int>, 2> made;  // member -> its half
  for (const Node& old : before.nodes) {
    Node node = old;
    const bool member = halves.IsMember(old.outputs[0]);
    for (int which = 0; member && which < 2; ++which) {
      Node half = old;
      half.axes[halves.axis].extent = halves.half;
      half.value = InHalf(graph, halves, made[which], which, old.value);
      graph::Tensor tensor = graph.tensors[old.outputs[0]];
      tensor.name = Fresh(graph, absl::StrCat(tensor.name, which == 0 ? ".first" : ".second"));
      tensor.shape[halves.axis] = halves.half;
      half.outputs = {static_cast<int>(graph.tensors.size())};
      made[which][old.outputs[0]] = half.outputs[0];
      graph.tensors.push_back(tensor);
      graph.nodes.push_back(half);
    }
    if (member) {  // whom nobody reads any more
      std::vector<ExprPtr> at = Coordinates(old.axes.size());
      const ExprPtr place = at[halves.axis],
                    half = graph::ConstInt(graph::DType::kI64, halves.half);
      const ExprPtr first = graph::Load(graph, made[0].at(old.outputs[0]), at);
      at[halves.axis] = graph::Binary(Op::kSub, place, half);
      node.reduce = false;
      node.reduce_axes.clear();
      node.value = graph::Select(graph::Binary(Op::kLt, place, half), first,
                                 graph::Load(graph, made[1].at(old.outputs[0]), at));
    } else {
      node.value = OfHalves(graph, halves, made, old, old.value);
    }
    graph.nodes.push_back(std::move(node));
  }
  RenumberProducers(graph);
  return graph;
}

}  // namespace

const Rule& ProductInHalves() {
  static const Rule rule = {"product_in_halves",
                            "a product of which all is read as halves along one axis",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
