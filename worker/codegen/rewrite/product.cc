// sum_before_product: a sum over the rows of one factor of a product needs that factor's sum alone.
//
//   s[m, n] = sum[k](a[m, k] * b[n, k])           w[k] = sum[n](c[n] * b[n, k])
//   t[m] = sum[n](c[n] * s[m, n] + d[n])    ->    t[m] = sum[k](a[m, k] * w[k]) + sum[n](d[n])
//
// Where that factor is zero outside of a part that each k moves within n, its sum is the same for
// all (the mean of a transposed convolution, over all of its places):
//
//   b[n, k] = 0 <= n - k < N ? x[n - k] : 0 ->    w = sum[n < N](x[n])
//
// sum_of_products: a sum of products of which each is weighed is one product over both.
//
//   s[e, m, n] = sum[k](a[e, m, k] * b[e, n, k])
//   t[m, n] = sum[e](c[e, m] * s[e, m, n])
//   ->  t[m, n] = sum[e, k]((c[e, m] * a[e, m, k]) * b[e, n, k])
//
// What stands between the two is linear in the product; it rounds to no narrower type.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/graph/affine.h"
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

// The load of a sum, `product`, that the expression is linear in. `e` is inlined.
class Reader {
 public:
  Reader(int product, DType type) : product_(product), type_(type) {}
  const ExprPtr& load() const { return load_; }  // null: there is none

  std::optional<Linear> Read(const ExprPtr& e) {
    if (e->type != type_) return Without(e);
    switch (e->op) {
      case Op::kLoad:
        if (e->tensor != product_) return Without(e);
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
  bool Reads(const ExprPtr& e) const {
    if (e->op == Op::kLoad && e->tensor == product_) return true;
    return std::any_of(e->args.begin(), e->args.end(),
                       [this](const ExprPtr& arg) { return Reads(arg); });
  }
  std::optional<Linear> Without(const ExprPtr& e) const {
    return Reads(e) ? std::nullopt : std::optional<Linear>(Linear{nullptr, e});
  }

  const int product_;
  const DType type_;
  ExprPtr load_;
};

// The sum and the product, in the sum's variables: its axes, those that it sums over, and then
// those that the product does.
struct Sums {
  std::vector<graph::Axis> kept, over, k;
  ExprPtr a, b, factor, rest;  // of each term: a * factor * b, and rest
  double product = 0;          // elements of the product

  int64_t Extent(int variable) const {
    const int first_over = static_cast<int>(kept.size()),
              first_k = first_over + static_cast<int>(over.size());
    return variable < first_over ? kept[variable].extent
           : variable < first_k  ? over[variable - first_over].extent
                                 : k[variable - first_k].extent;
  }
  // Elements of what has these variables.
  double Elements(const std::set<int>& variables) const {
    double elements = 1;
    for (int v : variables) elements *= static_cast<double>(Extent(v));
    return elements;
  }
  // Whether something is of what is summed over.
  bool Moves(const std::set<int>& variables) const {
    const int first = static_cast<int>(kept.size()), last = first + static_cast<int>(over.size());
    return std::any_of(variables.begin(), variables.end(),
                       [&](int v) { return v >= first && v < last; });
  }
};

// Where one factor of the product is summed over, and the other stays.
struct Found : Sums {
  ExprPtr stays, moves;
  std::set<int> of_weights;                // variables beside `over` that factor * moves has
  std::vector<graph::Axis> over_of_moves;  // `over`, as far as moves is anything there
};

std::set<int> VariablesOf(const ExprPtr& e) {
  std::set<int> of;
  CollectVariables(e, of);
  return of;
}

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

// Tensors that are sums, in the order in which the expression reads them.
void CollectSums(const Graph& graph, const ExprPtr& e, std::vector<int>& sums) {
  if (e->op == Op::kLoad) {
    const int node = graph.tensors[e->tensor].node;
    if (node >= 0 && graph.nodes[node].reduce &&
        graph.nodes[node].combiner == graph::Combiner::kSum &&
        std::count(sums.begin(), sums.end(), e->tensor) == 0)
      sums.push_back(e->tensor);
  }
  for (const ExprPtr& arg : e->args) CollectSums(graph, arg, sums);
}

// Node `id` as a sum of what is linear in `product`, whose value nobody else needs; `value`: of the
// node, inlined.
std::optional<Sums> Read(const Graph& graph, int id, const ExprPtr& value, int product) {
  const Node& sum = graph.nodes[id];
  Reader reader(product, value->type);
  const auto linear = reader.Read(value);
  if (!linear || reader.load() == nullptr || linear->factor == nullptr) return std::nullopt;
  const Node& multiplies = graph.nodes[graph.tensors[product].node];
  const ExprPtr term = Inlined(graph, multiplies.value);
  if (term == nullptr || term->op != Op::kMul || StillNeeded(graph, product, id))
    return std::nullopt;
  Sums found;
  found.kept = sum.axes;
  found.over = sum.reduce_axes;
  found.k = multiplies.reduce_axes;
  std::vector<ExprPtr> variables = reader.load()->args;
  for (size_t i = 0; i < found.k.size(); ++i)
    variables.push_back(graph::Index(static_cast<int>(found.kept.size() + found.over.size() + i)));
  found.a = graph::Substitute(term->args[0], variables);
  found.b = graph::Substitute(term->args[1], variables);
  found.factor = linear->factor;
  found.rest = linear->rest;
  found.product = static_cast<double>(Span(multiplies.axes));
  return found;
}

// The first of the products that a sum is made of for which `as` gives something.
template <class T, class As>
std::optional<T> FirstOf(const Graph& graph, int id, const As& as) {
  const Node& sum = graph.nodes[id];
  if (!sum.reduce || sum.combiner != graph::Combiner::kSum ||
      (sum.value->type != DType::kF32 && sum.value->type != DType::kF64))
    return std::nullopt;
  const ExprPtr value = Inlined(graph, sum.value);
  if (value == nullptr) return std::nullopt;
  std::vector<int> products;
  CollectSums(graph, value, products);
  for (int product : products) {
    const auto sums = Read(graph, id, value, product);
    if (!sums) continue;
    if (auto found = as(*sums)) return found;
  }
  return std::nullopt;
}

ExprPtr Replaced(const ExprPtr& e, const ExprPtr& what, const ExprPtr& by) {
  if (graph::Same(e, what)) return by;
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = Replaced(arg, what, by);
  return copy;
}

// Where something is read by the variable; null: nowhere.
ExprPtr PlaceBy(const ExprPtr& e, int variable) {
  for (const ExprPtr& arg : e->args) {
    if (e->op == Op::kLoad && VariablesOf(arg).count(variable) > 0) return arg;
    if (ExprPtr place = PlaceBy(arg, variable)) return place;
  }
  return nullptr;
}

// Where what moves is read at over[i] and something more of K, and all that it is not zero at is
// summed for each k: the sum is over its own places, and none of K's.
void StandStill(Found& found, size_t i) {
  const int v = static_cast<int>(found.kept.size() + i),
            first_k = static_cast<int>(found.kept.size() + found.over.size()),
            own = first_k + static_cast<int>(found.k.size());  // one variable more, its own place
  const ExprPtr place = PlaceBy(found.moves, v);
  if (place == nullptr) return;
  const auto affine = graph::AsAffine(place, own);
  if (!affine || affine->coefficients[v] != 1) return;
  const ExprPtr moves = Replaced(found.moves, place, graph::Index(own));
  std::set<int> left = VariablesOf(moves), by;  // by: what it is moved by
  CollectVariables(found.factor, left);
  for (int u = 0; u < own; ++u) {
    if (affine->coefficients[u] == 0 || u == v) continue;
    by.insert(u);
    if (u < first_k || left.count(u) > 0) return;
  }
  const bool is_zero_elsewhere =
      moves->op == Op::kSelect && moves->args[2]->op == Op::kConst && moves->args[2]->number == 0;
  if (by.empty() || left.count(v) > 0 || !is_zero_elsewhere) return;
  std::vector<graph::Interval> ranges;
  for (int u = 0; u < own; ++u) ranges.push_back({0, found.Extent(u) - 1});
  const int64_t last = ranges[v].high;
  ranges[v] = {0, 0};
  const auto first = graph::BoundsOf(place, ranges);
  if (!first) return;
  ranges.push_back({first->low, first->high + last});
  graph::Narrow(moves->args[0], true, ranges);
  const graph::Interval there = ranges[own];
  if (there.high < there.low || first->high > there.low || first->low + last < there.high) return;
  std::vector<ExprPtr> variables(own + 1);
  variables[own] =
      graph::Binary(Op::kAdd, graph::Index(v), graph::ConstInt(DType::kI64, there.low));
  found.moves = graph::Substitute(moves, variables);
  found.over_of_moves[i].extent = there.high - there.low + 1;
  for (int u : by) found.of_weights.erase(u);
}

std::optional<Found> Find(const Graph& graph, int id) {
  return FirstOf<Found>(graph, id, [](const Sums& sums) -> std::optional<Found> {
    const std::set<int> of_a = VariablesOf(sums.a), of_b = VariablesOf(sums.b);
    if (sums.Moves(of_a) == sums.Moves(of_b)) return std::nullopt;
    Found found;
    static_cast<Sums&>(found) = sums;
    found.moves = sums.Moves(of_a) ? sums.a : sums.b;
    found.stays = sums.Moves(of_a) ? sums.b : sums.a;
    const int kept = static_cast<int>(found.kept.size()),
              over = static_cast<int>(found.over.size());
    found.of_weights = VariablesOf(found.moves);
    CollectVariables(found.factor, found.of_weights);
    for (int v = kept; v < kept + over; ++v) {
      if (found.of_weights.erase(v) == 0) return std::nullopt;
    }
    // All of K, whether the factor has it or not.
    for (size_t i = 0; i < found.k.size(); ++i)
      found.of_weights.insert(kept + over + static_cast<int>(i));
    found.over_of_moves = found.over;
    for (size_t i = 0; i < found.over.size(); ++i) StandStill(found, i);
    const double k = static_cast<double>(Span(found.k)), now = found.product * k,
                 weights = static_cast<double>(Span(found.over_of_moves)) *
                           found.Elements(found.of_weights),
                 then = weights + static_cast<double>(Span(found.kept)) * k;
    return 2 * then < now ? std::optional<Found>(found) : std::nullopt;
  });
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
  nodes.push_back(sum("weights", found.of_weights, found.over_of_moves, kept,
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

// A sum over both that multiplies no more often than the product did; that a factor with its
// weights is larger than it was is less than the product, which is not written.
std::optional<Sums> FindOne(const Graph& graph, int id) {
  return FirstOf<Sums>(graph, id, [](const Sums& sums) -> std::optional<Sums> {
    if (sums.rest != nullptr) return std::nullopt;
    const double all = static_cast<double>(Span(sums.kept)) * static_cast<double>(Span(sums.over));
    if (all > sums.product) return std::nullopt;
    const std::set<int> of_a = VariablesOf(sums.a), of_b = VariablesOf(sums.b);
    if (!sums.Moves(of_a) && !sums.Moves(of_b)) return std::nullopt;
    // Rows that one factor has and columns that the other has stay.
    const auto keeps = [&](const std::set<int>& of, const std::set<int>& other) {
      return std::any_of(of.begin(), of.end(), [&](int v) {
        return v < static_cast<int>(sums.kept.size()) && other.count(v) == 0;
      });
    };
    if (!keeps(of_a, of_b) || !keeps(of_b, of_a)) return std::nullopt;
    // Elements that a factor with its weights has more than it had.
    const auto more = [&](std::set<int> variables) {
      const double alone = sums.Elements(variables);
      CollectVariables(sums.factor, variables);
      return sums.Elements(variables) - alone;
    };
    Sums one = sums;
    if (more(of_b) < more(of_a)) std::swap(one.a, one.b);
    return std::min(more(of_a), more(of_b)) < sums.product ? std::optional<Sums>(one)
                                                           : std::nullopt;
  });
}

bool AppliesOne(const Graph& graph, int node) { return FindOne(graph, node).has_value(); }

Graph ApplyOne(const Graph& before, int id) {
  const Sums found = *FindOne(before, id);
  Graph graph = before;
  Node& now = graph.nodes[id];
  now.reduce_axes = found.over;
  now.reduce_axes.insert(now.reduce_axes.end(), found.k.begin(), found.k.end());
  now.reduce_axes = Named(now.reduce_axes, "r");
  const bool one = found.factor->op == Op::kConst && found.factor->number == 1;
  now.value = graph::Binary(
      Op::kMul, one ? found.a : graph::Binary(Op::kMul, found.factor, found.a), found.b);
  return graph;
}

}  // namespace

const Rule& SumOfProducts() {
  static const Rule rule = {"sum_of_products",
                            "a sum of products, each weighed, that nobody else needs",
                            Rule::Use::kFirst, AppliesOne, ApplyOne};
  return rule;
}

const Rule& SumBeforeProduct() {
  static const Rule rule = {"sum_before_product",
                            "a sum over the rows of one factor of a product that nobody else needs",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
