// Pooling: reduces over a window beside each output element. Bounds are only tested where the
// window can leave the tensor.
#include <algorithm>
#include <limits>
#include <utility>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::Binary;
using graph::Cast;
using graph::Combiner;
using graph::DType;
using graph::ExprPtr;
using graph::Load;
using graph::Op;

// Windows over the last dimensions of a tensor; those before are the batch.
struct Windows {
  int self;
  Shape in, out;  // whole shapes
  size_t batch;   // dimensions before the pooled ones
  std::vector<int64_t> kernel, stride, padding, dilation;
};

// A list of one number is for all dimensions, an empty one is the fallback.
std::vector<int64_t> Spread(std::vector<int64_t> list, const std::vector<int64_t>& fallback) {
  if (list.empty()) return fallback;
  if (list.size() == 1) return std::vector<int64_t>(fallback.size(), list[0]);
  return list;
}

Windows WindowsOf(const Lowering& l, size_t rank) {
  Windows w;
  w.self = l.Tensor("self");
  w.in = l.ShapeOf(w.self);
  w.out = l.Out().shape;
  w.batch = w.in.size() - rank;
  w.kernel = Spread(l.Ints("kernel_size"), std::vector<int64_t>(rank, 1));
  w.stride = Spread(l.Ints("stride"), w.kernel);
  w.padding = Spread(l.Ints("padding"), std::vector<int64_t>(rank, 0));
  w.dilation = Spread(l.Ints("dilation"), std::vector<int64_t>(rank, 1));
  return w;
}

// Where in the tensor element `k` of the window of output element `o` lies, along one dimension.
ExprPtr Position(const Windows& w, size_t dim, const ExprPtr& o, const ExprPtr& k) {
  return Sub(Add(Mul(o, I(w.stride[dim])), Mul(k, I(w.dilation[dim]))), I(w.padding[dim]));
}

// The element, or `outside` where the window is beyond the tensor.
ExprPtr Element(Lowering& l, const Windows& w, DType type, const Exprs& at, const Exprs& in,
                double outside) {
  Exprs indexes(at.begin(), at.begin() + w.batch);
  ExprPtr inside;
  for (size_t dim = 0; dim < w.kernel.size(); ++dim) {
    const ExprPtr position = Position(w, dim, at[w.batch + dim], in[dim]);
    const int64_t extent = w.in[w.batch + dim];
    const int64_t last = (w.out[w.batch + dim] - 1) * w.stride[dim] +
                         (w.kernel[dim] - 1) * w.dilation[dim] - w.padding[dim];
    if (w.padding[dim] > 0) inside = And(inside, LessEqual(I(0), position));
    if (last >= extent) inside = And(inside, Less(position, I(extent)));
    indexes.push_back(position);
  }
  const ExprPtr element = Cast(type, Load(l.graph, w.self, indexes));
  if (inside == nullptr) return element;
  return graph::Select(inside, element, Literal(type, outside));
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
      ExprPtr position = Position(w, dim, at[w.batch + dim], k);
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
            const Windows w = WindowsOf(l, rank);
            const DType type = l.Out().type;
            if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
            const bool indexed = l.Used(1);
            const int value = l.AddWindow(
                l.Name(), indexed ? Combiner::kArgMax : Combiner::kMax, w.out,
                [&] {
                  Shape window(w.kernel.begin(), w.kernel.end());
                  return window;
                }(),
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

// How many elements a window counts along one dimension: those of the tensor, with the padding if
// that is included, but never what a rounded-up output size adds beyond it.
ExprPtr Counted(const Windows& w, size_t dim, const ExprPtr& o, bool include_padding) {
  const int64_t extent = w.in[w.batch + dim], padding = w.padding[dim];
  const int64_t last_end = (w.out[w.batch + dim] - 1) * w.stride[dim] - padding + w.kernel[dim];
  const int64_t limit = extent + (include_padding ? padding : 0);
  ExprPtr begin = Sub(Mul(o, I(w.stride[dim])), I(padding));
  ExprPtr end = Add(begin, I(w.kernel[dim]));
  const bool cut_behind = last_end > limit;
  const bool cut_before = padding > 0 && !include_padding;
  if (!cut_behind && !cut_before) return I(w.kernel[dim]);
  if (cut_behind) end = Binary(Op::kMin, end, I(limit));
  if (cut_before) begin = Binary(Op::kMax, begin, I(0));
  return Sub(end, begin);
}

Operator AvgPool(size_t rank) {
  return {"self:t kernel_size:i* stride:i*? padding:i*? count_include_pad:b divisor_override:i?",
          [rank](Lowering& l) {
            const Windows w = WindowsOf(l, rank);
            const DType type = OpMath(l.Out().type);
            if (!graph::IsFloat(type)) return l.Unsupported("integers are not supported");
            const int sum = l.AddWindow(
                l.Name("sum"), Combiner::kSum, w.out, w.kernel,
                [&](const Exprs& at, const Exprs& in) { return Element(l, w, type, at, in, 0); });
            l.Bind(l.AddMap(l.Name(), w.out, [&](const Exprs& at) {
              ExprPtr count = I(1);
              if (l.Has("divisor_override")) {
                count = I(l.Int("divisor_override"));
              } else {
                for (size_t dim = 0; dim < rank; ++dim) {
                  count =
                      Mul(count, Counted(w, dim, at[w.batch + dim], l.Bool("count_include_pad")));
                }
              }
              return Cast(l.Out().type, Div(Load(l.graph, sum, at), Cast(type, count)));
            }));
            return absl::OkStatus();
          }};
}

// Output element o averages the elements from floor(o * I / O) to ceil((o + 1) * I / O).
Operator AdaptiveAvgPool(size_t rank) {
  return {"self:t", [rank](Lowering& l) {
            const int self = l.Tensor("self");
            const Shape in = l.ShapeOf(self), out = l.Out().shape;
            const size_t batch = in.size() - rank;
            const DType type = OpMath(l.Out().type);
            const auto begin = [&](size_t dim, const ExprPtr& o) {
              return Div(Mul(o, I(in[dim])), I(out[dim]));
            };
            const auto end = [&](size_t dim, const ExprPtr& o) {
              return Div(Add(Mul(Add(o, I(1)), I(in[dim])), I(out[dim] - 1)), I(out[dim]));
            };
            Shape window;
            for (size_t dim = batch; dim < in.size(); ++dim) {
              int64_t widest = 1;
              for (int64_t o = 0; o < out[dim]; ++o) {
                const int64_t from = o * in[dim] / out[dim];
                const int64_t to = ((o + 1) * in[dim] + out[dim] - 1) / out[dim];
                widest = std::max(widest, to - from);
              }
              window.push_back(widest);
            }
            const auto even = [&](size_t dim) { return in[dim] % out[dim] == 0; };
            const int sum = l.AddWindow(
                l.Name("sum"), Combiner::kSum, out, window, [&](const Exprs& at, const Exprs& k) {
                  Exprs indexes(at.begin(), at.begin() + batch);
                  ExprPtr inside;
                  for (size_t dim = batch; dim < in.size(); ++dim) {
                    if (even(dim)) {
                      indexes.push_back(Add(Mul(at[dim], I(in[dim] / out[dim])), k[dim - batch]));
                      continue;
                    }
                    const ExprPtr index = Add(begin(dim, at[dim]), k[dim - batch]);
                    inside = And(inside, Less(index, end(dim, at[dim])));
                    indexes.push_back(index);
                  }
                  const ExprPtr element = Cast(type, Load(l.graph, self, indexes));
                  if (inside == nullptr) return element;
                  return graph::Select(inside, element, Literal(type, 0));
                });
            l.Bind(l.AddMap(l.Name(), out, [&](const Exprs& at) {
              ExprPtr count = I(1);
              for (size_t dim = batch; dim < in.size(); ++dim) {
                const ExprPtr here =
                    even(dim) ? I(in[dim] / out[dim]) : Sub(end(dim, at[dim]), begin(dim, at[dim]));
                count = Mul(count, here);
              }
              return Cast(l.Out().type, Div(Load(l.graph, sum, at), Cast(type, count)));
            }));
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
      {"aten.adaptive_avg_pool1d.default", AdaptiveAvgPool(1)},
      {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool(2)},
      {"aten._adaptive_avg_pool3d.default", AdaptiveAvgPool(3)},
  };
  return *kTable;
}

}  // namespace warpsmith::import
