// sum_before_product: a sum over the rows of one factor of a product needs that factor's sum alone.
//
//   s[m, n] = sum[k](a[m, k] * b[n, k])           w[k] = sum[n](c[n] * b[n, k])
//   t[m] = sum[n](c[n] * s[m, n] + d[n])    ->    t[m] = sum[k](a[m, k] * w[k]) + sum[n](d[n])
//
// What stands between the two is linear in the product; it rounds to no narrower type.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>

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

// An expression as factor * product + rest; null: 0.
struct Linear {
  ExprPtr factor, rest;
};

ExprPtr Plus(Op op, const ExprPtr& a, const ExprPtr& b) {
  if (b == nullptr) return a;
  if (a != nullptr) return graph::Binary(op, a, b);
  return op == Op::kAdd ? b : graph::Unary(Op::kNeg, b);
}
ExprPtr Scaled(Op op, const ExprPtr& a, const ExprPtr& by) {
  return a == nullptr ? nullptr : graph::Binary(op, a, by);
}

// The load of a product of matrices that the expression is linear in. `e` is inlined.
class Reader {
 public:
  Reader(const Graph& graph, DType type) : graph_(graph), type_(type) {}
  const ExprPtr& load() const { return load_; }  // null: there is none

  std::optional<Linear> Read(const ExprPtr& e) {
    if (e->type != type_) return Without(e);
    switch (e->op) {
      case Op::kLoad:
        if (!IsSum(e->tensor)) return Without(e);
        if (load_ != nullptr && !graph::Same(load_, e)) return std::nullopt;
        load_ = e;
        return Linear{graph::Const(type_, 1), nullptr};
      case Op::kAdd:
      case Op::kSub: {
        const auto a = Read(e->args[0]), b = Read(e->args[1]);
        if (!a || !b) return std::nullopt;
        return Linear{Plus(e->op, a->factor, b->factor), Plus(e->op, a->rest, b->rest)};
      }
      case Op::kNeg: {
        const auto a = Read(e->args[0]);
        if (!a) return std::nullopt;
        return Linear{a->factor == nullptr ? nullptr : graph::Unary(Op::kNeg, a->factor),
                      a->rest == nullptr ? nullptr : graph::Unary(Op::kNeg, a->rest)};
      }
      case Op::kMul:
      case Op::kDiv: {
        const auto a = Read(e->args[0]), b = Read(e->args[1]);
        if (!a || !b || (a->factor != nullptr && b->factor != nullptr)) return std::nullopt;
        if (b->factor == nullptr) {
          if (b->rest == nullptr) return std::nullopt;
          return Linear{Scaled(e->op, a->factor, b->rest), Scaled(e->op, a->rest, b->rest)};
        }
        if (e->op == Op::kDiv || a->rest == nullptr) return std::nullopt;
        return Linear{Scaled(e->op, b->factor, a->rest), Scaled(e->op, b->rest, a->rest)};
      }
      default:
        return Without(e);
    }
  }

 private:
  bool IsSum(int tensor) const {
    const int node = graph_.tensors[tensor].node;
    return node >= 0 && graph_.nodes[node].reduce &&
           graph_.nodes[node].combiner == graph::Combiner::kSum;
  }
  bool Reads(const ExprPtr& e) const {
    if (e->op == Op::kLoad && IsSum(e->tensor)) return true;
    return std::any_of(e->args.begin(), e->args.end(),
                       [this](const ExprPtr& arg) { return Reads(arg); });
  }
  std::optional<Linear> Without(const ExprPtr& e) const {
    return Reads(e) ? std::nullopt : std::optional<Linear>(Linear{nullptr, e});
  }

  const Graph& graph_;
  const DType type_;
  ExprPtr load_;
};

// The sum and the product, in the sum's variables: its axes, those that it sums over, and then
// those that the product does.
struct Found {
  std::vector<graph::Axis> kept, over, k;
  ExprPtr stays, moves, factor, rest;  // of each term: stays * factor * moves, and rest
  std::set<int> of_weights;            // variables beside `over` that factor * moves has
};

bool StillNeeded(const Graph& graph, int tensor, int without) {
  std::set<int> seen;
  std::vector<int> left = graph.outputs;
  for (const auto& update : graph.updates) left.push_back(update.value);
  while (!left.empty()) {
    const int t = left.back();
    left.pop_back();
    if (t == tensor) return true;
    const int node = graph.tensors[t].node;
    if (!seen.insert(t).second || node < 0 || node == without) continue;
    for (int read : graph::LoadedTensors(graph.nodes[node].value)) left.push_back(read);
  }
  return false;
}

std::optional<Found> Find(const Graph& graph, int id) {
  const Node& sum = graph.nodes[id];
  if (!sum.reduce || sum.combiner != graph::Combiner::kSum ||
      (sum.value->type != DType::kF32 && sum.value->type != DType::kF64))
    return std::nullopt;
  const ExprPtr value = Inlined(graph, sum.value);
  if (value == nullptr) return std::nullopt;
  Reader reader(graph, value->type);
  const auto linear = reader.Read(value);
  if (!linear || reader.load() == nullptr || linear->factor == nullptr) return std::nullopt;
  const ExprPtr& load = reader.load();
  const Node& product = graph.nodes[graph.tensors[load->tensor].node];
  const ExprPtr term = Inlined(graph, product.value);
  if (term == nullptr || term->op != Op::kMul || StillNeeded(graph, load->tensor, id))
    return std::nullopt;

  Found found;
  found.kept = sum.axes;
  found.over = sum.reduce_axes;
  found.k = product.reduce_axes;
  const int kept = static_cast<int>(found.kept.size()), over = static_cast<int>(found.over.size());
  std::vector<ExprPtr> variables = load->args;
  for (size_t i = 0; i < found.k.size(); ++i)
    variables.push_back(graph::Index(kept + over + static_cast<int>(i)));
  std::set<int> moving;
  for (const ExprPtr& arg : term->args) {
    const ExprPtr factor = graph::Substitute(arg, variables);
    std::set<int> of;
    CollectVariables(factor, of);
    const bool moves =
        std::any_of(of.begin(), of.end(), [&](int v) { return v >= kept && v < kept + over; });
    ExprPtr& place = moves ? found.moves : found.stays;
    if (place != nullptr) return std::nullopt;  // both or neither
    place = factor;
  }
  found.factor = linear->factor;
  found.rest = linear->rest;
  CollectVariables(found.moves, found.of_weights);
  CollectVariables(found.factor, found.of_weights);
  for (int v = kept; v < kept + over; ++v) {
    if (found.of_weights.erase(v) == 0) return std::nullopt;
  }
  // All of K, whether the factor has it or not.
  for (size_t i = 0; i < found.k.size(); ++i)
    found.of_weights.insert(kept + over + static_cast<int>(i));

  double weights = static_cast<double>(Span(found.over));
  for (int v : found.of_weights) {
    const auto& axis = v < kept ? found.kept[v] : found.k[v - kept - over];
    weights *= static_cast<double>(axis.extent);
  }
  const double k = static_cast<double>(Span(found.k)),
               now = static_cast<double>(Span(product.axes)) * k,
               then = weights + static_cast<double>(Span(found.kept)) * k;
  return 2 * then < now ? std::optional<Found>(found) : std::nullopt;
}

bool Applies(const Graph& graph, int node) { return Find(graph, node).has_value(); }

// Axes with names that tell them apart.
std::vector<graph::Axis> Named(std::vector<graph::Axis> axes, const std::string& letter) {
  for (size_t i = 0; i < axes.size(); ++i) axes[i].name = StrCat(letter, i);
  return axes;
}

Graph Apply(const Graph& before, int id) {
  const Found found = *Find(before, id);
  Graph graph = before;
  const Node whole = graph.nodes[id];
  const std::string& name = before.tensors[whole.outputs[0]].name;
  const DType type = whole.value->type;
  const int kept = static_cast<int>(found.kept.size()), over = static_cast<int>(found.over.size());
  // A sum of `value`, in the variables of Found, with the axes `of` of those; `along`: the first of
  // the variables that it sums over.
  const auto sum = [&](const std::string& part, const std::set<int>& of,
                       const std::vector<graph::Axis>& reduced, int along, const ExprPtr& value) {
    std::vector<ExprPtr> variables(kept + over + found.k.size());
    Node node;
    node.reduce = true;
    for (int v : of) {
      variables[v] = graph::Index(static_cast<int>(node.axes.size()));
      node.axes.push_back(v < kept ? found.kept[v] : found.k[v - kept - over]);
    }
    for (size_t i = 0; i < reduced.size(); ++i)
      variables[along + i] = graph::Index(static_cast<int>(of.size() + i));
    for (ExprPtr& variable : variables) {
      if (variable == nullptr) variable = graph::ConstInt(DType::kI64, 0);  // it has none
    }
    node.axes = Named(node.axes, "i");
    node.reduce_axes = Named(reduced, "r");
    node.value = graph::Substitute(value, variables);
    graph::Tensor tensor;
    tensor.name = Fresh(graph, StrCat(name, ".", part));
    tensor.type = type;
    for (const graph::Axis& axis : node.axes) tensor.shape.push_back(axis.extent);
    node.outputs = {static_cast<int>(graph.tensors.size())};
    graph.tensors.push_back(tensor);
    return node;
  };
  const auto load = [&](const Node& node, const std::set<int>& of) {
    std::vector<ExprPtr> at;
    for (int v : of) at.push_back(graph::Index(v));
    return graph::Load(graph, node.outputs[0], at);
  };
  std::vector<Node> nodes;
  nodes.push_back(sum("weights", found.of_weights, found.over, kept,
                      graph::Binary(Op::kMul, found.factor, found.moves)));
  std::set<int> all;
  for (int v = 0; v < kept; ++v) all.insert(v);
  nodes.push_back(sum("product", all, found.k, kept + over,
                      graph::Binary(Op::kMul, found.stays, load(nodes[0], found.of_weights))));
  ExprPtr value = load(nodes[1], all);
  if (found.rest != nullptr) {
    std::set<int> of;
    CollectVariables(found.rest, of);
    for (int v = kept; v < kept + over; ++v) of.erase(v);
    nodes.push_back(sum("rest", of, found.over, kept, found.rest));
    value = graph::Binary(Op::kAdd, value, load(nodes[2], of));
  }
  Node& now = graph.nodes[id];
  now.reduce = false;
  now.reduce_axes.clear();
  now.value = value;
  graph.nodes.insert(graph.nodes.begin() + id, nodes.begin(), nodes.end());
  RenumberProducers(graph);
  return graph;
}

}  // namespace

const Rule& SumBeforeProduct() {
  static const Rule rule = {"sum_before_product",
                            "a sum over the rows of one factor of a product that nobody else needs",
                            true, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
