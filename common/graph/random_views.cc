#include "common/graph/random_views.h"

#include <algorithm>
#include <numeric>

namespace warpsmith::graph {
namespace {

ExprPtr Add(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kAdd, a, b); }
ExprPtr Sub(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kSub, a, b); }
ExprPtr Mul(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kMul, a, b); }

}  // namespace

Value RandomViews::View(const Value& x) {
  switch (dice_.Below(9)) {
    case 0:
      return Permute(x);
    case 1:
      return Slice(x);
    case 2:
      return Flip(x);
    case 3:
      return Pad(x);
    case 4:
      return Concat(x);
    case 5:
      return Reshape(x);
    case 6:
      return Expand(x);
    case 7:
      return Triangle(x);
    default:
      return Roll(x);
  }
}

Value RandomViews::Moved(const Value& x, const Shape& shape, std::vector<ExprPtr> indexes) {
  const ExprPtr load = Load(graph_, x.tensor, std::move(indexes));
  return Map(shape, {load, x.limit, x.exact});
}

Value RandomViews::Permute(const Value& x) {
  const Shape from = ShapeOf(x);
  std::vector<int> order(from.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice_.Below(i)]);
  Shape shape;
  std::vector<ExprPtr> indexes(from.size());
  for (size_t a = 0; a < order.size(); ++a) {
    shape.push_back(from[order[a]]);
    indexes[order[a]] = Index(static_cast<int>(a));
  }
  return Moved(x, shape, indexes);
}

Value RandomViews::Change(const Value& x, const AxisChange& change) {
  Shape shape = ShapeOf(x);
  std::vector<ExprPtr> indexes = Variables(0, shape.size());
  shape[change.axis] = change.extent;
  indexes[change.axis] = change.index;
  return Moved(x, shape, indexes);
}

Value RandomViews::Slice(const Value& x) {
  if (ShapeOf(x).empty()) return Expand(x);
  const size_t axis = dice_.Below(ShapeOf(x).size());
  const int64_t extent = ShapeOf(x)[axis], step = dice_.Between(1, 3);
  const int64_t first = dice_.Below(extent);
  const int64_t length = dice_.Between(1, (extent - first - 1) / step + 1);
  const ExprPtr i = Index(static_cast<int>(axis));
  return Change(x, {axis, length, Add(Mul(i, I(step)), I(first))});
}

Value RandomViews::Flip(const Value& x) {
  if (ShapeOf(x).empty()) return Expand(x);
  const size_t axis = dice_.Below(ShapeOf(x).size());
  const int64_t extent = ShapeOf(x)[axis];
  return Change(x, {axis, extent, Sub(I(extent - 1), Index(static_cast<int>(axis)))});
}

Value RandomViews::Roll(const Value& x) {
  if (ShapeOf(x).empty()) return Expand(x);
  const size_t axis = dice_.Below(ShapeOf(x).size());
  const int64_t extent = ShapeOf(x)[axis];
  const ExprPtr moved = Add(Index(static_cast<int>(axis)), I(dice_.Below(extent)));
  return Change(x, {axis, extent, Binary(Op::kMod, moved, I(extent))});
}

Value RandomViews::Pad(const Value& x) {
  Shape shape = ShapeOf(x);
  if (shape.empty() || Product(shape) * 2 > options_.max_elements) return Flip(x);
  const size_t axis = dice_.Below(shape.size());
  const int64_t extent = shape[axis], before = dice_.Below(3), after = dice_.Below(3);
  std::vector<ExprPtr> indexes = Variables(0, shape.size());
  const ExprPtr i = Sub(indexes[axis], I(before));
  indexes[axis] = i;
  shape[axis] = extent + before + after;
  const ExprPtr inside = Binary(Op::kAnd, Binary(Op::kLe, I(0), i), Binary(Op::kLt, i, I(extent)));
  const ExprPtr load = Load(graph_, x.tensor, indexes);
  const ExprPtr zero = IsFloat(load->type) ? Const(load->type, 0) : ConstInt(load->type, 0);
  return Map(shape, {Select(inside, load, zero), x.limit, x.exact});
}

Value RandomViews::Triangle(const Value& x) {
  const Shape& shape = ShapeOf(x);
  if (shape.size() < 2) return Pad(x);
  const std::vector<ExprPtr> indexes = Variables(0, shape.size());
  const ExprPtr row = Add(indexes[shape.size() - 2], I(dice_.Between(0, 2)));
  const ExprPtr load = Load(graph_, x.tensor, indexes);
  const ExprPtr zero = IsFloat(load->type) ? Const(load->type, 0) : ConstInt(load->type, 0);
  return Map(shape, {Select(Binary(Op::kLe, indexes.back(), row), load, zero), x.limit, x.exact});
}

Value RandomViews::Concat(const Value& x) {
  Shape shape = ShapeOf(x);
  if (shape.empty() || Product(shape) * 3 > options_.max_elements) return Permute(x);
  const size_t axis = dice_.Below(shape.size());
  Shape theirs = shape;
  theirs[axis] = dice_.Between(1, shape[axis] + 1);
  const Value other = NewInput(theirs, TypeOf(x));
  std::vector<ExprPtr> indexes = Variables(0, shape.size()), shifted = indexes;
  const ExprPtr i = indexes[axis];
  shifted[axis] = Sub(i, I(shape[axis]));
  const ExprPtr joined = Select(Binary(Op::kLt, i, I(shape[axis])), Load(graph_, x.tensor, indexes),
                                Load(graph_, other.tensor, shifted));
  shape[axis] += theirs[axis];
  return Map(shape, {joined, std::max(x.limit, other.limit), x.exact});
}

Value RandomViews::Reshape(const Value& x) {
  const Shape from = ShapeOf(x);
  Shape to = from;
  if (to.size() >= 2 && dice_.OneIn(2)) {
    const size_t a = dice_.Below(to.size() - 1);
    to[a] *= to[a + 1];
    to.erase(to.begin() + a + 1);
  } else if (!to.empty()) {
    const size_t a = dice_.Below(to.size());
    int64_t part = dice_.Between(1, std::min<int64_t>(to[a], 16));
    while (to[a] % part != 0) --part;
    to[a] /= part;
    to.insert(to.begin() + a + 1, part);
  }
  ExprPtr linear = I(0);
  for (size_t a = 0; a < to.size(); ++a) {
    linear = Add(Mul(linear, I(to[a])), Index(static_cast<int>(a)));
  }
  std::vector<ExprPtr> indexes(from.size());
  int64_t stride = 1;
  for (size_t a = from.size(); a-- > 0;) {
    indexes[a] = Binary(Op::kDiv, linear, I(stride));
    if (a > 0) indexes[a] = Binary(Op::kMod, indexes[a], I(from[a]));
    stride *= from[a];
  }
  return Moved(x, to, indexes);
}

Value RandomViews::Expand(const Value& x) {
  Shape shape = ShapeOf(x);
  const int64_t room = options_.max_elements / Product(shape);
  const int64_t extent = dice_.Between(1, std::clamp<int64_t>(room, 1, 8));
  const size_t at = dice_.Below(shape.size() + 1);
  std::vector<ExprPtr> indexes = Variables(0, shape.size() + 1);
  indexes.erase(indexes.begin() + at);
  shape.insert(shape.begin() + at, extent);
  return Moved(x, shape, indexes);
}

}  // namespace warpsmith::graph
