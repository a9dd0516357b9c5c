// Resizing without interpolation: each element is that of a place in the input.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::DType;
using graph::ExprPtr;

// Where element `o` of `out` elements comes from, of `in`: floor(o * scale), which PyTorch computes
// in f32.
class Source {
 public:
  // factor: how much larger, where that was said.
  Source(int64_t in, int64_t out, std::optional<double> factor) : in_(in), out_(out) {
    scale_ = factor.has_value() ? static_cast<float>(1 / *factor)
                                : static_cast<float>(in) / static_cast<float>(out);
  }

  ExprPtr At(const ExprPtr& o) const {
    if (Whole()) return in_ == out_ ? o : Div(Mul(o, I(in_)), I(out_));
    const ExprPtr place = Mul(graph::Cast(DType::kF32, o), Literal(DType::kF32, scale_));
    const ExprPtr index = graph::Cast(DType::kI64, graph::Unary(graph::Op::kFloor, place));
    return graph::Binary(graph::Op::kMin, index, I(in_ - 1));
  }

 private:
  // Whether whole numbers give the same everywhere.
  bool Whole() const {
    if (out_ > kLargest) return false;
    for (int64_t o = 0; o < out_; ++o) {
      const auto place = static_cast<int64_t>(std::floor(static_cast<float>(o) * scale_));
      if (std::min(place, in_ - 1) != o * in_ / out_) return false;
    }
    return true;
  }

  static constexpr int64_t kLargest = 1 << 20;
  int64_t in_, out_;
  float scale_;
};

absl::Status Nearest(Lowering& l) {
  const int self = l.Tensor("input");
  const Shape in = l.ShapeOf(self), out = l.Out().shape;
  std::vector<Source> sources;
  for (const size_t dim : {size_t{2}, size_t{3}}) {
    std::optional<double> factor;
    if (l.Has("scale_factors")) factor = l.Numbers("scale_factors")[dim - 2];
    sources.emplace_back(in[dim], out[dim], factor);
  }
  l.Bind(l.AddMap(l.Name(), out, [&](const Exprs& at) {
    return graph::Load(l.graph, self, {at[0], at[1], sources[0].At(at[2]), sources[1].At(at[3])});
  }));
  return absl::OkStatus();
}

}  // namespace

// Other ranks and ways of resizing are taken apart by PyTorch.
const OperatorTable& ResizeOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.upsample_nearest2d.vec", {"input:t scale_factors:n*?", Nearest}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
