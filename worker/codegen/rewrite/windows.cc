// window_of_windows: a sum over windows of sums over windows is a sum over windows of both (the
// average pool of a convolution).
//
//   s[n] = sum[k < K](a[k] * x[n + k])            w[q] = sum[k](0 <= q - k < R ? a[k] : 0)
//   t[n] = sum[r < R](c * s[4 * n + r] + d) ->    y[n] = sum[q < K + R - 1](w[q] * x[4 * n + q])
//                                                 t[n] = c * y[n] + R * d
//
// A tap that is read backwards, x[n - k], is q = r - k + K - 1. What stands between the two is
// linear in the product; it rounds to no narrower type.
#include "worker/codegen/rewrite/windows.h"

#include <algorithm>
#include <utility>

#include "worker/codegen/rewrite/linear.h"
#include "worker/codegen/rewrite/rule.h"

namespace warpsmith::codegen {

namespace {

using graph::DType;
using graph::ExprPtr;
using graph::Graph;
using graph::Op;

struct Windows {
  LinearSum sum;
  ExprPtr stays, moves;      // moves: at places of both
  std::set<int> taps, k;     // taps: of K, that places of both took the place of; k: with those
  std::set<int> of_weights;  // variables of the sum of `stays`
  ExprPtr weights;           // what is summed for it, over `taps`
  double cost;
};

// Makes one variable of `v`, which is summed over, and of a tap: true where one is found.
bool Join(Windows& windows, int v) {
  LinearSum& sum = windows.sum;
  const int64_t extent = sum.axes[v].extent;
  for (int tap : std::set<int>(windows.k)) {
    if (sum.kept + sum.over + sum.k <= tap) continue;  // of both already
    const int64_t taps = sum.axes[tap].extent;
    for (const bool backwards : {false, true}) {
      LinearSum with = sum;
      const int q = with.Add(extent + taps - 1);
      const ExprPtr r =
          backwards
              ? graph::Binary(Op::kSub, graph::Binary(Op::kAdd, graph::Index(q), graph::Index(tap)),
                              graph::ConstInt(DType::kI64, taps - 1))
              : graph::Binary(Op::kSub, graph::Index(q), graph::Index(tap));
      std::vector<ExprPtr> to(with.axes.size());
      to[v] = r;
      const ExprPtr moves = Told(graph::Substitute(windows.moves, to), with.Ranges());
      if (VariablesOf(moves).count(tap) > 0) continue;
      const ExprPtr there =
          graph::Binary(Op::kAnd, graph::Binary(Op::kLe, graph::ConstInt(DType::kI64, 0), r),
                        graph::Binary(Op::kLt, r, graph::ConstInt(DType::kI64, extent)));
      sum = std::move(with);
      windows.moves = moves;
      windows.weights =
          graph::Select(there, windows.weights, graph::Const(windows.weights->type, 0));
      windows.k.erase(tap);
      windows.k.insert(q);
      windows.of_weights.erase(tap);
      windows.of_weights.insert(q);
      windows.taps.insert(tap);
      return true;
    }
  }
  return false;
}

std::optional<Windows> WindowsOf(const LinearSum& sum) {
  const auto is_over = [&](int v) { return sum.IsOver(v); };
  const auto moves = [&](const ExprPtr& e) {
    const std::set<int> of = VariablesOf(e);
    return std::any_of(of.begin(), of.end(), is_over);
  };
  if (moves(sum.factor) || moves(sum.a) == moves(sum.b)) return std::nullopt;
  Windows windows{sum, sum.a, sum.b, {}, sum.K(), {}, nullptr, 0};
  if (moves(sum.a)) std::swap(windows.stays, windows.moves);
  windows.weights = windows.stays;
  windows.of_weights = VariablesOf(windows.stays);
  for (int v : sum.Over()) {
    if (VariablesOf(windows.moves).count(v) == 0 || !Join(windows, v)) return std::nullopt;
  }
  const LinearSum& both = windows.sum;
  if (!LinearSum::HasRank(windows.of_weights.size() + windows.taps.size()) ||
      !LinearSum::HasRank(both.kept + windows.k.size()))
    return std::nullopt;
  const double elements = both.Span(windows.of_weights), terms = elements * both.Span(windows.taps),
               products = both.Span(both.Kept()) * both.Span(windows.k);
  if (kGain * (terms + products) >= sum.product * sum.Span(sum.K())) return std::nullopt;
  windows.cost = WaysCost(elements, terms, products);
  return windows;
}

std::optional<Windows> Find(const Graph& graph, int id) {
  for (const LinearSum& sum : LinearSumsOf(graph, id)) {
    if (auto windows = WindowsOf(sum)) return windows;
  }
  return std::nullopt;
}

bool Applies(const Graph& graph, int id) { return Find(graph, id).has_value(); }

Graph Apply(const Graph& before, int id) {
  const Windows windows = *Find(before, id);
  Replacement replacement(before, id, windows.sum);
  const ExprPtr weights =
      replacement.Sum("weights", windows.of_weights, windows.taps, windows.weights);
  return replacement.Done(windows.sum.Weighed(replacement.Sum(
      "product", windows.sum.Kept(), windows.k, graph::Binary(Op::kMul, windows.moves, weights))));
}

}  // namespace

std::optional<double> CostOfWindows(const Graph& graph, int id) {
  const auto windows = Find(graph, id);
  return windows ? std::optional<double>(windows->cost) : std::nullopt;
}

const Rule& WindowOfWindows() {
  static const Rule rule = {"window_of_windows",
                            "a sum over windows of a product's windows that nobody else needs",
                            Rule::Use::kFirst, Applies, Apply};
  return rule;
}

}  // namespace warpsmith::codegen
