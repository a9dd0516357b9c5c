#include "worker/codegen/rewrite/linear.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

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

// Whether a node needs the tensor, or what is left of node `without`.
bool StillNeeded(const Graph& graph, int tensor, int without, const Linear& linear) {
  std::set<int> seen;
  std::vector<int> left = graph.outputs;
  for (const auto& update : graph.updates) left.push_back(update.value);
  while (!left.empty()) {
    const int t = left.back();
    left.pop_back();
    if (t == tensor) return true;
    const int node = graph.tensors[t].node;
    if (!seen.insert(t).second || node < 0) continue;
    const auto needs = [&](const ExprPtr& e) {
      if (e == nullptr) return;
      for (int read : graph::LoadedTensors(e)) left.push_back(read);
    };
    if (node != without) {
      needs(graph.nodes[node].value);
    } else {
      needs(linear.factor);
      needs(linear.rest);
    }
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

ExprPtr FromAffine(const graph::Affine& affine) {
  ExprPtr sum;
  for (size_t v = 0; v < affine.coefficients.size(); ++v) {
    const int64_t c = affine.coefficients[v];
    if (c == 0) continue;
    ExprPtr term = graph::Index(static_cast<int>(v));
    if (c != 1 && c != -1)
      term = graph::Binary(Op::kMul, term, graph::ConstInt(DType::kI64, c < 0 ? -c : c));
    sum = Plus(c < 0 ? Op::kSub : Op::kAdd, sum, term);
  }
  if (sum == nullptr) return graph::ConstInt(DType::kI64, affine.constant);
  if (affine.constant == 0) return sum;
  return graph::Binary(affine.constant < 0 ? Op::kSub : Op::kAdd, sum,
                       graph::ConstInt(DType::kI64, std::abs(affine.constant)));
}

// A quotient or a remainder by a constant c of c * high + low, where low is less than c.
std::optional<graph::Affine> Digit(const ExprPtr& e, const std::vector<graph::Interval>& ranges) {
  const int variables = static_cast<int>(ranges.size());
  const auto by = AsAffine(e->args[1], variables);
  const auto of = AsAffine(e->args[0], variables);
  if (!by || !of || e->args[1]->op != Op::kConst || by->constant < 1) return std::nullopt;
  const int64_t c = by->constant;
  graph::Affine high = *of, low = *of;
  const auto split = [c](int64_t& h, int64_t& l) {
    const int64_t whole = h >= 0 ? h / c : -((-h + c - 1) / c);
    l = h - whole * c;
    h = whole;
  };
  split(high.constant, low.constant);
  for (int v = 0; v < variables; ++v) {
    if (of->coefficients[v] % c == 0) {
      high.coefficients[v] = of->coefficients[v] / c;
      low.coefficients[v] = 0;
    } else {
      high.coefficients[v] = 0;
    }
  }
  const auto bounds = graph::BoundsOf(FromAffine(low), ranges);
  if (!bounds || bounds->low < 0 || bounds->high >= c) return std::nullopt;
  return e->op == Op::kDiv ? high : low;
}

// Whether the variable stands only in quotients and remainders by one constant, `seen` (0: of none
// so far).
bool ReadByDigits(const ExprPtr& e, int variable, int64_t& seen) {
  if (e->op == Op::kIndex) return e->var != variable;
  const bool digits = (e->op == Op::kDiv || e->op == Op::kMod) && e->type == DType::kI64 &&
                      e->args[1]->op == Op::kConst && VariablesOf(e->args[0]).count(variable) > 0;
  if (digits) {
    const int64_t c = e->args[1]->integer;
    if (seen != 0 && seen != c) return false;
    seen = c;
    return true;
  }
  return std::all_of(e->args.begin(), e->args.end(),
                     [&](const ExprPtr& arg) { return ReadByDigits(arg, variable, seen); });
}

bool HasDigits(const ExprPtr& e, int variable) {
  if ((e->op == Op::kDiv || e->op == Op::kMod) && e->type == DType::kI64)
    return VariablesOf(e).count(variable) > 0;
  return std::any_of(e->args.begin(), e->args.end(),
                     [variable](const ExprPtr& arg) { return HasDigits(arg, variable); });
}

// Makes two variables of what is summed over and read by its digits alone.
void SplitDigits(LinearSum& sum) {
  for (int v = sum.kept; v < sum.kept + sum.over; ++v) {
    int64_t c = 0;
    const auto reads = [&](const ExprPtr& e) { return e == nullptr || ReadByDigits(e, v, c); };
    if (!reads(sum.a) || !reads(sum.b) || !reads(sum.factor) || !reads(sum.rest)) continue;
    const int64_t extent = sum.axes[v].extent;
    if (c < 2 || c >= extent || extent % c != 0) continue;
    LinearSum split = sum;
    split.axes[v].extent = extent / c;
    split.axes.insert(split.axes.begin() + v + 1, graph::Axis{"", c});
    ++split.over;
    std::vector<ExprPtr> to;
    for (int u = 0; u < static_cast<int>(sum.axes.size()); ++u)
      to.push_back(graph::Index(u > v ? u + 1 : u));
    to[v] = graph::Binary(Op::kAdd,
                          graph::Binary(Op::kMul, graph::Index(v), graph::ConstInt(DType::kI64, c)),
                          graph::Index(v + 1));
    bool told = true;
    for (ExprPtr* e : {&split.a, &split.b, &split.factor, &split.rest}) {
      if (*e == nullptr) continue;
      *e = Told(graph::Substitute(*e, to), split.Ranges());
      told = told && !HasDigits(*e, v) && !HasDigits(*e, v + 1);
    }
    if (!told) continue;
    sum = std::move(split);
    ++v;
  }
}

// Node `id` as a sum of what is linear in `product`, whose value nobody else needs; `value`: of the
// node, inlined.
std::optional<LinearSum> Read(const Graph& graph, int id, const ExprPtr& value, int product) {
  const Node& node = graph.nodes[id];
  Reader reader(product, value->type);
  const auto linear = reader.Read(value);
  if (!linear || reader.load() == nullptr || linear->factor == nullptr) return std::nullopt;
  const Node& multiplies = graph.nodes[graph.tensors[product].node];
  const ExprPtr term = Inlined(graph, multiplies.value);
  if (term == nullptr || term->op != Op::kMul || StillNeeded(graph, product, id, *linear))
    return std::nullopt;
  LinearSum sum;
  for (const auto* axes : {&node.axes, &node.reduce_axes, &multiplies.reduce_axes})
    sum.axes.insert(sum.axes.end(), axes->begin(), axes->end());
  sum.kept = static_cast<int>(node.axes.size());
  sum.over = static_cast<int>(node.reduce_axes.size());
  sum.k = static_cast<int>(multiplies.reduce_axes.size());
  std::vector<ExprPtr> variables = reader.load()->args;
  for (int v : sum.K()) variables.push_back(graph::Index(v));
  const auto told = [&](const ExprPtr& e) {
    return Told(graph::Substitute(e, variables), sum.Ranges());
  };
  sum.a = told(term->args[0]);
  sum.b = told(term->args[1]);
  sum.factor = linear->factor;
  sum.rest = linear->rest;
  sum.product = static_cast<double>(Span(multiplies.axes));
  SplitDigits(sum);
  return sum;
}

std::set<int> Numbers(int first, int count) {
  std::set<int> numbers;
  for (int i = 0; i < count; ++i) numbers.insert(first + i);
  return numbers;
}

}  // namespace

std::set<int> LinearSum::Kept() const { return Numbers(0, kept); }
std::set<int> LinearSum::Over() const { return Numbers(kept, over); }
std::set<int> LinearSum::K() const { return Numbers(kept + over, k); }

double LinearSum::Span(const std::set<int>& variables) const {
  double points = 1;
  for (int v : variables) points *= static_cast<double>(axes[v].extent);
  return points;
}

std::vector<graph::Interval> LinearSum::Ranges() const {
  std::vector<graph::Interval> ranges;
  for (const graph::Axis& axis : axes) ranges.push_back({0, axis.extent - 1});
  return ranges;
}

int LinearSum::Add(int64_t extent) {
  axes.push_back({"", extent});
  return static_cast<int>(axes.size()) - 1;
}

ExprPtr LinearSum::Weighed(const ExprPtr& value) const {
  const bool one = factor->op == Op::kConst && factor->number == 1;
  return one ? value : graph::Binary(Op::kMul, factor, value);
}

std::vector<LinearSum> LinearSumsOf(const Graph& graph, int id) {
  const Node& node = graph.nodes[id];
  if (!node.reduce || node.combiner != graph::Combiner::kSum ||
      (node.value->type != DType::kF32 && node.value->type != DType::kF64))
    return {};
  const ExprPtr value = Inlined(graph, node.value);
  if (value == nullptr) return {};
  std::vector<int> products;
  CollectSums(graph, value, products);
  std::vector<LinearSum> sums;
  for (int product : products) {
    if (auto sum = Read(graph, id, value, product)) sums.push_back(*std::move(sum));
  }
  return sums;
}

std::set<int> VariablesOf(const ExprPtr& e) {
  std::set<int> of;
  CollectVariables(e, of);
  return of;
}

ExprPtr Replaced(const ExprPtr& e, const ExprPtr& what, const ExprPtr& by) {
  if (graph::Same(e, what)) return by;
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = Replaced(arg, what, by);
  return copy;
}

ExprPtr Told(const ExprPtr& e, const std::vector<graph::Interval>& ranges) {
  if (e->args.empty()) return e;
  auto copy = std::make_shared<graph::Expr>(*e);
  for (ExprPtr& arg : copy->args) arg = Told(arg, ranges);
  if (e->type != DType::kI64 || e->op == Op::kLoad) return copy;
  if (e->op == Op::kDiv || e->op == Op::kMod) {
    if (const auto digit = Digit(copy, ranges)) return FromAffine(*digit);
    return copy;
  }
  const auto affine = graph::AsAffine(copy, static_cast<int>(ranges.size()));
  return affine ? FromAffine(*affine) : copy;
}

double WaysCost(double elements, double terms, double products) {
  return 2 * elements + 0.5 * terms + 0.004 * products;
}

Replacement::Replacement(const Graph& before, int id, const LinearSum& sum)
    : graph_(before), id_(id), sum_(sum), name_(before.tensors[before.nodes[id].outputs[0]].name) {}

ExprPtr Replacement::Sum(const std::string& part, const std::set<int>& of,
                         const std::set<int>& over, const ExprPtr& value) {
  // Variables that it has not are 0.
  std::vector<ExprPtr> to(sum_.axes.size(), graph::ConstInt(DType::kI64, 0)), at;
  Node node;
  node.reduce = true;
  for (int v : of) {
    to[v] = graph::Index(static_cast<int>(node.axes.size()));
    node.axes.push_back({StrCat("i", node.axes.size()), sum_.axes[v].extent});
    at.push_back(graph::Index(v));
  }
  for (int v : over) {
    to[v] = graph::Index(static_cast<int>(of.size() + node.reduce_axes.size()));
    node.reduce_axes.push_back({StrCat("r", node.reduce_axes.size()), sum_.axes[v].extent});
  }
  node.value = graph::Substitute(value, to);
  graph::Tensor tensor;
  tensor.name = Fresh(graph_, StrCat(name_, ".", part));
  tensor.type = value->type;
  for (const graph::Axis& axis : node.axes) tensor.shape.push_back(axis.extent);
  node.outputs = {static_cast<int>(graph_.tensors.size())};
  graph_.tensors.push_back(tensor);
  nodes_.push_back(node);
  return graph::Load(graph_, node.outputs[0], at);
}

Graph Replacement::Done(ExprPtr value) {
  if (sum_.rest != nullptr) {
    std::set<int> of, over, same = sum_.Over();
    for (int v : VariablesOf(sum_.rest)) {
      (sum_.IsOver(v) ? over : of).insert(v);
      same.erase(v);
    }
    ExprPtr rest = over.empty() ? sum_.rest : Sum("rest", of, over, sum_.rest);
    if (sum_.Span(same) > 1)
      rest = graph::Binary(Op::kMul, rest, graph::Const(rest->type, sum_.Span(same)));
    value = graph::Binary(Op::kAdd, value, rest);
  }
  Node& now = graph_.nodes[id_];
  now.reduce = false;
  now.reduce_axes.clear();
  now.value = value;
  graph_.nodes.insert(graph_.nodes.begin() + id_, nodes_.begin(), nodes_.end());
  RenumberProducers(graph_);
  return std::move(graph_);
}

}  // namespace warpsmith::codegen
