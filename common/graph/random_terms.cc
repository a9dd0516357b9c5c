#include "common/graph/random_terms.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::graph {
namespace {

constexpr double kLargest = 32;  // of floats
constexpr double kLargestInteger = 1000;

ExprPtr Number(const Term& x, double value) { return Const(x.e->type, value); }
ExprPtr Add(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kAdd, a, b); }
ExprPtr Sub(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kSub, a, b); }
ExprPtr Mul(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kMul, a, b); }
ExprPtr Div(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kDiv, a, b); }
ExprPtr Magnitude(const Term& x) { return Unary(Op::kAbs, x.e); }

Term IntegerUnary(Dice& dice, const Term& x) {
  const int64_t c = dice.Between(2, 9);
  const ExprPtr constant = ConstInt(x.e->type, c);
  switch (dice.Below(8)) {
    case 0:
      return {Add(x.e, constant), x.limit + c, true};
    case 1:
      return {Mul(x.e, constant), x.limit * c, true};
    case 2:
      return {Div(x.e, constant), x.limit, true};
    case 3:
      return {Binary(Op::kMod, x.e, constant), double(c), true};
    case 4:
      return {Unary(Op::kNeg, x.e), x.limit, true};
    case 5:
      return {Unary(Op::kAbs, x.e), x.limit, true};
    case 6:
      return {Unary(Op::kSign, x.e), 1, true};
    default:
      return {Binary(Op::kMax, x.e, constant), std::max(x.limit, double(c)), true};
  }
}

// Operators whose result is exact where x is. They jump, or pick one of their operands.
Term ExactUnary(Dice& dice, const Term& x) {
  switch (dice.Below(9)) {
    case 0:
      return {Unary(Op::kFloor, x.e), x.limit + 1, true};
    case 1:
      return {Unary(Op::kCeil, x.e), x.limit + 1, true};
    case 2:
      return {Unary(Op::kRound, x.e), x.limit + 1, true};
    case 3:
      return {Unary(Op::kTrunc, x.e), x.limit, true};
    case 4:
      return {Unary(Op::kSign, x.e), 1, true};
    case 5:
      return {Select(Unary(Op::kIsNan, x.e), Number(x, 0), x.e), x.limit, true};
    case 6:
      return {Select(RandomCondition(dice, x), x.e, Number(x, -2)), std::max(2.0, x.limit), true};
    case 7:
      return {Cast(x.e->type, Cast(DType::kI32, x.e)), x.limit, true};
    default:
      return {Cast(x.e->type, RandomCondition(dice, x)), 1, true};
  }
}

Term FloatUnary(Dice& dice, const Term& x) {
  const ExprPtr one = Number(x, 1), half = Number(x, 0.5);
  switch (dice.Below(21)) {
    case 0:
      return {Unary(Op::kNeg, x.e), x.limit, x.exact};
    case 1:
      return {Magnitude(x), x.limit, x.exact};
    case 2:
      return {Binary(Op::kMax, x.e, Number(x, 0)), x.limit, x.exact};
    case 3:
      return {Binary(Op::kMin, Binary(Op::kMax, x.e, Number(x, -1.5)), Number(x, 2)), 2, x.exact};
    case 4:
      return {Unary(Op::kTanh, x.e), 1};
    case 5:
      return {Unary(Op::kErf, x.e), 1};
    case 6:
      return {Div(one, Add(one, Unary(Op::kExp, Unary(Op::kNeg, x.e)))), 1};
    case 7:
      return {Unary(Op::kExp, Unary(Op::kNeg, Magnitude(x))), 1};
    case 8:
      return {Unary(Op::kExp2, Binary(Op::kMin, x.e, Number(x, 4))), 16};
    case 9:
      return {Unary(Op::kExpm1, Binary(Op::kMin, x.e, Number(x, 2))), 8};
    case 10:
      return {Unary(Op::kSqrt, Add(Magnitude(x), half)), std::sqrt(x.limit + 1)};
    case 11:
      return {Unary(Op::kRsqrt, Add(Mul(x.e, x.e), half)), 2};
    case 12:
      return {Unary(Op::kLog, Add(Magnitude(x), half)), 4};
    case 13:
      return {Unary(Op::kLog2, Add(Magnitude(x), half)), 6};
    case 14:
      return {Unary(Op::kLog1p, Magnitude(x)), 4};
    case 15:
      return {Unary(dice.OneIn(2) ? Op::kSin : Op::kCos, x.e), 1};
    case 16:
      return {Binary(Op::kPow, Add(Magnitude(x), half), Number(x, 0.75)), x.limit + 1};
    case 17:
      return {Binary(Op::kAtan2, x.e, Number(x, 1.5)), 2};
    case 18:
      return {Mul(x.e, x.e), x.limit * x.limit};
    case 19:
      return {Add(Mul(x.e, Number(x, 0.7)), Number(x, 0.3)), x.limit};
    default:  // the exact GELU
      return {Mul(Mul(x.e, half), Add(one, Unary(Op::kErf, Mul(x.e, Number(x, M_SQRT1_2))))),
              x.limit};
  }
}

}  // namespace

uint64_t Dice::Next() {  // SplitMix64
  uint64_t x = state_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Term Scale(const Term& x, double factor) {
  return {Mul(x.e, Number(x, factor)), x.limit * std::fabs(factor), false};
}

Term Tame(Term x) {
  if (!IsFloat(x.e->type)) {
    if (x.limit <= kLargestInteger) return x;
    return {Binary(Op::kMod, x.e, ConstInt(x.e->type, 97)), 97, true};
  }
  return x.limit <= kLargest ? x : Scale(x, 4 / x.limit);
}

Term RandomUnary(Dice& dice, const Term& x) {
  if (!IsFloat(x.e->type)) return Tame(IntegerUnary(dice, x));
  if (x.exact && dice.OneIn(3)) return Tame(ExactUnary(dice, x));
  return Tame(FloatUnary(dice, x));
}

Term RandomBinary(Dice& dice, const Term& a, const Term& b) {
  const bool is_float = IsFloat(a.e->type), exact = a.exact && b.exact;
  const double larger = std::max(a.limit, b.limit);
  switch (dice.Below(exact ? 8 : 6)) {
    case 0:
      return Tame({Add(a.e, b.e), a.limit + b.limit, !is_float});
    case 1:
      return Tame({Sub(a.e, b.e), a.limit + b.limit, !is_float});
    case 2:
      return Tame({Mul(a.e, b.e), a.limit * b.limit, !is_float});
    case 3:
      return {Binary(Op::kMax, a.e, b.e), larger, exact};
    case 4:
      return {Binary(Op::kMin, a.e, b.e), larger, exact};
    case 5:
      if (is_float) {
        return Tame({Div(a.e, Add(Magnitude(b), Number(b, 0.5))), a.limit * 2, false});
      }
      // Not |b| + 1: 255 + 1 is 0 in a byte.
      return {Div(a.e, Binary(Op::kMax, Magnitude(b), ConstInt(b.e->type, 1))), a.limit, true};
    case 6:
      return {Select(RandomCondition(dice, a), a.e, b.e), larger, true};
    default:
      return {Select(Binary(Op::kLt, a.e, b.e), b.e, a.e), larger, true};
  }
}

ExprPtr RandomCondition(Dice& dice, const Term& x) {
  const DType type = x.e->type;
  const ExprPtr c = IsFloat(type) ? Const(type, 0.25) : ConstInt(type, 3);
  const ExprPtr d = IsFloat(type) ? Const(type, -1.25) : ConstInt(type, -2);
  switch (dice.Below(6)) {
    case 0:
      return Binary(Op::kLt, x.e, c);
    case 1:
      return Binary(Op::kLe, d, x.e);
    case 2:
      return Binary(Op::kNe, x.e, d);
    case 3:
      return Binary(Op::kAnd, Binary(Op::kLt, d, x.e), Binary(Op::kLe, x.e, c));
    case 4:
      return Binary(Op::kOr, Binary(Op::kLt, x.e, d), Binary(Op::kEq, x.e, c));
    default:
      return Unary(Op::kNot, Binary(Op::kLt, x.e, c));
  }
}

}  // namespace warpsmith::graph
