#include "worker/codegen/ir/halves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Op;

constexpr unsigned kInBoth = kInF16 | kInBf16, kInAll = kInBoth | kInE4m3;
unsigned SetOf(DType type) {
  return type == DType::kF16 ? kInF16 : type == DType::kBF16 ? kInBf16 : 0;
}
// Integers up to these are numbers of the type, all of them.
constexpr double kIntegersOfE4m3 = 16, kIntegersOfBf16 = 256, kIntegersOfF16 = 2048;

struct Interval {
  double low, high;
};

// Says of values which types of 16 bits hold them without loss.
class Exactness {
 public:
  Exactness(const graph::Graph& graph, const Values& values) : graph_(graph), values_(values) {}

  unsigned Of(ValuePtr value) const {
    unsigned set = SetOf(value->type);
    if (const auto range = Integers(value)) {
      const double most = std::max(std::fabs(range->low), std::fabs(range->high));
      if (most <= kIntegersOfF16) set |= kInF16;
      if (most <= kIntegersOfBf16) set |= kInBf16;
      if (most <= kIntegersOfE4m3) set |= kInE4m3;
    }
    if (value->kind == Value::Kind::kLoad) return set | OfTensor(value->tensor);
    if (value->kind != Value::Kind::kOp) return set;
    const auto of = [&](size_t i) { return Of(value->args[i]); };
    switch (value->op) {
      case Op::kE4m3:
      case Op::kE4m3OfBits:
        return kInAll;
      case Op::kCast:
        return graph::IsFloat(value->args[0]->type) ? set | Cast(value->type, of(0)) : set;
      case Op::kNeg:
      case Op::kAbs:
        return set | of(0);
      case Op::kMin:
      case Op::kMax:
        return set | (of(0) & of(1));
      case Op::kSelect:
        return set | (of(1) & of(2));
      default:
        return set;
    }
  }

 private:
  // Of what has types of `set` once it is cast to a float: of f16's numbers bf16 makes one that f16
  // has not, beyond its largest.
  static unsigned Cast(DType to, unsigned set) {
    return to == DType::kBF16 && set == kInF16 ? 0 : set;
  }

  // What is known of a tensor in memory by the map that wrote it.
  unsigned OfTensor(int tensor) const {
    const int node = graph_.tensors[tensor].node;
    if (node < 0 || !graph_.nodes[node].map()) return 0;
    return OfExpression(graph_.nodes[node].value);
  }
  unsigned OfExpression(const graph::ExprPtr& e) const {
    if (!graph::IsFloat(e->type)) return 0;
    if (e->op == Op::kLoad) return SetOf(e->type) | OfTensor(e->tensor);
    if (e->op == Op::kCast) return SetOf(e->type) | Cast(e->type, OfExpression(e->args[0]));
    return e->op == Op::kE4m3 || e->op == Op::kE4m3OfBits ? kInAll : 0;
  }

  // The interval of a value that is an integer, or no number; nullopt: it may be anything.
  std::optional<Interval> Integers(ValuePtr value) const {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (!graph::IsFloat(value->type)) {
      const Range range = values_.RangeOf(value);
      return Interval{static_cast<double>(range.low), static_cast<double>(range.high)};
    }
    if (value->kind == Value::Kind::kConst) {
      if (value->number != std::floor(value->number)) return std::nullopt;
      return Interval{value->number, value->number};
    }
    if (value->kind != Value::Kind::kOp) return std::nullopt;
    const auto of = [&](size_t i) { return Integers(value->args[i]); };
    const auto a = value->args.empty() ? std::nullopt : of(0);
    switch (value->op) {
      case Op::kRound:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
        return a ? a : Interval{-kInfinite, kInfinite};
      case Op::kCast:
        return a;
      case Op::kNeg:
        if (!a) return std::nullopt;
        return Interval{-a->high, -a->low};
      case Op::kAdd:
      case Op::kSub:
      case Op::kMin:
      case Op::kMax: {
        const auto b = of(1);
        if (!a || !b) return std::nullopt;
        if (value->op == Op::kAdd) return Interval{a->low + b->low, a->high + b->high};
        if (value->op == Op::kSub) return Interval{a->low - b->high, a->high - b->low};
        if (value->op == Op::kMin)
          return Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
        return Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
      }
      case Op::kSelect: {
        const auto then = of(1), otherwise = of(2);
        if (!then || !otherwise) return std::nullopt;
        return Interval{std::min(then->low, otherwise->low), std::max(then->high, otherwise->high)};
      }
      default:
        return std::nullopt;
    }
  }

  const graph::Graph& graph_;
  const Values& values_;
};

}  // namespace

unsigned HalvesOf(ValuePtr value, const Values& values, const graph::Graph& graph) {
  return Exactness(graph, values).Of(value);
}

bool IsHalfExactly(DType type, ValuePtr value, const Values& values, const graph::Graph& graph) {
  return (HalvesOf(value, values, graph) & SetOf(type)) != 0;
}

}  // namespace warpsmith::codegen
