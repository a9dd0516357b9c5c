// Pointwise operators. PyTorch computes f16 and bf16 in f32 and rounds the result once; formulas
// are those of its CUDA kernels (aten/src/ATen/native/cuda/Activation*.cu, PowKernel.cu, ...).
#include <cmath>
#include <limits>
#include <utility>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::Binary;
using graph::Cast;
using graph::DType;
using graph::ExprPtr;
using graph::Op;
using graph::Select;
using graph::Unary;

// ---- promotion ------------------------------------------------------------------------------

int CategoryOf(DType type) { return type == DType::kBool ? 0 : graph::IsInteger(type) ? 1 : 2; }

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  const bool halves = OpMath(a) == DType::kF32 && OpMath(b) == DType::kF32;
  if (halves && a != DType::kF32 && b != DType::kF32) return DType::kF32;  // f16 with bf16
  if (graph::IsNarrow(a) && graph::IsNarrow(b)) return DType::kI32;  // for the i16 that is missing
  return static_cast<int>(a) > static_cast<int>(b) ? a : b;          // DType is in promotion order
}

// torch.result_type of the named arguments: tensors with dimensions decide, unless a scalar tensor
// or a number is of a higher category (bool, integer, float).
DType ResultType(const Lowering& l, std::initializer_list<std::string_view> arguments) {
  constexpr int kClasses = 3;  // dimensioned tensors, scalar tensors, numbers
  bool present[kClasses] = {};
  DType types[kClasses] = {};
  for (std::string_view argument : arguments) {
    int at = 2;
    DType type = DType::kF32;
    if (l.IsTensor(argument)) {
      const int tensor = l.Tensor(argument);
      at = l.ShapeOf(tensor).empty() ? 1 : 0;
      type = l.TypeOf(tensor);
    } else if (l.IsIntegral(argument)) {
      type = DType::kI64;
    }
    types[at] = present[at] ? PromoteTypes(types[at], type) : type;
    present[at] = true;
  }
  bool any = false;
  DType result = DType::kF32;
  for (int at = 0; at < kClasses; ++at) {
    if (!present[at]) continue;
    if (!any) {
      result = types[at];
    } else if (CategoryOf(types[at]) > CategoryOf(result)) {
      result = PromoteTypes(result, types[at]);
    }
    any = true;
  }
  return result;
}

// What arithmetic on a result of this type is done in.
DType ComputeType(DType type) { return type == DType::kBool ? DType::kI32 : OpMath(type); }

ExprPtr Like(const ExprPtr& x, double value) { return Literal(x->type, value); }

ExprPtr Maximum(ExprPtr a, ExprPtr b) { return Binary(Op::kMax, std::move(a), std::move(b)); }
ExprPtr Minimum(ExprPtr a, ExprPtr b) { return Binary(Op::kMin, std::move(a), std::move(b)); }

// ---- how handlers are made ------------------------------------------------------------------

absl::Status Emit(Lowering& l, const Lowering::Element& element) {
  const Meta& out = l.Out();
  l.Bind(l.AddMap(l.Name(), out.shape,
                  [&](const Exprs& indexes) { return Cast(out.type, element(indexes)); }));
  return absl::OkStatus();
}

using Formula1 = ExprPtr (*)(ExprPtr x);
using Formula2 = ExprPtr (*)(ExprPtr a, ExprPtr b);

// y = f(x), computed in the result's type.
Operator Unary1(Formula1 formula) {
  return {"self:t", [formula](Lowering& l) {
            const DType type = ComputeType(l.Out().type);
            return Emit(l, [&](const Exprs& at) { return formula(l.Operand("self", type, at)); });
          }};
}

// A question about x, in x's own type.
Operator Question(Formula1 formula) {
  return {"self:t", [formula](Lowering& l) {
            const DType type = ComputeType(l.TypeOf(l.Tensor("self")));
            return Emit(l, [&](const Exprs& at) { return formula(l.Operand("self", type, at)); });
          }};
}

Operator Binary2(Formula2 formula) {
  return {"self:x other:x", [formula](Lowering& l) {
            const DType type = ComputeType(l.Out().type);
            return Emit(l, [&](const Exprs& at) {
              return formula(l.Operand("self", type, at), l.Operand("other", type, at));
            });
          }};
}

Operator Comparison(Formula2 formula) {
  return {"self:x other:x", [formula](Lowering& l) {
            // A number or scalar tensor is rounded to the common type before it is compared:
            // with f16, 0.1 equals what 0.1 was stored as.
            const DType common = ResultType(l, {"self", "other"});
            const DType type = ComputeType(common);
            return Emit(l, [&](const Exprs& at) {
              return formula(Cast(type, l.Operand("self", common, at)),
                             Cast(type, l.Operand("other", common, at)));
            });
          }};
}

Operator Logical(Formula2 formula) {
  return {"self:x other:x", [formula](Lowering& l) {
            return Emit(l, [&](const Exprs& at) {
              return formula(l.Operand("self", DType::kBool, at),
                             l.Operand("other", DType::kBool, at));
            });
          }};
}

// The type in which 2^exponent is there, and arithmetic modulo 2^n of `type` can be done.
DType RoomFor(int64_t exponent, DType type) {
  constexpr int64_t kInI32 = 30;
  return exponent <= kInI32 && type != DType::kI64 ? DType::kI32 : DType::kI64;
}
constexpr int64_t kLargestShift = 62;

// 2^other in `type`, an i64 where other is a tensor.
ExprPtr PowerOfTwo(const Lowering& l, DType type, const Exprs& at) {
  if (!l.IsTensor("other")) return graph::ConstInt(type, int64_t{1} << l.Int("other"));
  const ExprPtr exponent = Binary(Op::kMin, l.Operand("other", DType::kI64, at), I(kLargestShift));
  return Cast(DType::kI64, Unary(Op::kExp2, Cast(DType::kF64, exponent)));
}

// x << n and x >> n: a product and a floor division, which is what an arithmetic shift is.
Operator Shift(bool left) {
  return {"self:x other:x", [left](Lowering& l) {
            const DType out = l.Out().type;
            const bool known = !l.IsTensor("other");
            if (known &&
                (!l.IsIntegral("other") || l.Int("other") < 0 || l.Int("other") > kLargestShift)) {
              return l.Unsupported("shifts by more than 62, or by less than 0, are not supported");
            }
            if (left && !known && out == DType::kI64) {
              return l.Unsupported("i64 shifted by a tensor is not supported");
            }
            const DType type = known ? RoomFor(l.Int("other"), out) : DType::kI64;
            return Emit(l, [&](const Exprs& at) {
              const ExprPtr x = l.Operand("self", type, at), power = PowerOfTwo(l, type, at);
              return left ? Mul(x, power) : Div(x, power);
            });
          }};
}

// x & mask where the bits of the mask are neighbours, as they are where integers are unpacked.
absl::Status MaskBits(Lowering& l, int64_t mask) {
  const int64_t lowest = mask & -mask, end = mask + lowest;  // of the run of bits, and one after
  const DType type = RoomFor(end > (1 << 30) ? 31 : 0, l.Out().type);
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at);
    const auto below = [&](int64_t power) { return Mod(x, graph::ConstInt(type, power)); };
    return lowest == 1 ? below(end) : Sub(below(end), below(lowest));
  });
}

bool IsRunOfBits(const Lowering& l) {
  if (l.IsTensor("other") || !l.IsIntegral("other") || l.Int("other") <= 0) return false;
  const uint64_t mask = l.Int("other"), end = mask + (mask & -mask);
  return (end & mask) == 0 && end < uint64_t{1} << 63;
}

// a & b of integers, bit by bit: bit n of x is the last of x >> n.
ExprPtr CommonBits(ExprPtr a, ExprPtr b) {
  const DType type = a->type;
  const int bits = static_cast<int>(8 * graph::SizeOf(type));
  const ExprPtr zero = graph::ConstInt(type, 0), two = graph::ConstInt(type, 2);
  ExprPtr common = zero;
  for (int bit = 0; bit < bits; ++bit) {
    const int64_t value = static_cast<int64_t>(uint64_t{1} << bit);
    const bool sign = bit == bits - 1 && type != DType::kU8;
    const auto is_set = [&](const ExprPtr& x) {
      if (sign) return Less(x, zero);
      const ExprPtr shifted = bit == 0 ? x : Div(x, graph::ConstInt(type, value));
      return Binary(Op::kNe, Mod(shifted, two), zero);
    };
    const int64_t counts = sign ? (bits == 64 ? value : -value) : value;
    common = Add(common, Select(And(is_set(a), is_set(b)), graph::ConstInt(type, counts), zero));
  }
  return common;
}

// Bitwise operators: logical ones on bool, and what sums make of the common bits of integers.
Operator Bitwise(Formula2 logical, Formula2 of_integers) {
  const Operator of_flags = Logical(logical);
  return {of_flags.arguments, [of_flags, of_integers](Lowering& l) {
            const DType type = l.Out().type;
            if (type == DType::kBool) return of_flags.lower(l);
            return Emit(l, [&](const Exprs& at) {
              return of_integers(l.Operand("self", type, at), l.Operand("other", type, at));
            });
          }};
}

// a + alpha * b and a - alpha * b.
Operator Scaled(Op op, bool reversed = false) {
  return {"self:x other:x alpha:n?", [op, reversed](Lowering& l) {
            const DType type = ComputeType(l.Out().type);
            const bool plain = !l.Has("alpha") || l.Number("alpha") == 1;
            return Emit(l, [&](const Exprs& at) {
              ExprPtr a = l.Operand(reversed ? "other" : "self", type, at);
              ExprPtr b = l.Operand(reversed ? "self" : "other", type, at);
              if (!plain) b = Mul(l.Operand("alpha", type, at), std::move(b));
              return Binary(op, std::move(a), std::move(b));
            });
          }};
}

// ---- formulas -------------------------------------------------------------------------------

ExprPtr Sigmoid(ExprPtr x) {
  return Div(Like(x, 1), Add(Like(x, 1), Unary(Op::kExp, Unary(Op::kNeg, x))));
}

// exp(x) / 2 for x >= 0, which overflows only where that does, and is exact to a few ulp where
// exp(x - log(2)) is not.
ExprPtr HalfExp(const ExprPtr& x) {
  const ExprPtr root = Unary(Op::kExp, Mul(Like(x, 0.5), x));
  return Mul(Mul(Like(x, 0.5), root), root);
}

// Without cancellation near 0 or far from it: for e = expm1(|x|), (e + e / (e + 1)) / 2.
ExprPtr Sinh(ExprPtr x) {
  const ExprPtr size = Unary(Op::kAbs, x);
  const ExprPtr e = Unary(Op::kExpm1, size);
  const ExprPtr tame = Mul(Like(x, 0.5), Add(e, Div(e, Add(e, Like(x, 1)))));
  return Mul(Unary(Op::kSign, x), Select(Less(size, Like(x, 20)), tame, HalfExp(size)));
}

ExprPtr Cosh(ExprPtr x) {
  const ExprPtr half = HalfExp(Unary(Op::kAbs, x));
  return Add(half, Div(Like(x, 0.25), half));
}

ExprPtr IsInfinite(const ExprPtr& x) {
  return Binary(Op::kEq, Unary(Op::kAbs, x), Like(x, std::numeric_limits<double>::infinity()));
}

// Of -0, too; NaNs count as positive.
ExprPtr IsNegative(const ExprPtr& x) {
  if (!graph::IsFloat(x->type)) return Less(x, Like(x, 0));
  return Binary(Op::kOr, Less(x, Like(x, 0)), Less(Div(Like(x, 1), x), Like(x, 0)));
}

// Squares that would overflow are of quotients.
ExprPtr Hypot(ExprPtr a, ExprPtr b) {
  const ExprPtr x = Unary(Op::kAbs, a), y = Unary(Op::kAbs, b);
  const ExprPtr more = Maximum(x, y), ratio = Div(Minimum(x, y), more);
  const ExprPtr length = Mul(more, Unary(Op::kSqrt, Add(Like(x, 1), Mul(ratio, ratio))));
  const ExprPtr infinite = Binary(Op::kOr, IsInfinite(x), IsInfinite(y));
  return Select(infinite, Like(x, std::numeric_limits<double>::infinity()),
                Select(Binary(Op::kEq, more, Like(x, 0)), more, length));
}

// log(2 x) where x^2 may overflow; otherwise what keeps its digits near 0.
ExprPtr LogOfTwice(const ExprPtr& x) { return Add(Unary(Op::kLog, x), Like(x, M_LN2)); }
constexpr double kLargeArea = 1e8;
ExprPtr Asinh(ExprPtr x) {
  const ExprPtr size = Unary(Op::kAbs, x), square = Mul(size, size);
  const ExprPtr root = Unary(Op::kSqrt, Add(square, Like(x, 1)));
  const ExprPtr tame = Unary(Op::kLog1p, Add(size, Div(square, Add(root, Like(x, 1)))));
  return Mul(Unary(Op::kSign, x), Select(Less(size, Like(x, kLargeArea)), tame, LogOfTwice(size)));
}
ExprPtr Acosh(ExprPtr x) {
  const ExprPtr above = Sub(x, Like(x, 1));
  const ExprPtr root = Unary(Op::kSqrt, Mul(above, Add(above, Like(x, 2))));
  const ExprPtr tame = Unary(Op::kLog1p, Add(above, root));
  return Select(Less(Like(x, kLargeArea), x), LogOfTwice(x), tame);
}

// The other one where one is NaN.
template <Op kOp>
ExprPtr BesideNan(ExprPtr a, ExprPtr b) {
  if (!graph::IsFloat(a->type)) return Binary(kOp, a, b);
  return Select(Unary(Op::kIsNan, a), b, Select(Unary(Op::kIsNan, b), a, Binary(kOp, a, b)));
}

// sqrt(1 - x^2), exact near 1.
ExprPtr Cofactor(const ExprPtr& x) {
  return Unary(Op::kSqrt, Mul(Sub(Like(x, 1), x), Add(Like(x, 1), x)));
}

ExprPtr Rounded(Op op, ExprPtr x) { return graph::IsFloat(x->type) ? Unary(op, x) : x; }

// ---- operators with arguments of their own --------------------------------------------------

absl::Status Hardtanh(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  return Emit(l, [&](const Exprs& at) {
    return Minimum(Maximum(l.Operand("self", type, at), l.Operand("min_val", type, at)),
                   l.Operand("max_val", type, at));
  });
}

absl::Status Clamp(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  return Emit(l, [&](const Exprs& at) {
    ExprPtr x = l.Operand("self", type, at);
    if (l.Has("min")) x = Maximum(x, l.Operand("min", type, at));
    if (l.Has("max")) x = Minimum(x, l.Operand("max", type, at));
    return x;
  });
}

absl::Status LeakyRelu(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at);
    return Select(Less(Like(x, 0), x), x, Mul(x, l.Operand("negative_slope", type, at)));
  });
}

absl::Status Elu(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  const double negative = l.Number("alpha") * l.Number("scale");
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at);
    return Select(
        Less(Like(x, 0), x), Mul(x, l.Operand("scale", type, at)),
        Mul(Unary(Op::kExpm1, Mul(x, l.Operand("input_scale", type, at))), Like(x, negative)));
  });
}

absl::Status Gelu(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  const bool by_tanh = l.String("approximate") == "tanh";
  constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5;
  constexpr double kKappa = 0.044715;
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at);
    if (!by_tanh) {
      return Mul(Mul(x, Like(x, 0.5)),
                 Add(Like(x, 1), Unary(Op::kErf, Mul(x, Like(x, M_SQRT1_2)))));
    }
    const ExprPtr cube = Mul(Mul(x, x), x);
    const ExprPtr inner = Mul(Like(x, kBeta), Add(x, Mul(Like(x, kKappa), cube)));
    return Mul(Mul(Like(x, 0.5), x), Add(Like(x, 1), Unary(Op::kTanh, inner)));
  });
}

absl::Status SiluGradient(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at), s = Sigmoid(x), one = Like(x, 1);
    return Mul(Mul(l.Operand("grad_output", type, at), s), Add(one, Mul(x, Sub(one, s))));
  });
}

// x to a whole power by multiplication: exact in the same way for every sign of x.
ExprPtr WholePower(const ExprPtr& x, int exponent) {
  ExprPtr power = x;
  for (int i = 1; i < exponent; ++i) power = Mul(power, x);
  return power;
}

absl::Status PowScalar(Lowering& l) {
  constexpr double kLargestInteger = 16;
  const DType type = ComputeType(l.Out().type);
  const double exponent = l.Number("exponent");
  const bool whole = exponent == std::trunc(exponent);
  if (!graph::IsFloat(type) && !(whole && exponent >= 0 && exponent <= kLargestInteger)) {
    return l.Unsupported("integers to such a power are not supported");
  }
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr x = l.Operand("self", type, at);
    if (exponent == 0) return Like(x, 1);
    if (exponent == 1 || exponent == 2 || exponent == 3 || !graph::IsFloat(type)) {
      return WholePower(x, static_cast<int>(exponent));
    }
    if (exponent == 0.5) return Unary(Op::kSqrt, x);
    if (exponent == -0.5) return Unary(Op::kRsqrt, x);
    if (exponent == -1) return Div(Like(x, 1), x);
    if (exponent == -2) return Div(Like(x, 1), Mul(x, x));
    return Binary(Op::kPow, x, Like(x, exponent));
  });
}

absl::Status Pow(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
  return Emit(l, [&](const Exprs& at) {
    return Binary(Op::kPow, l.Operand("self", type, at), l.Operand("exponent", type, at));
  });
}

// Quotients rounded towards zero (trunc) or down (floor).
absl::Status DivMode(Lowering& l) {
  const DType type = ComputeType(l.Out().type);
  const std::string mode = l.Has("rounding_mode") ? l.String("rounding_mode") : "";
  const bool floor = mode == "floor" && graph::IsFloat(type);
  if (floor && type == DType::kF64) return l.Unsupported("floor division of f64 is not supported");
  return Emit(l, [&](const Exprs& at) {
    const ExprPtr a = l.Operand("self", type, at), b = l.Operand("other", type, at);
    // In f64 a quotient of f32 is rounded to a whole number only where it is one.
    if (floor) return Unary(Op::kFloor, Div(Cast(DType::kF64, a), Cast(DType::kF64, b)));
    const ExprPtr quotient = Div(a, b);
    if (mode != "trunc") return quotient;
    if (graph::IsFloat(type)) return Unary(Op::kTrunc, quotient);
    const ExprPtr uneven = Binary(Op::kNe, Mod(a, b), Like(a, 0));
    const ExprPtr negative = Less(quotient, Like(a, 0));
    return Select(And(uneven, negative), Add(quotient, Like(a, 1)), quotient);
  });
}

// The same of f32, in f64: there quotients of less than 2^29 times b are exact. What is left of a
// beside an infinite b is a.
ExprPtr FloatRest(const ExprPtr& a, const ExprPtr& b, bool dividends_sign) {
  const ExprPtr x = Cast(DType::kF64, a), y = Cast(DType::kF64, b);
  const ExprPtr infinite = IsInfinite(y);
  const ExprPtr whole = Unary(dividends_sign ? Op::kTrunc : Op::kFloor, Div(x, y));
  const ExprPtr rest =
      Sub(x, Mul(Select(infinite, Mul(x, Like(x, 0)), whole), Select(infinite, Like(y, 0), y)));
  if (dividends_sign) return rest;
  const ExprPtr apart = Less(Mul(Unary(Op::kSign, x), Unary(Op::kSign, y)), Like(y, 0));
  return Select(And(infinite, apart), y, rest);
}

// a % b with b's sign (remainder) or a's (fmod); the language has the former, of integers.
Operator Remainder(bool dividends_sign) {
  return {"self:x other:x", [dividends_sign](Lowering& l) {
            const DType type = ComputeType(l.Out().type);
            if (type == DType::kF64) return l.Unsupported("f64 is not supported");
            return Emit(l, [&](const Exprs& at) {
              const ExprPtr a = l.Operand("self", type, at), b = l.Operand("other", type, at);
              if (graph::IsFloat(type)) return FloatRest(a, b, dividends_sign);
              const ExprPtr rest = Mod(a, b);
              if (!dividends_sign) return rest;
              const ExprPtr uneven = Binary(Op::kNe, rest, Like(a, 0));
              const ExprPtr apart = Binary(Op::kNe, Cast(DType::kI32, Less(a, Like(a, 0))),
                                           Cast(DType::kI32, Less(b, Like(b, 0))));
              return Select(And(uneven, apart), Sub(rest, b), rest);
            });
          }};
}

absl::Status Where(Lowering& l) {
  const DType type = l.Out().type;
  return Emit(l, [&](const Exprs& at) {
    return Select(l.Operand("condition", DType::kBool, at), l.Operand("self", type, at),
                  l.Operand("other", type, at));
  });
}

absl::Status ToCopy(Lowering& l) {
  l.Bind(l.CastTensor(l.Tensor("self"), l.Out().type, l.Name()));
  return absl::OkStatus();
}

// To float8_e4m3fn, whose numbers f16 has without loss.
absl::Status ToE4m3(Lowering& l) {
  constexpr double kMost = 448;
  return Emit(l, [&](const Exprs& at) {
    ExprPtr x = graph::Cast(DType::kF32, l.LoadBroadcast(l.Tensor("self"), at));
    if (l.Bool("saturates"))
      x = Binary(Op::kMin, Binary(Op::kMax, x, Like(x, -kMost)), Like(x, kMost));
    return graph::Cast(DType::kF16, Unary(Op::kE4m3, x));
  });
}

absl::Status Copy(Lowering& l) {
  return Emit(l, [&](const Exprs& at) { return l.LoadBroadcast(l.Tensor("src"), at); });
}

void AddUnary(OperatorTable& table) {
  table["aten.neg.default"] = Unary1([](ExprPtr x) { return Unary(Op::kNeg, x); });
  table["aten.abs.default"] = Unary1([](ExprPtr x) { return Unary(Op::kAbs, x); });
  table["aten.sign.default"] = Unary1([](ExprPtr x) { return Unary(Op::kSign, x); });
  table["aten.sgn.default"] = table["aten.sign.default"];
  table["aten.sqrt.default"] = Unary1([](ExprPtr x) { return Unary(Op::kSqrt, x); });
  table["aten.rsqrt.default"] = Unary1([](ExprPtr x) { return Unary(Op::kRsqrt, x); });
  table["aten.reciprocal.default"] = Unary1([](ExprPtr x) { return Div(Like(x, 1), x); });
  table["aten.exp.default"] = Unary1([](ExprPtr x) { return Unary(Op::kExp, x); });
  table["aten.exp2.default"] = Unary1([](ExprPtr x) { return Unary(Op::kExp2, x); });
  table["aten.expm1.default"] = Unary1([](ExprPtr x) { return Unary(Op::kExpm1, x); });
  table["aten.log.default"] = Unary1([](ExprPtr x) { return Unary(Op::kLog, x); });
  table["aten.log2.default"] = Unary1([](ExprPtr x) { return Unary(Op::kLog2, x); });
  table["aten.log10.default"] =
      Unary1([](ExprPtr x) { return Div(Unary(Op::kLog, x), Like(x, M_LN10)); });
  table["aten.log1p.default"] = Unary1([](ExprPtr x) { return Unary(Op::kLog1p, x); });
  table["aten.tanh.default"] = Unary1([](ExprPtr x) { return Unary(Op::kTanh, x); });
  table["aten.sinh.default"] = Unary1(Sinh);
  table["aten.cosh.default"] = Unary1(Cosh);
  table["aten.atanh.default"] = Unary1([](ExprPtr x) {
    return Mul(Like(x, 0.5), Sub(Unary(Op::kLog1p, x), Unary(Op::kLog1p, Unary(Op::kNeg, x))));
  });
  table["aten.sin.default"] = Unary1([](ExprPtr x) { return Unary(Op::kSin, x); });
  table["aten.cos.default"] = Unary1([](ExprPtr x) { return Unary(Op::kCos, x); });
  table["aten.tan.default"] =
      Unary1([](ExprPtr x) { return Div(Unary(Op::kSin, x), Unary(Op::kCos, x)); });
  table["aten.asin.default"] = Unary1([](ExprPtr x) { return Binary(Op::kAtan2, x, Cofactor(x)); });
  table["aten.acos.default"] = Unary1([](ExprPtr x) { return Binary(Op::kAtan2, Cofactor(x), x); });
  table["aten.atan.default"] = Unary1([](ExprPtr x) { return Binary(Op::kAtan2, x, Like(x, 1)); });
  table["aten.erf.default"] = Unary1([](ExprPtr x) { return Unary(Op::kErf, x); });
  table["aten.erfc.default"] =
      Unary1([](ExprPtr x) { return Sub(Like(x, 1), Unary(Op::kErf, x)); });
  table["aten.asinh.default"] = Unary1(Asinh);
  table["aten.acosh.default"] = Unary1(Acosh);
  table["aten.signbit.default"] = Question([](ExprPtr x) { return IsNegative(x); });
  table["aten.sigmoid.default"] = Unary1(Sigmoid);
  table["aten.relu.default"] = Unary1([](ExprPtr x) { return Maximum(x, Like(x, 0)); });
  table["aten.floor.default"] = Unary1([](ExprPtr x) { return Rounded(Op::kFloor, x); });
  table["aten.ceil.default"] = Unary1([](ExprPtr x) { return Rounded(Op::kCeil, x); });
  table["aten.round.default"] = Unary1([](ExprPtr x) { return Rounded(Op::kRound, x); });
  table["aten.trunc.default"] = Unary1([](ExprPtr x) { return Rounded(Op::kTrunc, x); });
  table["aten.isnan.default"] = Question([](ExprPtr x) {
    return graph::IsFloat(x->type) ? Unary(Op::kIsNan, x) : graph::ConstInt(DType::kBool, 0);
  });
  table["aten.isinf.default"] = Question([](ExprPtr x) {
    return graph::IsFloat(x->type) ? IsInfinite(x) : graph::ConstInt(DType::kBool, 0);
  });
  table["aten.logical_not.default"] =
      Question([](ExprPtr x) { return Unary(Op::kNot, Cast(DType::kBool, x)); });
  const Operator complement =
      Unary1([](ExprPtr x) { return Sub(Like(x, x->type == DType::kU8 ? 255 : -1), x); });
  table["aten.bitwise_not.default"] = {
      "self:t", [complement, inverse = table["aten.logical_not.default"]](Lowering& l) {
        return (l.Out().type == DType::kBool ? inverse : complement).lower(l);
      }};
}

void AddBinary(OperatorTable& table) {
  table["aten.add.Tensor"] = table["aten.add.Scalar"] = Scaled(Op::kAdd);
  table["aten.sub.Tensor"] = Scaled(Op::kSub);
  table["aten.rsub.Scalar"] = Scaled(Op::kSub, /*reversed=*/true);
  table["aten.mul.Tensor"] = table["aten.mul.Scalar"] = Binary2(Mul);
  table["aten.div.Tensor"] = table["aten.div.Scalar"] = Binary2(Div);
  table["aten.div.Tensor_mode"] = {"self:x other:x rounding_mode:s?", DivMode};
  table["aten.remainder.Scalar"] = table["aten.remainder.Tensor"] = Remainder(false);
  table["aten.fmod.Scalar"] = table["aten.fmod.Tensor"] = Remainder(true);
  table["aten.maximum.default"] = Binary2(Maximum);
  table["aten.minimum.default"] = Binary2(Minimum);
  table["aten.fmax.default"] = Binary2(BesideNan<Op::kMax>);
  table["aten.fmin.default"] = Binary2(BesideNan<Op::kMin>);
  table["aten.hypot.default"] = Binary2(Hypot);
  table["aten.copysign.Tensor"] = Binary2([](ExprPtr a, ExprPtr b) {
    const ExprPtr size = Unary(Op::kAbs, a);
    return Select(IsNegative(b), Unary(Op::kNeg, size), size);
  });
  table["aten.atan2.default"] =
      Binary2([](ExprPtr a, ExprPtr b) { return Binary(Op::kAtan2, a, b); });
  table["aten.pow.Tensor_Scalar"] = {"self:t exponent:n", PowScalar};
  table["aten.pow.Tensor_Tensor"] = table["aten.pow.Scalar"] = {"self:x exponent:x", Pow};

  const std::pair<const char*, Formula2> comparisons[] = {
      {"eq", [](ExprPtr a, ExprPtr b) { return Binary(Op::kEq, a, b); }},
      {"ne", [](ExprPtr a, ExprPtr b) { return Binary(Op::kNe, a, b); }},
      {"lt", Less},
      {"le", LessEqual},
      {"gt", [](ExprPtr a, ExprPtr b) { return Less(b, a); }},
      {"ge", [](ExprPtr a, ExprPtr b) { return LessEqual(b, a); }},
  };
  for (const auto& [name, formula] : comparisons) {
    for (const char* overload : {"Tensor", "Scalar"}) {
      table[std::string("aten.") + name + "." + overload] = Comparison(formula);
    }
  }

  const Formula2 conjunction = [](ExprPtr a, ExprPtr b) { return Binary(Op::kAnd, a, b); };
  const Formula2 disjunction = [](ExprPtr a, ExprPtr b) { return Binary(Op::kOr, a, b); };
  const Formula2 difference = [](ExprPtr a, ExprPtr b) {
    return Binary(Op::kNe, Cast(DType::kI32, a), Cast(DType::kI32, b));
  };
  table["aten.logical_and.default"] = Logical(conjunction);
  table["aten.logical_or.default"] = Logical(disjunction);
  table["aten.logical_xor.default"] = Logical(difference);
  const Operator both = Bitwise(conjunction, CommonBits);
  const Operator masked = {both.arguments, [both](Lowering& l) {
                             const bool plain = l.Out().type == DType::kBool || !IsRunOfBits(l);
                             return plain ? both.lower(l) : MaskBits(l, l.Int("other"));
                           }};
  const Operator either =
      Bitwise(disjunction, [](ExprPtr a, ExprPtr b) { return Sub(Add(a, b), CommonBits(a, b)); });
  const Operator one = Bitwise(difference, [](ExprPtr a, ExprPtr b) {
    const ExprPtr common = CommonBits(a, b);
    return Sub(Sub(Add(a, b), common), common);
  });
  for (const char* overload : {"Tensor", "Scalar"}) {
    table[std::string("aten.bitwise_and.") + overload] = masked;
    table[std::string("aten.bitwise_or.") + overload] = either;
    table[std::string("aten.bitwise_xor.") + overload] = one;
    table[std::string("aten.__rshift__.") + overload] = Shift(/*left=*/false);
    table[std::string("aten.__lshift__.") + overload] = Shift(/*left=*/true);
  }
}

OperatorTable Build() {
  OperatorTable table;
  AddUnary(table);
  AddBinary(table);
  table["aten.hardtanh.default"] = {"self:t min_val:n max_val:n", Hardtanh};
  table["aten.clamp.default"] = table["aten.clamp.Tensor"] = {"self:t min:x? max:x?", Clamp};
  table["aten.leaky_relu.default"] = {"self:t negative_slope:n", LeakyRelu};
  table["aten.elu.default"] = {"self:t alpha:n scale:n input_scale:n", Elu};
  table["aten.silu_backward.default"] = {"grad_output:t self:t", SiluGradient};
  table["aten.gelu.default"] = {"self:t approximate:s", Gelu};
  table["aten.where.self"] = {"condition:t self:x other:x", Where};
  table["aten._to_copy.default"] = {"self:t", ToCopy};
  table["aten._to_copy.float8_e4m3fn"] = {"self:t saturates:b", ToE4m3};
  table["aten.copy.default"] = {"self:t src:t", Copy};
  return table;
}

}  // namespace

const OperatorTable& PointwiseOperators() {
  static const auto* const kTable = new OperatorTable(Build());
  return *kTable;
}

}  // namespace warpsmith::import
