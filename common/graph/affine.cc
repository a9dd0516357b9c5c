#include "common/graph/affine.h"

#include <algorithm>
#include <limits>

#include "common/graph/numeric.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

using Wide = __int128;
constexpr int64_t kLimit = int64_t{1} << 62;

bool Fits(Wide value) { return value < kLimit && value > -kLimit; }

std::optional<Affine> Combine(const Affine& a, const Affine& b, int64_t factor_a,
                              int64_t factor_b) {
  Affine sum;
  Wide constant = Wide{a.constant} * factor_a + Wide{b.constant} * factor_b;
  if (!Fits(constant)) return std::nullopt;
  sum.constant = static_cast<int64_t>(constant);
  for (size_t v = 0; v < a.coefficients.size(); ++v) {
    Wide c = Wide{a.coefficients[v]} * factor_a + Wide{b.coefficients[v]} * factor_b;
    if (!Fits(c)) return std::nullopt;
    sum.coefficients.push_back(static_cast<int64_t>(c));
  }
  return sum;
}

bool IsConstant(const Affine& a) {
  return std::all_of(a.coefficients.begin(), a.coefficients.end(),
                     [](int64_t c) { return c == 0; });
}

std::optional<Interval> Hull(std::initializer_list<Wide> values) {
  const Wide low = std::min(values), high = std::max(values);
  if (!Fits(low) || !Fits(high)) return std::nullopt;
  return Interval{static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

std::optional<Interval> BoundsOfAffine(const Affine& a, const std::vector<Interval>& ranges) {
  Wide low = a.constant, high = a.constant;
  for (size_t v = 0; v < a.coefficients.size(); ++v) {
    const Wide x = Wide{a.coefficients[v]} * ranges[v].low;
    const Wide y = Wide{a.coefficients[v]} * ranges[v].high;
    low += std::min(x, y);
    high += std::max(x, y);
    if (!Fits(low) || !Fits(high)) return std::nullopt;
  }
  return Interval{static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

std::optional<Interval> BoundsOfBinary(Op op, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::kAdd:
      return Hull({Wide{a.low} + b.low, Wide{a.high} + b.high});
    case Op::kSub:
      return Hull({Wide{a.low} - b.high, Wide{a.high} - b.low});
    case Op::kMul:
      return Hull(
          {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high});
    case Op::kMin:
      return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::kMax:
      return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::kDiv:
      if (b.low != b.high || b.low <= 0) return std::nullopt;
      return Interval{FloorDiv(a.low, b.low), FloorDiv(a.high, b.low)};
    case Op::kMod:
      if (b.low != b.high || b.low <= 0) return std::nullopt;
      if (FloorDiv(a.low, b.low) == FloorDiv(a.high, b.low)) {
        return Interval{FloorMod(a.low, b.low), FloorMod(a.high, b.low)};
      }
      return Interval{0, b.low - 1};
    default:
      return std::nullopt;
  }
}

// Narrows for a <= b + slack with both affine and one variable in all.
void NarrowLess(const Affine& a, const Affine& b, int64_t slack, std::vector<Interval>& ranges) {
  // c * v <= k
  const auto difference = Combine(a, b, 1, -1);
  if (!difference) return;
  int variable = -1;
  for (size_t v = 0; v < difference->coefficients.size(); ++v) {
    if (difference->coefficients[v] == 0) continue;
    if (variable >= 0) return;
    variable = static_cast<int>(v);
  }
  if (variable < 0) return;
  const int64_t c = difference->coefficients[variable];
  const int64_t k = slack - difference->constant;
  Interval& range = ranges[variable];
  if (c > 0) {
    range.high = std::min(range.high, FloorDiv(k, c));
  } else {
    range.low = std::max(range.low, -FloorDiv(k, -c));  // v >= k / c, rounded up
  }
}

void NarrowCompare(Op op, const ExprPtr& left, const ExprPtr& right, bool value,
                   std::vector<Interval>& ranges) {
  const int variables = static_cast<int>(ranges.size());
  const auto a = AsAffine(left, variables), b = AsAffine(right, variables);
  if (!a || !b) return;
  // Where a side could wrap, the comparison is of other numbers than those of its affine form.
  if (!BoundsOfAffine(*a, ranges) || !BoundsOfAffine(*b, ranges)) return;
  switch (op) {
    case Op::kLt:
      return value ? NarrowLess(*a, *b, -1, ranges) : NarrowLess(*b, *a, 0, ranges);
    case Op::kLe:
      return value ? NarrowLess(*a, *b, 0, ranges) : NarrowLess(*b, *a, -1, ranges);
    case Op::kEq:
    case Op::kNe:
      if (value != (op == Op::kEq)) return;
      NarrowLess(*a, *b, 0, ranges);
      NarrowLess(*b, *a, 0, ranges);
      return;
    default:
      return;
  }
}

}  // namespace

std::vector<Interval> RangesOf(const Node& node) {
  std::vector<Interval> ranges;
  for (const Axis& axis : node.axes) ranges.push_back({0, axis.extent - 1});
  for (const Axis& axis : node.reduce_axes) ranges.push_back({0, axis.extent - 1});
  return ranges;
}

std::optional<Affine> AsAffine(const ExprPtr& e, int variables) {
  if (e->type != DType::kI64) return std::nullopt;
  Affine result;
  result.coefficients.assign(variables, 0);
  switch (e->op) {
    case Op::kConst:
      if (!Fits(e->integer)) return std::nullopt;
      result.constant = e->integer;
      return result;
    case Op::kIndex:
      result.coefficients[e->var] = 1;
      return result;
    case Op::kNeg: {
      const auto a = AsAffine(e->args[0], variables);
      return a ? Combine(*a, result, -1, 0) : std::nullopt;
    }
    case Op::kAdd:
    case Op::kSub: {
      const auto a = AsAffine(e->args[0], variables), b = AsAffine(e->args[1], variables);
      return a && b ? Combine(*a, *b, 1, e->op == Op::kAdd ? 1 : -1) : std::nullopt;
    }
    case Op::kMul: {
      const auto a = AsAffine(e->args[0], variables), b = AsAffine(e->args[1], variables);
      if (!a || !b) return std::nullopt;
      if (IsConstant(*b)) return Combine(*a, *b, b->constant, 0);
      return IsConstant(*a) ? Combine(*a, *b, 0, a->constant) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Interval> BoundsOf(const ExprPtr& e, const std::vector<Interval>& ranges) {
  if (const auto affine = AsAffine(e, static_cast<int>(ranges.size()))) {
    return BoundsOfAffine(*affine, ranges);
  }
  if (IsFloat(e->type)) return std::nullopt;
  switch (e->op) {
    case Op::kConst:
      return Hull({e->integer});
    case Op::kCast: {
      if (e->type != DType::kI64) return std::nullopt;  // it might wrap
      return BoundsOf(e->args[0], ranges);
    }
    case Op::kSelect: {
      auto taken = ranges, other = ranges;
      Narrow(e->args[0], true, taken);
      Narrow(e->args[0], false, other);
      const auto a = BoundsOf(e->args[1], taken), b = BoundsOf(e->args[2], other);
      if (!a || !b) return std::nullopt;
      return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
    }
    case Op::kAbs:
    case Op::kNeg: {
      if (e->type != DType::kI64) return std::nullopt;  // the least i32 wraps
      const auto a = BoundsOf(e->args[0], ranges);
      if (!a) return std::nullopt;
      if (e->op == Op::kNeg) return Interval{-a->high, -a->low};
      const int64_t far = std::max(-a->low, a->high);
      return Interval{a->low > 0 ? a->low : a->high < 0 ? -a->high : 0, far};
    }
    default:
      break;
  }
  if (e->type != DType::kI64 || e->args.size() != 2 || e->op == Op::kLoad) return std::nullopt;
  const auto a = BoundsOf(e->args[0], ranges), b = BoundsOf(e->args[1], ranges);
  return a && b ? BoundsOfBinary(e->op, *a, *b) : std::nullopt;
}

std::optional<int64_t> EvaluateAt(const Expr& e, const std::vector<int64_t>& point) {
  if (IsFloat(e.type)) return std::nullopt;
  switch (e.op) {
    case Op::kConst:
      return e.integer;
    case Op::kIndex:
      return point[e.var];
    case Op::kLoad:
      return std::nullopt;
    case Op::kSelect: {
      const auto condition = EvaluateAt(*e.args[0], point);
      if (!condition) return std::nullopt;
      return EvaluateAt(*e.args[*condition != 0 ? 1 : 2], point);
    }
    case Op::kAnd:
    case Op::kOr: {
      const auto a = EvaluateAt(*e.args[0], point);
      if (!a || (*a != 0) == (e.op == Op::kOr)) return a;
      return EvaluateAt(*e.args[1], point);
    }
    default:
      break;
  }
  const auto a = EvaluateAt(*e.args[0], point);
  if (!a) return std::nullopt;
  if (e.op == Op::kCast) return WrapTo(e.type, *a);
  if (e.op == Op::kNot) return *a == 0;
  if (e.args.size() == 1) return ApplyInteger(e.op, e.type, *a);
  const auto b = EvaluateAt(*e.args[1], point);
  if (!b) return std::nullopt;
  if (FindOp(e.op)->gives_bool) return CompareInteger(e.op, *a, *b);
  if ((e.op == Op::kDiv || e.op == Op::kMod) && *b == 0) return std::nullopt;
  return ApplyInteger(e.op, e.type, *a, *b);
}

void Narrow(const ExprPtr& condition, bool value, std::vector<Interval>& ranges) {
  switch (condition->op) {
    case Op::kNot:
      return Narrow(condition->args[0], !value, ranges);
    case Op::kAnd:
    case Op::kOr:
      if (value != (condition->op == Op::kAnd)) return;  // a disjunction narrows nothing
      Narrow(condition->args[0], value, ranges);
      Narrow(condition->args[1], value, ranges);
      return;
    default:
      break;
  }
  if (condition->args.size() == 2 && condition->args[0]->type == DType::kI64) {
    NarrowCompare(condition->op, condition->args[0], condition->args[1], value, ranges);
  }
}

}  // namespace warpsmith::graph
