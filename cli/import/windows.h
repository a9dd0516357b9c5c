// Windows of pooling, forwards and backwards, and of convolutions.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/import/lowering.h"

namespace warpsmith::import {

// Windows of one size over the last dimensions of a tensor; those before are the batch.
struct Windows {
  Shape in, out;  // whole shapes: of what is pooled, and of a value for each window
  size_t batch;   // dimensions before the pooled ones
  std::vector<int64_t> kernel, stride, padding, dilation;  // of the pooled ones
};
// As kernel_size, stride, padding and dilation say; `rank` dimensions are pooled.
Windows WindowsOf(const Lowering& l, const Shape& in, const Shape& out, size_t rank);

// A place along one dimension, and the least and the greatest that it is.
struct Place {
  graph::ExprPtr at;
  int64_t least = 0, greatest = 0;
};
// Where element k, one of `kernel`, of the window at o, one of `windows`, lies.
Place PlaceOf(const graph::ExprPtr& o, int64_t windows, int64_t stride, const graph::ExprPtr& k,
              int64_t kernel, int64_t dilation, int64_t padding);
// An element of a tensor, with the places of its last dimensions behind `at`; `outside` where one
// of them is beyond it, which is only tested where it may be.
graph::ExprPtr Padded(const Lowering& l, int tensor, graph::DType type, Exprs at,
                      const std::vector<Place>& places, double outside);

// What an average over the window at `o`, an index for each pooled dimension, is divided by:
// divisor_override, or the elements counted, which are those of the tensor, with the padding if
// count_include_pad, but never what a rounded-up output size adds beyond it.
graph::ExprPtr DivisorOf(const Lowering& l, const Windows& w, const Exprs& o);

// Element o of `to` belongs to the elements from floor(o * from / to) to ceil((o + 1) * from / to)
// along each of the last `rank` dimensions. So the elements of `to` that element i of `from`
// belongs to are the windows of the two the other way round.
struct AdaptiveWindows {
  AdaptiveWindows(const Shape& from, const Shape& to, size_t rank);

  Shape from, to;
  size_t batch;
  Shape widest;  // window, for each pooled dimension

  // Of window element `k` of the element `at` of `to`, an index for each of the pooled dimensions:
  // where it lies in `from`, and whether it is in the window (null: always).
  Exprs At(const Exprs& at, const Exprs& k) const;
  graph::ExprPtr Inside(const Exprs& at, const Exprs& k) const;
  // Elements of the window.
  graph::ExprPtr Count(const Exprs& at) const;

 private:
  bool Even(size_t dim) const { return from[dim] % to[dim] == 0; }
  graph::ExprPtr Begin(size_t dim, const graph::ExprPtr& o) const;
  graph::ExprPtr End(size_t dim, const graph::ExprPtr& o) const;
};

}  // namespace warpsmith::import
