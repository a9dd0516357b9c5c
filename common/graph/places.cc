#include "common/graph/places.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace warpsmith::graph {
namespace {

void Mark(const Expr& e, std::set<const Expr*>& seen, std::vector<bool>& used) {
  if (!seen.insert(&e).second) return;
  if (e.op == Op::kIndex) used[e.var] = true;
  for (const ExprPtr& arg : e.args) Mark(*arg, seen, used);
}

}  // namespace

int64_t Length(const Interval& range) { return std::max<int64_t>(0, range.high - range.low + 1); }

int64_t Volume(const std::vector<Interval>& box) {
  int64_t volume = 1;
  for (const Interval& range : box) volume *= Length(range);
  return volume;
}

void MarkVariables(const Expr& e, std::vector<bool>& used) {
  std::set<const Expr*> seen;
  Mark(e, seen, used);
}

int64_t Distinct(const ExprPtr& e, const std::vector<Interval>& ranges) {
  const auto bounds = BoundsOf(e, ranges);
  const auto affine = AsAffine(e, static_cast<int>(ranges.size()));
  int64_t points = 1, step = 0;
  if (affine) {
    for (size_t v = 0; v < ranges.size(); ++v) {
      if (affine->coefficients[v] == 0) continue;
      points = std::min(kMaxPoints, points * Length(ranges[v]));
      if (Length(ranges[v]) > 1) step = std::gcd(step, affine->coefficients[v]);
    }
  } else {
    std::vector<bool> used(ranges.size(), false);
    MarkVariables(*e, used);
    for (size_t v = 0; v < ranges.size(); ++v) {
      if (used[v]) points = std::min(kMaxPoints, points * Length(ranges[v]));
    }
    step = 1;
  }
  if (!bounds) return points;
  return std::min(points, step == 0 ? 1 : (bounds->high - bounds->low) / step + 1);
}

double SampledShare(const std::vector<Interval>& ranges, const std::vector<Condition>& conditions) {
  constexpr int kSamples = 4096;
  // Points that keep apart from each other: multiples of the powers of 1 / phi, where
  // phi^(d + 1) = phi + 1 (Roberts, "The unreasonable effectiveness of quasirandom sequences",
  // 2018).
  double phi = 2;
  const auto dimensions = static_cast<double>(ranges.size());
  for (int i = 0; i < 32; ++i) phi = std::pow(1 + phi, 1 / (dimensions + 1));
  int inside = 0;
  std::vector<int64_t> point(ranges.size());
  for (int s = 0; s < kSamples; ++s) {
    double step = 1;
    for (size_t v = 0; v < ranges.size(); ++v) {
      step /= phi;
      const double at = 0.5 + s * step;
      const auto length = static_cast<double>(Length(ranges[v]));
      point[v] = ranges[v].low + static_cast<int64_t>((at - std::floor(at)) * length);
    }
    inside += std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
      const auto value = EvaluateAt(*c.e, point);
      return !value || (*value != 0) == c.value;
    });
  }
  return static_cast<double>(inside) / kSamples;
}

}  // namespace warpsmith::graph
