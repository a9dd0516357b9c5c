#include "cli/import/windows.h"

#include <algorithm>
#include <utility>

namespace warpsmith::import {
namespace {

using graph::Binary;
using graph::ExprPtr;
using graph::Op;

// A list of one number is for all dimensions, an empty one is the fallback.
std::vector<int64_t> Spread(std::vector<int64_t> list, const std::vector<int64_t>& fallback) {
  if (list.empty()) return fallback;
  if (list.size() == 1) return std::vector<int64_t>(fallback.size(), list[0]);
  return list;
}

// How many elements a window counts along one dimension.
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

}  // namespace

Windows WindowsOf(const Lowering& l, const Shape& in, const Shape& out, size_t rank) {
  Windows w;
  w.in = in;
  w.out = out;
  w.batch = in.size() - rank;
  w.kernel = Spread(l.Ints("kernel_size"), std::vector<int64_t>(rank, 1));
  w.stride = Spread(l.Ints("stride"), w.kernel);
  w.padding = Spread(l.Ints("padding"), std::vector<int64_t>(rank, 0));
  w.dilation = Spread(l.Ints("dilation"), std::vector<int64_t>(rank, 1));
  return w;
}

Place PlaceOf(const ExprPtr& o, int64_t windows, int64_t stride, const ExprPtr& k, int64_t kernel,
              int64_t dilation, int64_t padding) {
  return {Sub(Add(Mul(o, I(stride)), Mul(k, I(dilation))), I(padding)), -padding,
          (windows - 1) * stride + (kernel - 1) * dilation - padding};
}

ExprPtr Padded(const Lowering& l, int tensor, graph::DType type, Exprs at,
               const std::vector<Place>& places, double outside) {
  ExprPtr inside;
  for (const Place& place : places) {
    const int64_t extent = l.ShapeOf(tensor)[at.size()];
    if (place.least < 0) inside = And(inside, LessEqual(I(0), place.at));
    if (place.greatest >= extent) inside = And(inside, Less(place.at, I(extent)));
    at.push_back(place.at);
  }
  const ExprPtr element = graph::Cast(type, graph::Load(l.graph, tensor, std::move(at)));
  return inside == nullptr ? element : graph::Select(inside, element, Literal(type, outside));
}

ExprPtr DivisorOf(const Lowering& l, const Windows& w, const Exprs& o) {
  if (l.Has("divisor_override")) return I(l.Int("divisor_override"));
  ExprPtr count = I(1);
  for (size_t dim = 0; dim < o.size(); ++dim) {
    count = Mul(count, Counted(w, dim, o[dim], l.Bool("count_include_pad")));
  }
  return count;
}

AdaptiveWindows::AdaptiveWindows(const Shape& from, const Shape& to, size_t rank)
    : from(from), to(to), batch(from.size() - rank) {
  for (size_t dim = batch; dim < from.size(); ++dim) {
    int64_t most = 1;
    for (int64_t o = 0; o < to[dim]; ++o) {
      const int64_t begin = o * from[dim] / to[dim];
      const int64_t end = ((o + 1) * from[dim] + to[dim] - 1) / to[dim];
      most = std::max(most, end - begin);
    }
    widest.push_back(most);
  }
}

ExprPtr AdaptiveWindows::Begin(size_t dim, const ExprPtr& o) const {
  return Div(Mul(o, I(from[dim])), I(to[dim]));
}

ExprPtr AdaptiveWindows::End(size_t dim, const ExprPtr& o) const {
  return Div(Add(Mul(Add(o, I(1)), I(from[dim])), I(to[dim] - 1)), I(to[dim]));
}

Exprs AdaptiveWindows::At(const Exprs& at, const Exprs& k) const {
  Exprs indexes(at.begin(), at.begin() + static_cast<long>(batch));
  for (size_t dim = batch; dim < from.size(); ++dim) {
    const ExprPtr begin = Even(dim) ? Mul(at[dim], I(from[dim] / to[dim])) : Begin(dim, at[dim]);
    indexes.push_back(Add(begin, k[dim - batch]));
  }
  return indexes;
}

ExprPtr AdaptiveWindows::Inside(const Exprs& at, const Exprs& k) const {
  const Exprs indexes = At(at, k);
  ExprPtr inside;
  for (size_t dim = batch; dim < from.size(); ++dim) {
    if (!Even(dim)) inside = And(inside, Less(indexes[dim], End(dim, at[dim])));
  }
  return inside;
}

ExprPtr AdaptiveWindows::Count(const Exprs& at) const {
  ExprPtr count = I(1);
  for (size_t dim = batch; dim < from.size(); ++dim) {
    count = Mul(count,
                Even(dim) ? I(from[dim] / to[dim]) : Sub(End(dim, at[dim]), Begin(dim, at[dim])));
  }
  return count;
}

}  // namespace warpsmith::import
