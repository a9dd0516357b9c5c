// sum_before_product: a sum over the rows of one factor of a product needs that factor's sum alone.
//
//   s[m, n] = sum[k](a[m, k] * b[n, k])           w[k] = sum[n](c[n] * b[n, k])
//   t[m] = sum[n](c[n] * s[m, n] + d[n])    ->    t[m] = sum[k](a[m, k] * w[k]) + sum[n](d[n])
//
// Both factors are summed where what it is over is of one or the other. Where a factor is zero
// outside of a part that each k moves within n, its sum is the same for all (the mean of a
// transposed convolution, over all of its places):
//
//   b[n, k] = 0 <= n - k < N ? x[n - k] : 0 ->    w = sum[n < N](x[n])
//
// and where others of its variables are of a place alone, the sum is of places:
//
//   b[n, m, k] = x[n, m + k]                ->    w[p] = sum[n](x[n, p]), read at p = m + k
//
// sum_of_products: a sum of products of which each is weighed is one product over both.
//
//   s[e, m, n] = sum[k](a[e, m, k] * b[e, n, k])
//   t[m, n] = sum[e](c[e, m] * s[e, m, n])
//   ->  t[m, n] = sum[e, k]((c[e, m] * a[e, m, k]) * b[e, n, k])
//
// What stands between the two is linear in the product; it rounds to no narrower type.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/graph/affine.h"
#include "worker/codegen/rewrite/linear.h"
#include "worker/codegen/rewrite/rule.h"
#include "worker/codegen/rewrite/windows.h"

namespace warpsmith::codegen {

namespace {

using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Node;
using graph::Op;

// A factor of the product and what is summed of it. Its places: variables of the sum, and where
// the product reads it for them.
struct Side {
  struct Place {
    int variable;
    ExprPtr at;    // of the product's variables
    int64_t low;   // what the variable is 0 at
    bool outside;  // `at` may be outside of the sum's places, where there is nothing
  };
  ExprPtr factor, value;
  std::set<int> of, over;  // variables of the sum, and of what it is over; `over` empty: no sum
  std::vector<Place> places;
};

struct Found {
  LinearSum sum;
  Side sides[2];
  bool weighed = false;  // whether the factor is of what is summed over, and so in a side
};

bool IsZeroElsewhere(const ExprPtr& e) {
  return e->op == Op::kSelect && e->args[2]->op == Op::kConst && e->args[2]->number == 0;
}

// Where something is read by the variable; null: nowhere.
ExprPtr PlaceBy(const ExprPtr& e, int variable) {
  for (const ExprPtr& arg : e->args) {
    if (e->op == Op::kLoad && VariablesOf(arg).count(variable) > 0) return arg;
    if (ExprPtr place = PlaceBy(arg, variable)) return place;
  }
  return nullptr;
}

// A side whose place is a variable of its own.
struct Moved {
  ExprPtr factor;
  graph::Affine affine;
  graph::Interval all, there;  // of the place, and where the side may be something
};
// nullopt: the place is not affine, or the side is zero at all of them.
std::optional<Moved> MovedTo(const LinearSum& sum, const Side& side, const ExprPtr& at, int own) {
  const auto affine = graph::AsAffine(at, own);
  if (!affine) return std::nullopt;
  Moved moved{Replaced(side.factor, at, graph::Index(own)), *affine, {}, {}};
  std::vector<graph::Interval> ranges = sum.Ranges();
  const auto all = graph::BoundsOf(at, ranges);
  if (!all) return std::nullopt;
  moved.all = *all;
  ranges.push_back(*all);
  if (IsZeroElsewhere(moved.factor)) graph::Narrow(moved.factor->args[0], true, ranges);
  moved.there = ranges[own];
  if (moved.there.high < moved.there.low) return std::nullopt;
  return moved;
}

// The side's variables once `moved` stands for its factor.
std::set<int> Left(const LinearSum& sum, const Side& side, const ExprPtr& moved) {
  std::set<int> left = VariablesOf(moved);
  if (side.value != side.factor) CollectVariables(sum.factor, left);
  return left;
}

void Become(Side& side, const LinearSum& sum, const Moved& moved, int own) {
  std::vector<ExprPtr> to(own + 1);
  to[own] =
      graph::Binary(Op::kAdd, graph::Index(own), graph::ConstInt(DType::kI64, moved.there.low));
  const bool weighed = side.value != side.factor;
  side.factor = graph::Substitute(moved.factor, to);
  side.value = weighed ? sum.Weighed(side.factor) : side.factor;
}

// Where a side is read at `v`, which it is summed over, and something more of K, and all that it is
// not zero at is summed for each k: the sum is over its own places, and none of K's.
void StandStill(LinearSum& sum, Side& side, int v) {
  const ExprPtr at = PlaceBy(side.factor, v);
  if (at == nullptr) return;
  const int own = static_cast<int>(sum.axes.size());
  const auto moved = MovedTo(sum, side, at, own);
  if (!moved || moved->affine.coefficients[v] != 1 || !IsZeroElsewhere(moved->factor)) return;
  const std::set<int> left = Left(sum, side, moved->factor), k = sum.K();
  std::set<int> by;
  for (int u = 0; u < own; ++u) {
    if (moved->affine.coefficients[u] == 0 || u == v) continue;
    if (k.count(u) == 0 || left.count(u) > 0) return;
    by.insert(u);
  }
  if (by.empty() || left.count(v) > 0) return;
  // The place at v = 0 and at the last, whatever it is moved by.
  const int64_t last = sum.axes[v].extent - 1;
  const graph::Interval first = {moved->all.low, moved->all.high - last};
  if (first.high > moved->there.low || first.low + last < moved->there.high) return;
  Become(side, sum, *moved, sum.Add(moved->there.high - moved->there.low + 1));
  side.over.erase(v);
  side.over.insert(own);
  for (int u : by) side.of.erase(u);
}

// Whether affine places of these variables have no gaps: what is at others may not be read.
bool AreAllPlaces(const LinearSum& sum, const graph::Affine& at, const std::set<int>& by) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // and how often
  for (int u : by) steps.emplace_back(std::abs(at.coefficients[u]), sum.axes[u].extent - 1);
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [step, times] : steps) {
    if (step > reach + 1) return false;
    reach += step * times;
  }
  return true;
}

// Makes one variable of those that a place alone is of.
void Gather(LinearSum& sum, Side& side, int v) {
  const ExprPtr at = PlaceBy(side.factor, v);
  if (at == nullptr) return;
  const int own = static_cast<int>(sum.axes.size());
  const auto moved = MovedTo(sum, side, at, own);
  if (!moved) return;
  const std::set<int> left = Left(sum, side, moved->factor);
  std::set<int> by;
  for (int u = 0; u < own; ++u) {
    if (moved->affine.coefficients[u] == 0) continue;
    if (side.of.count(u) == 0 || left.count(u) > 0) return;
    by.insert(u);
  }
  const int64_t places = moved->there.high - moved->there.low + 1;
  if (by.size() < 2 || static_cast<double>(places) >= sum.Span(by) ||
      !AreAllPlaces(sum, moved->affine, by))
    return;
  Become(side, sum, *moved, sum.Add(places));
  for (int u : by) side.of.erase(u);
  side.of.insert(own);
  side.places.push_back({own, at, moved->there.low,
                         moved->all.low < moved->there.low || moved->there.high < moved->all.high});
}

// What is summed of which factor; nullopt where that is not told apart.
std::optional<Found> Sides(const LinearSum& sum) {
  Found found{sum, {}, false};
  const ExprPtr factors[2] = {sum.a, sum.b};
  const std::set<int> over = sum.Over(), of_factor = VariablesOf(sum.factor);
  for (int i = 0; i < 2; ++i) {
    found.sides[i].factor = found.sides[i].value = factors[i];
    found.sides[i].of = VariablesOf(factors[i]);
  }
  const auto moves = [&](const std::set<int>& of, int v) { return of.count(v) > 0; };
  double span[2] = {1, 1};
  bool may_weigh[2] = {true, true};
  for (int v : over) {
    if (moves(found.sides[0].of, v) && moves(found.sides[1].of, v)) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      if (!moves(found.sides[i].of, v)) continue;
      span[i] *= static_cast<double>(sum.axes[v].extent);
      if (moves(of_factor, v)) may_weigh[1 - i] = false;
    }
  }
  found.weighed = std::any_of(over.begin(), over.end(), [&](int v) { return moves(of_factor, v); });
  if (found.weighed) {
    const int most = span[0] > span[1] ? 0 : 1, weighs = may_weigh[most] ? most : 1 - most;
    if (!may_weigh[weighs]) return std::nullopt;
    Side& weighed = found.sides[weighs];
    weighed.value = sum.Weighed(weighed.factor);
    CollectVariables(sum.factor, weighed.of);
  }
  for (int v : over) {
    if (!moves(found.sides[0].of, v) && !moves(found.sides[1].of, v)) return std::nullopt;
  }
  for (Side& side : found.sides) {
    for (int v : over) {
      if (side.of.erase(v) > 0) side.over.insert(v);
    }
    // All of K, whether the factor has it or not.
    for (int v : sum.K()) side.of.insert(v);
  }
  return found;
}

struct Way {
  Found found;
  double cost;
};

std::optional<Way> FindWay(const LinearSum& sum) {
  auto found = Sides(sum);
  if (!found || !LinearSum::HasRank(sum.kept + sum.k)) return std::nullopt;
  double terms = 0, elements = 0;
  for (Side& side : found->sides) {
    if (side.over.empty()) continue;
    for (int v : sum.Over()) {
      if (side.over.count(v) > 0) StandStill(found->sum, side, v);
    }
    for (int v : std::set<int>(side.of)) Gather(found->sum, side, v);
    if (!LinearSum::HasRank(side.of.size() + side.over.size())) return std::nullopt;
    elements += found->sum.Span(side.of);
    terms += found->sum.Span(side.of) * found->sum.Span(side.over);
  }
  const double products = sum.Span(sum.Kept()) * sum.Span(sum.K());
  if (kGain * (terms + products) >= sum.product * sum.Span(sum.K())) return std::nullopt;
  return Way{*std::move(found), WaysCost(elements, terms, products)};
}

std::optional<Found> Find(const Graph& graph, int id) {
  const auto windows = CostOfWindows(graph, id);
  for (const LinearSum& sum : LinearSumsOf(graph, id)) {
    auto way = FindWay(sum);
    if (way && (!windows || way->cost <= *windows)) return std::move(way->found);
  }
  return std::nullopt;
}

bool Applies(const Graph& graph, int node) { return Find(graph, node).has_value(); }

Graph Apply(const Graph& before, int id) {
  const Found found = *Find(before, id);
  Replacement replacement(before, id, found.sum);
  ExprPtr values[2];
  for (int i = 0; i < 2; ++i) {
    const Side& side = found.sides[i];
    values[i] = side.value;
    if (side.over.empty()) continue;
    values[i] = replacement.Sum("weights", side.of, side.over, side.value);
    std::vector<ExprPtr> to(found.sum.axes.size());
    ExprPtr inside;
    for (const Side::Place& place : side.places) {
      const auto low = graph::ConstInt(DType::kI64, place.low);
      to[place.variable] = graph::Binary(Op::kSub, place.at, low);
      if (!place.outside) continue;
      const auto end =
          graph::ConstInt(DType::kI64, place.low + found.sum.axes[place.variable].extent);
      for (const ExprPtr& condition :
           {graph::Binary(Op::kLe, low, place.at), graph::Binary(Op::kLt, place.at, end)})
        inside = inside == nullptr ? condition : graph::Binary(Op::kAnd, inside, condition);
    }
    values[i] = graph::Substitute(values[i], to);
    if (inside != nullptr)
      values[i] = graph::Select(inside, values[i], graph::Const(values[i]->type, 0));
  }
  const ExprPtr product = replacement.Sum("product", found.sum.Kept(), found.sum.K(),
                                          graph::Binary(Op::kMul, values[0], values[1]));
  return replacement.Done(found.weighed ? product : found.sum.Weighed(product));
}

// A sum over both that multiplies no more often than the product did; that a factor with its
// weights is larger than it was is less than the product, which is not written. It weighs `a`.
std::optional<LinearSum> OneOf(const LinearSum& sum) {
  if (sum.rest != nullptr || !LinearSum::HasRank(sum.axes.size()) ||
      sum.Span(sum.Kept()) * sum.Span(sum.Over()) > sum.product)
    return std::nullopt;
  const std::set<int> of_a = VariablesOf(sum.a), of_b = VariablesOf(sum.b);
  const auto is_over = [&](int v) { return sum.IsOver(v); };
  if (std::none_of(of_a.begin(), of_a.end(), is_over) &&
      std::none_of(of_b.begin(), of_b.end(), is_over))
    return std::nullopt;
  // Rows that one factor has and columns that the other has stay.
  const auto keeps = [&](const std::set<int>& of, const std::set<int>& other) {
    return std::any_of(of.begin(), of.end(),
                       [&](int v) { return v < sum.kept && other.count(v) == 0; });
  };
  if (!keeps(of_a, of_b) || !keeps(of_b, of_a)) return std::nullopt;
  // Elements that a factor with its weights has more than it had.
  const auto more = [&](std::set<int> variables) {
    const double alone = sum.Span(variables);
    CollectVariables(sum.factor, variables);
    return sum.Span(variables) - alone;
  };
  if (std::min(more(of_a), more(of_b)) >= sum.product) return std::nullopt;
  LinearSum one = sum;
  if (more(of_b) < more(of_a)) std::swap(one.a, one.b);
  return one;
}

std::optional<LinearSum> FindOne(const Graph& graph, int id) {
  if (Find(graph, id) || CostOfWindows(graph, id)) return std::nullopt;  // less is multiplied so
  for (const LinearSum& sum : LinearSumsOf(graph, id)) {
    if (auto one = OneOf(sum)) return one;
  }
  return std::nullopt;
}

bool AppliesOne(const Graph& graph, int node) { return FindOne(graph, node).has_value(); }

Graph ApplyOne(const Graph& before, int id) {
  const LinearSum found = *FindOne(before, id);
  Graph graph = before;
  Node& now = graph.nodes[id];
  now.reduce_axes.assign(found.axes.begin() + found.kept, found.axes.end());
  for (size_t i = 0; i < now.axes.size(); ++i) now.axes[i].name = absl::StrCat("i", i);
  for (size_t i = 0; i < now.reduce_axes.size(); ++i)
    now.reduce_axes[i].name = absl::StrCat("r", i);
  now.value = graph::Binary(Op::kMul, found.Weighed(found.a), found.b);
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
