// Backward passes of pooling. Each element of the input gathers from the windows that it lies in,
// in their order, instead of windows adding to elements.
#include <utility>

#include "cli/import/lowering.h"
#include "cli/import/windows.h"

namespace warpsmith::import {
namespace {

using graph::Binary;
using graph::Cast;
using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Load;
using graph::Op;

// The windows that element `at` of what was pooled may lie in: `number` for each pooled dimension,
// from the last one that begins at or before it.
struct Around {
  explicit Around(Windows windows) : w(std::move(windows)) {
    for (size_t dim = 0; dim < w.kernel.size(); ++dim) {
      const int64_t reach = (w.kernel[dim] - 1) * w.dilation[dim] + 1;
      number.push_back((reach + w.stride[dim] - 1) / w.stride[dim]);
    }
  }

  // The window's index for each pooled dimension.
  Exprs At(const Exprs& at, const Exprs& k) const {
    Exprs o;
    for (size_t dim = 0; dim < number.size(); ++dim) {
      const ExprPtr padded = Add(at[w.batch + dim], I(w.padding[dim]));
      o.push_back(Sub(Div(padded, I(w.stride[dim])), k[dim]));
    }
    return o;
  }
  // Whether there is such a window that reaches the element.
  ExprPtr Reaches(const Exprs& at, const Exprs& o) const {
    ExprPtr reaches;
    for (size_t dim = 0; dim < number.size(); ++dim) {
      const ExprPtr padded = Add(at[w.batch + dim], I(w.padding[dim]));
      const int64_t reach = (w.kernel[dim] - 1) * w.dilation[dim] + 1;
      const ExprPtr distance = Sub(padded, Mul(o[dim], I(w.stride[dim])));
      reaches = And(reaches, And(LessEqual(I(0), o[dim]), Less(o[dim], I(w.out[w.batch + dim]))));
      reaches = And(reaches, Less(distance, I(reach)));
    }
    return reaches;
  }
  // Where the window's value lies.
  Exprs Place(const Exprs& at, const Exprs& o) const {
    Exprs place(at.begin(), at.begin() + static_cast<long>(w.batch));
    place.insert(place.end(), o.begin(), o.end());
    return place;
  }

  Windows w;
  Shape number;
};

// Sums over windows, rounded once.
absl::Status Gathered(Lowering& l, const Shape& windows,
                      const std::function<ExprPtr(const Exprs& at, const Exprs& k)>& element) {
  const int sum = l.AddWindow(l.Name("sum"), Combiner::kSum, l.Out().shape, windows, element);
  l.Bind(l.CastTensor(sum, l.Out().type, l.Name()));
  return absl::OkStatus();
}

Operator AvgPoolGradient(size_t rank) {
  return {
      "grad_output:t self:t kernel_size:i* stride:i*? padding:i*? count_include_pad:b "
      "divisor_override:i?",
      [rank](Lowering& l) {
        const int gradient = l.Tensor("grad_output");
        const Around around(WindowsOf(l, l.Out().shape, l.ShapeOf(gradient), rank));
        const DType type = OpMath(l.Out().type);
        return Gathered(l, around.number, [&](const Exprs& at, const Exprs& k) {
          const Exprs o = around.At(at, k);
          const ExprPtr value = Cast(type, Load(l.graph, gradient, around.Place(at, o)));
          return graph::Select(around.Reaches(at, o),
                               Div(value, Cast(type, DivisorOf(l, around.w, o))), Literal(type, 0));
        });
      }};
}

// The gradients of the windows whose largest element this is.
Operator MaxPoolGradient(size_t rank) {
  return {"grad_output:t self:t kernel_size:i* stride:i*? padding:i*? dilation:i*? indices:t",
          [rank](Lowering& l) {
            const int gradient = l.Tensor("grad_output"), indices = l.Tensor("indices");
            const Around around(WindowsOf(l, l.Out().shape, l.ShapeOf(gradient), rank));
            const Shape& shape = l.Out().shape;
            const DType type = OpMath(l.Out().type);
            return Gathered(l, around.number, [&](const Exprs& at, const Exprs& k) {
              const Exprs o = around.At(at, k), place = around.Place(at, o);
              ExprPtr here = I(0);
              for (size_t dim = around.w.batch; dim < shape.size(); ++dim) {
                here = Add(Mul(here, I(shape[dim])), at[dim]);
              }
              const ExprPtr largest =
                  Binary(Op::kEq, Cast(DType::kI64, Load(l.graph, indices, place)), here);
              return graph::Select(And(around.Reaches(at, o), largest),
                                   Cast(type, Load(l.graph, gradient, place)), Literal(type, 0));
            });
          }};
}

Operator AdaptiveAvgPoolGradient(size_t rank) {
  return {"grad_output:t self:t", [rank](Lowering& l) {
            const int gradient = l.Tensor("grad_output");
            const Shape& in = l.Out().shape;
            const AdaptiveWindows forwards(in, l.ShapeOf(gradient), rank);
            const AdaptiveWindows back(l.ShapeOf(gradient), in, rank);
            const DType type = OpMath(l.Out().type);
            return Gathered(l, back.widest, [&](const Exprs& at, const Exprs& k) {
              const Exprs o = back.At(at, k);
              const ExprPtr value =
                  Div(Cast(type, Load(l.graph, gradient, o)), Cast(type, forwards.Count(o)));
              const ExprPtr inside = back.Inside(at, k);
              return inside == nullptr ? value : graph::Select(inside, value, Literal(type, 0));
            });
          }};
}

}  // namespace

const OperatorTable& PoolingGradients() {
  static const auto* const kTable = new OperatorTable{
      {"aten.avg_pool2d_backward.default", AvgPoolGradient(2)},
      {"aten.avg_pool3d_backward.default", AvgPoolGradient(3)},
      {"aten.max_pool2d_with_indices_backward.default", MaxPoolGradient(2)},
      {"aten.max_pool3d_with_indices_backward.default", MaxPoolGradient(3)},
      {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolGradient(2)},
      {"aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolGradient(3)},
  };
  return *kTable;
}

}  // namespace warpsmith::import
