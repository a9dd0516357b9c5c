// Pooling: reduces over a window beside each output element. Bounds are only tested where the
// window can leave the tensor.
#include <algorithm>
#include <limits>
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

Place PlaceIn(const Windows& w, size_t dim, const ExprPtr& o, const ExprPtr& k) {
  return PlaceOf(o, w.out[w.batch + dim], w.stride[dim], k, w.kernel[dim], w.dilation[dim],
                 w.padding[dim]);
}

// The element, or `outside` where the window is beyond the tensor.
ExprPtr Element(Lowering& l, const Windows& w, DType type, const Exprs& at, const Exprs& in,
                double outside) {
  std::vector<Place> places;
  for (size_t dim = 0; dim < w.kernel.size(); ++dim)
    places.push_back(PlaceIn(w, dim, at[w.batch + dim], in[dim]));
  return Padded(l, l.Tensor("self"), type,
                Exprs(at.begin(), at.begin() + static_cast<long>(w.batch)), places, outside);
}

// ---- maximum --------------------------------------------------------------------------------

// PyTorch's index is the position in the plane (or volume) of the input; the reduce gives that in
// the window. Where all of a window is -inf that is its first place, which may lie in the padding:
// PyTorch's is the first one within the tensor.
int PlaneIndex(Lowering& l, const Windows& w, int window_index) {
  return l.AddMap(l.Name("index"), w.out, [&](const Exprs& at) {
    const ExprPtr linear = Load(l.graph, window_index, at);
    ExprPtr index = I(0);
    int64_t stride = Product(w.kernel);
    for (size_t dim = 0; dim < w.kernel.size(); ++dim) {
      stride /= w.kernel[dim];
      const ExprPtr k = w.kernel[dim] == 1 ? I(0) : Mod(Div(linear, I(stride)), I(w.kernel[dim]));
      const int64_t step = w.dilation[dim];
      ExprPtr position = PlaceIn(w, dim, at[w.batch + dim], k).at;
      if (w.padding[dim] > 0 && step == 1) position = Binary(Op::kMax, position, I(0));
      if (w.padding[dim] > 0 && step > 1) {
        position = graph::Select(Less(position, I(0)), Mod(position, I(step)), position);
      }
      index = Add(Mul(index, I(w.in[w.batch + dim])), position);
    }
    return index;
  });
}

Operator MaxPool(size_t rank) {
  return {"self:t kernel_size:i* stride:i*? padding:i*? dilation:i*?", [rank](Lowering& l) {
            const Windows w = WindowsOf(l, l.ShapeOf(l.Tensor("self")), l.Out().shape, rank);
            const DType type = l.Out().type;
            if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
            const bool indexed = l.Used(1);
            const int value = l.AddWindow(
                l.Name(), indexed ? Combiner::kArgMax : Combiner::kMax, w.out, w.kernel,
                [&](const Exprs& at, const Exprs& in) {
                  return Element(l, w, type, at, in, -std::numeric_limits<double>::infinity());
                },
                indexed ? l.Name("place") : "");
            l.Bind(value);
            if (indexed) l.Bind(PlaneIndex(l, w, value + 1), 1);
            return absl::OkStatus();
          }};
}

// ---- average --------------------------------------------------------------------------------

Operator AvgPool(size_t rank) {
  return {"self:t kernel_size:i* stride:i*? padding:i*? count_include_pad:b divisor_override:i?",
          [rank](Lowering& l) {
            const Windows w = WindowsOf(l, l.ShapeOf(l.Tensor("self")), l.Out().shape, rank);
            const DType type = OpMath(l.Out().type);
            if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
            const int sum = l.AddWindow(
                l.Name("sum"), Combiner::kSum, w.out, w.kernel,
                [&](const Exprs& at, const Exprs& in) { return Element(l, w, type, at, in, 0); });
            l.Bind(l.AddMap(l.Name(), w.out, [&](const Exprs& at) {
              const Exprs window(at.begin() + static_cast<long>(w.batch), at.end());
              return Cast(l.Out().type,
                          Div(Load(l.graph, sum, at), Cast(type, DivisorOf(l, w, window))));
            }));
            return absl::OkStatus();
          }};
}

// ---- adaptive -------------------------------------------------------------------------------

Operator AdaptiveAvgPool(size_t rank) {
  return {"self:t", [rank](Lowering& l) {
            const int self = l.Tensor("self");
            const AdaptiveWindows w(l.ShapeOf(self), l.Out().shape, rank);
            const DType type = OpMath(l.Out().type);
            const int sum = l.AddWindow(l.Name("sum"), Combiner::kSum, w.to, w.widest,
                                        [&](const Exprs& at, const Exprs& k) {
                                          const ExprPtr element =
                                              Cast(type, Load(l.graph, self, w.At(at, k)));
                                          const ExprPtr inside = w.Inside(at, k);
                                          if (inside == nullptr) return element;
                                          return graph::Select(inside, element, Literal(type, 0));
                                        });
            l.Bind(l.AddMap(l.Name(), w.to, [&](const Exprs& at) {
              return Cast(l.Out().type, Div(Load(l.graph, sum, at), Cast(type, w.Count(at))));
            }));
            return absl::OkStatus();
          }};
}

// With the position of the largest in the plane (or volume).
Operator AdaptiveMaxPool(size_t rank) {
  return {"self:t", [rank](Lowering& l) {
            const int self = l.Tensor("self");
            const AdaptiveWindows w(l.ShapeOf(self), l.Out().shape, rank);
            const DType type = l.Out().type;
            if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
            const int value = l.AddWindow(
                l.Name(), l.Used(1) ? Combiner::kArgMax : Combiner::kMax, w.to, w.widest,
                [&](const Exprs& at, const Exprs& k) {
                  const ExprPtr element = Load(l.graph, self, w.At(at, k));
                  const ExprPtr inside = w.Inside(at, k);
                  if (inside == nullptr) return element;
                  return graph::Select(inside, element,
                                       Literal(type, -std::numeric_limits<double>::infinity()));
                },
                l.Used(1) ? l.Name("place") : "");
            l.Bind(value);
            if (!l.Used(1)) return absl::OkStatus();
            l.Bind(l.AddMap(l.Name("index"), w.to,
                            [&](const Exprs& at) {
                              ExprPtr place = Load(l.graph, value + 1, at);
                              Exprs k(rank);
                              for (size_t dim = rank; dim-- > 0;) {
                                k[dim] = Mod(place, I(w.widest[dim]));
                                place = Div(place, I(w.widest[dim]));
                              }
                              const Exprs from = w.At(at, k);
                              ExprPtr index = I(0);
                              for (size_t dim = w.batch; dim < from.size(); ++dim) {
                                index = Add(Mul(index, I(w.from[dim])), from[dim]);
                              }
                              return index;
                            }),
                   1);
            return absl::OkStatus();
          }};
}

}  // namespace

const OperatorTable& PoolingOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.max_pool2d_with_indices.default", MaxPool(2)},
      {"aten.max_pool3d_with_indices.default", MaxPool(3)},
      {"aten.avg_pool1d.default", AvgPool(1)},
      {"aten.avg_pool2d.default", AvgPool(2)},
      {"aten.avg_pool3d.default", AvgPool(3)},
      {"aten.adaptive_max_pool2d.default", AdaptiveMaxPool(2)},
      {"aten.adaptive_max_pool3d.default", AdaptiveMaxPool(3)},
      {"aten.adaptive_avg_pool1d.default", AdaptiveAvgPool(1)},
      {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool(2)},
      {"aten._adaptive_avg_pool3d.default", AdaptiveAvgPool(3)},
  };
  return *kTable;
}

}  // namespace warpsmith::import
