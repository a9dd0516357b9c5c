#include <catch2/catch.hpp>
#include <cmath>

#include "common/graph/affine.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"

namespace warpsmith::graph {
namespace {

ExprPtr I(int64_t value) { return ConstInt(DType::kI64, value); }
ExprPtr F(double value) { return Const(DType::kF32, value); }

TEST_CASE("rounding to a type is to the nearest, ties to even") {
  struct Case {
    DType type;
    double value, rounded;
  };
  const double inf = INFINITY;
  const Case cases[] = {
      {DType::kF32, 0.1, 0.1f},
      {DType::kF32, 16777217, 16777216},
      {DType::kF32, 1e39, inf},
      {DType::kF64, 0.1, 0.1},
      {DType::kF16, 0.1, 0.0999755859375},
      {DType::kF16, 2049, 2048},
      {DType::kF16, 2051, 2052},
      {DType::kF16, 65519.9, 65504},
      {DType::kF16, 65520, inf},
      {DType::kF16, -65520, -inf},
      {DType::kF16, 0x1p-24, 0x1p-24},
      {DType::kF16, 0x1p-25, 0},
      {DType::kF16, 0x1.8p-25, 0x1p-24},
      {DType::kBF16, 257, 256},
      {DType::kBF16, 259, 260},
      {DType::kBF16, 0.1, 0.10009765625},
      {DType::kBF16, 3.4e38, inf},
      {DType::kBF16, 3.39e38, 0x1.fep127},
  };
  for (const Case& c : cases) {
    INFO(NameOf(c.type) << " of " << c.value);
    CHECK(RoundTo(c.type, c.value) == c.rounded);
  }
  CHECK(std::signbit(RoundTo(DType::kF16, -1e-30)));
  CHECK(std::isnan(RoundTo(DType::kBF16, NAN)));
}

TEST_CASE("integers wrap, and division rounds down") {
  CHECK(FloorDiv(-7, 2) == -4);
  CHECK(FloorMod(-7, 2) == 1);
  CHECK(FloorMod(7, -2) == -1);
  CHECK(FloorDiv(INT64_MIN, -1) == INT64_MIN);
  CHECK(FloorMod(INT64_MIN, -1) == 0);
  CHECK(ApplyInteger(Op::kAdd, DType::kI32, INT32_MAX, 1) == INT32_MIN);
  CHECK(ApplyInteger(Op::kMul, DType::kI64, INT64_MAX, 2) == -2);
  CHECK(ApplyInteger(Op::kAdd, DType::kI8, 127, 1) == -128);
  CHECK(ApplyInteger(Op::kNeg, DType::kI8, -128) == -128);
  CHECK(ApplyInteger(Op::kSub, DType::kU8, 3, 4) == 255);
  CHECK(ApplyInteger(Op::kMul, DType::kU8, 16, 17) == 16);
}

TEST_CASE("floats become integers as on a card") {
  const DType f16 = DType::kF16, bf16 = DType::kBF16, f32 = DType::kF32, f64 = DType::kF64;
  const DType i32 = DType::kI32, i64 = DType::kI64, boolean = DType::kBool;
  const DType i8 = DType::kI8, u8 = DType::kU8;
  struct Case {
    DType from, to;
    double value;
    int64_t integer;
  };
  const Case cases[] = {
      {f32, i32, -2.9, -2},
      {f32, i32, 1e20, INT32_MAX},
      {f32, i32, -INFINITY, INT32_MIN},
      {f32, i32, NAN, 0},
      {f16, i32, NAN, 0},
      {bf16, i32, NAN, 0},
      {f64, i32, NAN, INT32_MIN},
      {f64, i32, 2147483647.5, INT32_MAX},
      {f32, i64, NAN, INT64_MIN},
      {f64, i64, NAN, INT64_MIN},
      {f32, i64, INFINITY, INT64_MAX},
      {f64, i64, -0x1p63, INT64_MIN},
      {f64, i64, 0x1p63, INT64_MAX},
      {f64, i64, 0x1p53, int64_t{1} << 53},
      {f32, i8, -128.9, -128},
      {f32, i8, 1e9, 127},
      {f32, i8, NAN, 0},
      {f64, i8, NAN, 0},
      {f32, u8, -0.5, 0},
      {f32, u8, 255.5, 255},
      {f64, u8, -INFINITY, 0},
      {f32, boolean, 0.1, 1},
      {f32, boolean, -0.0, 0},
      {f16, boolean, NAN, 1},
  };
  for (const Case& c : cases) {
    INFO(NameOf(c.from) << " " << c.value << " to " << NameOf(c.to));
    CHECK(FloatToInteger(c.from, c.to, c.value) == c.integer);
    CHECK(Cast(c.to, Const(c.from, c.value))->integer == c.integer);
  }
}

TEST_CASE("min and max propagate NaN from either side") {
  for (Op op : {Op::kMin, Op::kMax}) {
    CHECK(std::isnan(ApplyFloat(op, NAN, 1)));
    CHECK(std::isnan(ApplyFloat(op, 1, NAN)));
  }
  CHECK(ApplyFloat(Op::kSign, NAN) == 0);
  CHECK(ApplyFloat(Op::kRound, 2.5) == 2);
}

TEST_CASE("builders fold and simplify what is safe, and only that") {
  Graph graph;
  graph.AddInput(Role::kInput, "x", DType::kF32, {8});
  graph.AddInput(Role::kInput, "b", DType::kBool, {8});
  const ExprPtr i = Index(0), x = Load(graph, 0, {i}), b = Load(graph, 1, {i});
  const ExprPtr yes = ConstInt(DType::kBool, 1), no = ConstInt(DType::kBool, 0);
  struct Case {
    ExprPtr got, expected;
  };
  const Case same[] = {
      {Binary(Op::kAdd, i, I(0)), i},
      {Binary(Op::kMul, I(1), i), i},
      {Binary(Op::kMul, i, I(0)), I(0)},
      {Binary(Op::kDiv, i, I(1)), i},
      {Binary(Op::kMod, i, I(1)), I(0)},
      {Binary(Op::kAdd, Binary(Op::kSub, i, I(3)), I(3)), i},
      {Binary(Op::kAdd, I(2), Binary(Op::kAdd, i, I(3))), Binary(Op::kAdd, i, I(5))},
      {Binary(Op::kSub, Binary(Op::kAdd, i, I(1)), I(4)), Binary(Op::kSub, i, I(3))},
      {Binary(Op::kMul, Binary(Op::kMul, i, I(3)), I(4)), Binary(Op::kMul, i, I(12))},
      {Binary(Op::kDiv, I(-7), I(2)), I(-4)},
      {Binary(Op::kMul, x, F(1)), x},
      {Binary(Op::kSub, x, F(0)), x},
      {Binary(Op::kAdd, x, F(-0.0)), x},
      {Binary(Op::kDiv, F(1), F(3)), F(1.0f / 3.0f)},
      {Unary(Op::kNeg, Unary(Op::kNeg, x)), x},
      {Unary(Op::kNot, Unary(Op::kNot, b)), b},
      {Binary(Op::kAnd, yes, b), b},
      {Binary(Op::kAnd, b, no), no},
      {Binary(Op::kOr, b, yes), yes},
      {Select(yes, x, F(0)), x},
      {Binary(Op::kLt, I(1), I(2)), yes},
      {Cast(DType::kF32, x), x},
      {Cast(DType::kI32, F(-1.5)), ConstInt(DType::kI32, -1)},
  };
  for (const Case& c : same) {
    INFO(&c - same);
    CHECK(Same(c.got, c.expected));
  }
  // These would change a result: of -0, of infinity, of NaN, or stop an error.
  CHECK(Binary(Op::kAdd, x, F(0))->op == Op::kAdd);
  CHECK(Binary(Op::kMul, x, F(0))->op == Op::kMul);
  CHECK(Binary(Op::kSub, x, x)->op == Op::kSub);
  CHECK(Unary(Op::kNot, Binary(Op::kLt, x, F(0)))->op == Op::kNot);
  CHECK(Binary(Op::kDiv, I(1), I(0))->op == Op::kDiv);
  CHECK_FALSE(Same(F(0), F(-0.0)));
  CHECK(Same(F(NAN), F(NAN)));
}

TEST_CASE("substitution replaces index variables and simplifies again") {
  const ExprPtr e = Binary(Op::kAdd, Binary(Op::kMul, Index(0), I(4)), Index(1));
  CHECK(Same(Substitute(e, {I(2), I(1)}), I(9)));
  CHECK(Substitute(e, {nullptr, nullptr}) == e);
  const ExprPtr moved = Substitute(e, {Index(1), nullptr});
  CHECK(Same(moved, Binary(Op::kAdd, Binary(Op::kMul, Index(1), I(4)), Index(1))));
}

TEST_CASE("substitution and pruning keep shared parts shared") {
  // As a tree this has 2^60 leaves.
  Graph graph;
  const int x = graph.AddInput(Role::kInput, "x", DType::kF32, {8});
  ExprPtr e = Load(graph, x, {Index(0)});
  for (int i = 0; i < 60; ++i) e = Binary(Op::kMul, e, e);
  graph.outputs = {
      graph.AddMap("y", {{"i", 8}}, Substitute(e, {Binary(Op::kMod, Index(0), I(5))}))};
  const Graph pruned = Prune(graph);
  CHECK(Validate(pruned).ok());
  CHECK(Count(pruned).operations == 5 * 60);  // places that differ times parts
}

TEST_CASE("affine forms and bounds of indexes") {
  const ExprPtr i = Index(0), j = Index(1);
  const ExprPtr e = Binary(Op::kSub, Binary(Op::kAdd, Binary(Op::kMul, i, I(3)), j), I(2));
  const auto affine = AsAffine(e, 2);
  REQUIRE(affine);
  CHECK(affine->constant == -2);
  CHECK(affine->coefficients == std::vector<int64_t>{3, 1});
  CHECK_FALSE(AsAffine(Binary(Op::kMul, i, j), 2));
  const std::vector<Interval> ranges = {{0, 9}, {0, 2}};
  const auto bounds = [&](const ExprPtr& x) {
    const auto b = BoundsOf(x, ranges);
    return b ? std::make_pair(b->low, b->high) : std::make_pair(int64_t{-999}, int64_t{-999});
  };
  using Pair = std::pair<int64_t, int64_t>;
  CHECK(bounds(e) == Pair(-2, 27));
  CHECK(bounds(Binary(Op::kDiv, e, I(4))) == Pair(-1, 6));
  CHECK(bounds(Binary(Op::kMod, e, I(4))) == Pair(0, 3));
  CHECK(bounds(Binary(Op::kMod, j, I(4))) == Pair(0, 2));
  CHECK(bounds(Unary(Op::kAbs, e)) == Pair(0, 27));
  CHECK(bounds(Binary(Op::kMax, e, I(0))) == Pair(0, 27));
  CHECK(bounds(Binary(Op::kMul, i, j)) == Pair(0, 18));
  CHECK(bounds(Select(Binary(Op::kLt, i, I(5)), i, I(0))) == Pair(0, 4));
}

TEST_CASE("bounds hold where arithmetic wraps") {
  const ExprPtr i = Index(0);
  const std::vector<Interval> ranges = {{0, 7}};
  // i * (2^62 - 1) is negative for i = 3, though no multiple of a positive number is.
  const ExprPtr wraps = Binary(Op::kMul, i, ConstInt(DType::kI64, (int64_t{1} << 62) - 1));
  const ExprPtr zero = ConstInt(DType::kI64, 0);
  const ExprPtr chosen =
      Select(Binary(Op::kLt, wraps, zero), Binary(Op::kAdd, i, ConstInt(DType::kI64, 100)), zero);
  CHECK(EvaluateAt(*chosen, {3}) == 103);
  const auto bounds = BoundsOf(chosen, ranges);
  CHECK((!bounds || bounds->high >= 103));
  // -(-2^31) is itself in i32.
  const ExprPtr least =
      Select(Binary(Op::kLt, zero, i), ConstInt(DType::kI32, INT32_MIN), ConstInt(DType::kI32, 0));
  const ExprPtr negated = Cast(DType::kI64, Unary(Op::kNeg, least));
  CHECK(EvaluateAt(*negated, {3}) == INT32_MIN);
  const auto negated_bounds = BoundsOf(negated, ranges);
  CHECK((!negated_bounds || negated_bounds->low <= INT32_MIN));
}

TEST_CASE("conditions narrow ranges") {
  const ExprPtr i = Index(0), j = Index(1);
  const auto narrowed = [](const ExprPtr& condition, bool value) {
    std::vector<Interval> ranges = {{0, 9}, {0, 9}};
    Narrow(condition, value, ranges);
    return std::vector<int64_t>{ranges[0].low, ranges[0].high, ranges[1].low, ranges[1].high};
  };
  using V = std::vector<int64_t>;
  const ExprPtr twice = Binary(Op::kMul, i, I(2));
  CHECK(narrowed(Binary(Op::kLt, twice, I(7)), true) == V{0, 3, 0, 9});
  CHECK(narrowed(Binary(Op::kLt, twice, I(7)), false) == V{4, 9, 0, 9});
  CHECK(narrowed(Binary(Op::kLe, I(3), Binary(Op::kSub, I(10), i)), true) == V{0, 7, 0, 9});
  CHECK(narrowed(Binary(Op::kEq, j, I(4)), true) == V{0, 9, 4, 4});
  CHECK(narrowed(Binary(Op::kNe, j, I(4)), false) == V{0, 9, 4, 4});
  CHECK(narrowed(Binary(Op::kEq, j, I(4)), false) == V{0, 9, 0, 9});
  const ExprPtr both = Binary(Op::kAnd, Binary(Op::kLt, i, I(5)), Binary(Op::kLt, I(1), j));
  CHECK(narrowed(both, true) == V{0, 4, 2, 9});
  CHECK(narrowed(both, false) == V{0, 9, 0, 9});
  CHECK(narrowed(Unary(Op::kNot, both), false) == V{0, 4, 2, 9});
  CHECK(narrowed(Binary(Op::kLt, i, j), true) == V{0, 9, 0, 9});
}

}  // namespace
}  // namespace warpsmith::graph
