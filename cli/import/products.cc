// Products of matrices and vectors. Factors of f16 and bf16 are multiplied and summed in f32 and
// rounded once, with what is added, as the libraries behind PyTorch do.
#include <utility>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::Cast;
using graph::DType;
using graph::ExprPtr;

// Sums of integers below 32 bits wrap alike in 32.
DType SumType(DType out) { return graph::IsNarrow(out) ? DType::kI32 : OpMath(out); }

// sum[k](a[..] * b[..]) over `out` and K, with places in either factor by those of the result and
// k.
using Places = std::function<Exprs(const Exprs& at, const ExprPtr& k)>;
int Sum(Lowering& l, int a, int b, int64_t depth, std::string name, const Places& in_a,
        const Places& in_b) {
  const DType type = SumType(l.Out().type);
  return l.AddWindow(std::move(name), graph::Combiner::kSum, l.Out().shape, {depth},
                     [&](const Exprs& at, const Exprs& in) {
                       return Mul(Cast(type, Load(l.graph, a, in_a(at, in[0]))),
                                  Cast(type, Load(l.graph, b, in_b(at, in[0]))));
                     });
}

// A product of two factors by the names of their arguments, the last two axes of which are a
// matrix' (rank 3: with a batch before), or the last one a vector's. With `added`: beta times that,
// and alpha times the product.
struct Form {
  const char* a;
  const char* b;
  const char* added = nullptr;
};

absl::Status Multiply(Lowering& l, const Form& form) {
  const int a = l.Tensor(form.a), b = l.Tensor(form.b);
  const size_t rank_a = l.ShapeOf(a).size(), rank_b = l.ShapeOf(b).size();
  const DType out = l.Out().type, type = SumType(out);
  const int64_t depth = l.ShapeOf(a).back();
  const bool ends = form.added == nullptr && type == out;
  const Places in_a = [rank_a](const Exprs& at, const ExprPtr& k) {
    Exprs place(at.begin(), at.begin() + (rank_a - 1));
    place.push_back(k);
    return place;
  };
  const Places in_b = [rank_b](const Exprs& at, const ExprPtr& k) {
    Exprs place(at.begin(), at.begin() + (rank_b > 2 ? rank_b - 2 : 0));
    place.push_back(k);
    if (rank_b > 1) place.push_back(at.back());
    return place;
  };
  const int sum = Sum(l, a, b, depth, l.Name(ends ? "" : "sum"), in_a, in_b);
  if (ends) {
    l.Bind(sum);
    return absl::OkStatus();
  }
  const double alpha = l.Has("alpha") ? l.Number("alpha") : 1;
  const double beta = l.Has("beta") ? l.Number("beta") : 1;
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    ExprPtr value = Load(l.graph, sum, at);
    if (alpha != 1) value = Mul(Literal(type, alpha), value);
    // Nothing times what is added leaves out its infinities and NaN.
    if (form.added != nullptr && beta != 0) {
      ExprPtr added = Cast(type, l.LoadBroadcast(l.Tensor(form.added), at));
      if (beta != 1) added = Mul(Literal(type, beta), added);
      value = Add(added, value);
    }
    return Cast(out, value);
  }));
  return absl::OkStatus();
}

// Of bytes, summed in i32. Sums of so few products that fp32 holds each exactly are made in fp32,
// which tensor cores have; longer ones are cut.
absl::Status MultiplyBytes(Lowering& l) {
  constexpr int64_t kExactDepth = (int64_t{1} << 24) / (128 * 128);
  const int a = l.Tensor("self"), b = l.Tensor("mat2");
  const int64_t depth = l.ShapeOf(a).back();
  std::vector<int> sums;
  for (int64_t from = 0; from < depth; from += kExactDepth) {
    const int64_t length = std::min(kExactDepth, depth - from);
    sums.push_back(l.AddWindow(l.FreeName(l.Name("sum")), graph::Combiner::kSum, l.Out().shape,
                               {length}, [&](const Exprs& at, const Exprs& in) {
                                 const ExprPtr k = from == 0 ? in[0] : Add(in[0], I(from));
                                 return Mul(Cast(DType::kF32, Load(l.graph, a, {at[0], k})),
                                            Cast(DType::kF32, Load(l.graph, b, {k, at[1]})));
                               }));
  }
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    ExprPtr value = Cast(DType::kI32, Load(l.graph, sums[0], at));
    for (size_t s = 1; s < sums.size(); ++s)
      value = Add(value, Cast(DType::kI32, Load(l.graph, sums[s], at)));
    return value;
  }));
  return absl::OkStatus();
}

Operator Product(const char* arguments, Form form) {
  return {arguments, [form](Lowering& l) { return Multiply(l, form); }};
}

}  // namespace

const OperatorTable& ProductOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten._int_mm.default", {"self:t mat2:t", MultiplyBytes}},
      {"aten.addmm.default",
       Product("self:t mat1:t mat2:t beta:n? alpha:n?", {"mat1", "mat2", "self"})},
      {"aten.addmv.default",
       Product("self:t mat:t vec:t beta:n? alpha:n?", {"mat", "vec", "self"})},
      {"aten.bmm.default", Product("self:t mat2:t", {"self", "mat2"})},
      {"aten.mm.default", Product("self:t mat2:t", {"self", "mat2"})},
  };
  return *kTable;
}

}  // namespace warpsmith::import
