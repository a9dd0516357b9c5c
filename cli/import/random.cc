// Operators that draw at random: each draw has a seed, and what is drawn is the graph's `random` of
// the seed and the element's place. python/warpsmith_torch/seeded.py says the same of PyTorch.
#include <cmath>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::DType;
using graph::ExprPtr;

constexpr double kNumbers = 0x1p24;  // that `random` gives

constexpr char kDropout[] = "aten.native_dropout.default";

// The row-major place of an element.
ExprPtr PlaceOf(const Shape& shape, const Exprs& at) {
  ExprPtr place = I(0);
  for (size_t dim = 0; dim < at.size(); ++dim) place = Add(Mul(place, I(shape[dim])), at[dim]);
  return place;
}

ExprPtr Bits(const ExprPtr& seed, const Shape& shape, const Exprs& at) {
  return graph::Binary(graph::Op::kRandom, seed, PlaceOf(shape, at));
}

// In (0, 1], in steps of 2^-24, of a place.
ExprPtr AboveZero(const ExprPtr& seed, const ExprPtr& place, DType type) {
  const ExprPtr bits = graph::Cast(type, graph::Binary(graph::Op::kRandom, seed, place));
  return Mul(Add(bits, Literal(type, 1)), Literal(type, 1 / kNumbers));
}

// In [0, 1), in steps of 2^-24.
ExprPtr Uniform(const ExprPtr& seed, const Shape& shape, const Exprs& at, DType type) {
  return Mul(graph::Cast(type, Bits(seed, shape, at)), Literal(type, 1 / kNumbers));
}

// Of draws, all but a share of `dropped`, 0 to 1.
ExprPtr IsKept(const ExprPtr& seed, const Shape& shape, const Exprs& at, double dropped) {
  return LessEqual(I(static_cast<int64_t>(std::ceil(dropped * kNumbers))), Bits(seed, shape, at));
}

// Values that are kept count for those that are not. The second output says which were.
absl::Status Dropout(Lowering& l) {
  const Meta& out = l.Out();
  const int input = l.Tensor("input");
  const double p = l.Number("p");
  const bool train = l.Has("train") && l.Bool("train");
  if (train && p >= 1) return l.Unsupported("to drop everything (p = 1) is not supported");
  const bool draws = train && p > 0;
  const ExprPtr seed = draws ? l.NextSeed() : nullptr;
  const DType type = OpMath(out.type);
  const auto kept = [&](const Exprs& at) {
    return draws ? IsKept(seed, out.shape, at, p) : graph::ConstInt(DType::kBool, 1);
  };
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    const ExprPtr x = graph::Load(l.graph, input, at);
    if (!draws) return x;
    const ExprPtr left = Mul(graph::Cast(type, x), graph::Cast(type, kept(at)));
    return graph::Cast(out.type, Mul(left, Literal(type, 1 / (1 - p))));
  }));
  if (l.Used(1)) l.Bind(l.AddMap(l.Name("kept"), out.shape, kept), 1);
  return absl::OkStatus();
}

// 1 with a probability; else 0.
absl::Status Bernoulli(Lowering& l) {
  const Meta& out = l.Out();
  const ExprPtr seed = l.NextSeed();
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    return graph::Cast(out.type, IsKept(seed, out.shape, at, 1 - l.Number("p")));
  }));
  return absl::OkStatus();
}

absl::Status Rand(Lowering& l) {
  const Meta& out = l.Out();
  if (out.type != DType::kF32 && out.type != DType::kF64)
    return l.Unsupported("of 16 bits is not supported; draw f32 and cast");
  const ExprPtr seed = l.NextSeed();
  l.Bind(l.AddMap(l.Name(), out.shape,
                  [&](const Exprs& at) { return Uniform(seed, out.shape, at, out.type); }));
  return absl::OkStatus();
}

// Box and Muller's: of two uniform numbers, those of places 2 i and 2 i + 1.
absl::Status Normal(Lowering& l) {
  const Meta& out = l.Out();
  const ExprPtr seed = l.NextSeed();
  const DType type = OpMath(out.type);
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    const ExprPtr place = Mul(PlaceOf(out.shape, at), I(2));
    const ExprPtr first = graph::Unary(graph::Op::kLog, AboveZero(seed, place, type));
    const ExprPtr second = AboveZero(seed, Add(place, I(1)), type);
    const ExprPtr radius = graph::Unary(graph::Op::kSqrt, Mul(first, Literal(type, -2)));
    const ExprPtr angle = Mul(second, Literal(type, 2 * M_PI));
    return graph::Cast(out.type, Mul(radius, graph::Unary(graph::Op::kCos, angle)));
  }));
  return absl::OkStatus();
}

absl::Status Exponential(Lowering& l) {
  const Meta& out = l.Out();
  const ExprPtr seed = l.NextSeed();
  const DType type = OpMath(out.type);
  const double rate = l.Has("lambd") ? l.Number("lambd") : 1;
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    const ExprPtr log =
        graph::Unary(graph::Op::kLog, AboveZero(seed, PlaceOf(out.shape, at), type));
    return graph::Cast(out.type, Div(log, Literal(type, -rate)));
  }));
  return absl::OkStatus();
}

}  // namespace

bool Draws(const AtenNode& node) {
  if (RandomOperators().count(node.op) == 0) return false;
  if (node.op != kDropout) return true;
  const auto p = node.args.find("p"), train = node.args.find("train");
  return p != node.args.end() && p->second.is_number() && p->second.get<double>() > 0 &&
         p->second.get<double>() < 1 && train != node.args.end() && train->second == true;
}

const OperatorTable& RandomOperators() {
  static const auto* const kTable = new OperatorTable{
      {kDropout, {"input:t p:n train:b?", Dropout}},
      {"aten.bernoulli.p", {"p:n", Bernoulli}},
      {"aten.rand.default", {"", Rand}},
      {"aten.rand_like.default", {"", Rand}},
      {"aten.randn.default", {"", Normal}},
      {"aten.randn_like.default", {"", Normal}},
      {"aten.exponential.default", {"self:t lambd:n?", Exponential}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
