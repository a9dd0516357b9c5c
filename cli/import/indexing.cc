// Operators that read at indexes found in other tensors.
#include <algorithm>
#include <utility>

#include "cli/import/lowering.h"

namespace warpsmith::import {
namespace {

using graph::DType;
using graph::ExprPtr;
using graph::Load;

ExprPtr AsIndex(ExprPtr e) { return graph::Cast(DType::kI64, std::move(e)); }

// self[..., index[i], ...]
absl::Status Gather(Lowering& l) {
  const int self = l.Tensor("self"), index = l.Tensor("index");
  const int64_t dim = Wrap(l.Int("dim"), l.ShapeOf(self).size());
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    Exprs indexes = at;
    const ExprPtr found = AsIndex(Load(l.graph, index, at));
    if (!indexes.empty()) indexes[dim] = found;
    return Load(l.graph, self, indexes);
  }));
  return absl::OkStatus();
}

absl::Status IndexSelect(Lowering& l) {
  const int self = l.Tensor("self"), index = l.Tensor("index");
  if (l.ShapeOf(self).empty() || l.ShapeOf(index).size() != 1) {
    return l.Unsupported("scalars are not supported");
  }
  const int64_t dim = Wrap(l.Int("dim"), l.ShapeOf(self).size());
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    Exprs indexes = at;
    indexes[dim] = AsIndex(Load(l.graph, index, {at[dim]}));
    return Load(l.graph, self, indexes);
  }));
  return absl::OkStatus();
}

absl::Status Embedding(Lowering& l) {
  const int weight = l.Tensor("weight"), indices = l.Tensor("indices");
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const ExprPtr row = AsIndex(Load(l.graph, indices, Exprs(at.begin(), at.end() - 1)));
    return Load(l.graph, weight, {row, at.back()});
  }));
  return absl::OkStatus();
}

// The index tensors of self[a, :, b]: they broadcast with each other; their dimensions take the
// place of the first one if they stand together, and go to the front otherwise.
struct Indexes {
  std::vector<int> tensors;  // for each dimension of self, as far as given; -1: all of it
  Shape broadcast;           // what they broadcast to
  size_t place = 0;          // where these dimensions are among those of the elements

  // The index into dimension `dim` of self, at an element of `broadcast`. Negative ones count from
  // the end.
  ExprPtr At(const Lowering& l, int dim, const Exprs& at) const {
    const ExprPtr index = AsIndex(l.LoadBroadcast(tensors[dim], at));
    const int64_t extent = l.ShapeOf(l.Tensor("self"))[dim];
    return graph::Select(Less(index, I(0)), Add(index, I(extent)), index);
  }
};

absl::StatusOr<Indexes> GivenIndexes(const Lowering& l) {
  Indexes given;
  given.tensors = l.Tensors("indices");
  int first = -1, last = -1, count = 0;
  for (int dim = 0; dim < given.tensors.size(); ++dim) {
    const int tensor = given.tensors[dim];
    if (tensor < 0) continue;
    if (!graph::IsInteger(l.TypeOf(tensor))) return l.Unsupported("masks are not supported");
    if (first < 0) first = dim;
    last = dim;
    ++count;
    const Shape& shape = l.ShapeOf(tensor);
    if (shape.size() > given.broadcast.size()) {
      given.broadcast.insert(given.broadcast.begin(), shape.size() - given.broadcast.size(), 1);
    }
    const size_t skip = given.broadcast.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      given.broadcast[skip + d] = std::max(given.broadcast[skip + d], shape[d]);
    }
  }
  if (count == 0) return l.Unsupported("without an index is not supported");
  given.place = last - first + 1 == count ? first : 0;
  return given;
}

absl::Status IndexTensor(Lowering& l) {
  const int self = l.Tensor("self");
  const Shape& shape = l.ShapeOf(self);
  const auto given = GivenIndexes(l);
  if (!given.ok()) return given.status();
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const auto begin = at.begin() + given->place, end = begin + given->broadcast.size();
    const Exprs gathered(begin, end);
    Exprs others(at.begin(), begin);
    others.insert(others.end(), end, at.end());
    Exprs indexes;
    size_t next = 0;
    for (int dim = 0; dim < shape.size(); ++dim) {
      const bool is_given = dim < given->tensors.size() && given->tensors[dim] >= 0;
      indexes.push_back(is_given ? given->At(l, dim, gathered) : others[next++]);
    }
    return Load(l.graph, self, indexes);
  }));
  return absl::OkStatus();
}

// A copy of self with part of a dimension taken from src.
absl::Status SliceScatter(Lowering& l) {
  const int self = l.Tensor("self"), src = l.Tensor("src");
  const Shape& shape = l.ShapeOf(self);
  const int64_t dim = l.Has("dim") ? Wrap(l.Int("dim"), shape.size()) : 0;
  const int64_t step = l.Has("step") ? l.Int("step") : 1;
  int64_t start = l.Has("start") ? l.Int("start") : 0;
  if (start < 0) start += shape[dim];
  start = std::clamp<int64_t>(start, 0, shape[dim]);
  const int64_t count = l.ShapeOf(src)[dim];
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const ExprPtr offset = Sub(at[dim], I(start));
    ExprPtr within = And(LessEqual(I(0), offset), Less(offset, I(count * step)));
    if (step != 1) within = And(within, Binary(graph::Op::kEq, Mod(offset, I(step)), I(0)));
    Exprs indexes = at;
    indexes[dim] = step == 1 ? offset : Div(offset, I(step));
    return graph::Select(within, graph::Cast(l.Out().type, Load(l.graph, src, indexes)),
                         Load(l.graph, self, at));
  }));
  return absl::OkStatus();
}

absl::Status SelectScatter(Lowering& l) {
  const int self = l.Tensor("self"), src = l.Tensor("src");
  const Shape& shape = l.ShapeOf(self);
  const int64_t dim = Wrap(l.Int("dim"), shape.size());
  const int64_t index = Wrap(l.Int("index"), shape[dim]);
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    Exprs indexes = at;
    indexes.erase(indexes.begin() + dim);
    return graph::Select(Binary(graph::Op::kEq, at[dim], I(index)),
                         graph::Cast(l.Out().type, Load(l.graph, src, indexes)),
                         Load(l.graph, self, at));
  }));
  return absl::OkStatus();
}

// ---- writes at indexes ----------------------------------------------------------------------

// The last of `candidates` for each element of `shape`, as a linear position among them, that
// `hits`; -1 where none does. PyTorch leaves open which of several writes to a place stays; on the
// processor it is the last.
int LastHit(Lowering& l, const Shape& shape, const Shape& candidates,
            const std::function<ExprPtr(const Exprs& at, const Exprs& candidate)>& hits) {
  return l.AddWindow(l.Name("last"), graph::Combiner::kMax, shape, candidates,
                     [&](const Exprs& at, const Exprs& candidate) {
                       ExprPtr linear = I(0);
                       for (size_t dim = 0; dim < candidate.size(); ++dim) {
                         linear = Add(Mul(linear, I(candidates[dim])), candidate[dim]);
                       }
                       return graph::Select(hits(at, candidate), linear, I(-1));
                     });
}

// Indexes into `shape` of the element at a linear position.
Exprs Unravelled(ExprPtr linear, const Shape& shape) {
  Exprs indexes(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    indexes[dim] = dim == 0 ? linear : Mod(linear, I(shape[dim]));
    linear = Div(linear, I(shape[dim]));
  }
  return indexes;
}

// self[:, mask] = values, which are the same wherever the mask is true.
absl::Status MaskPut(Lowering& l, size_t first, int mask) {
  const int self = l.Tensor("self"), values = l.Tensor("values");
  const size_t rank = l.ShapeOf(self).size(), masked = l.ShapeOf(mask).size();
  const Shape& shape = l.ShapeOf(values);
  // The places that are masked are one dimension of the values, behind those before the mask.
  const size_t behind = rank - first - masked;
  if (shape.size() > behind && (shape.size() > behind + 1 || shape[0] != 1)) {
    return l.Unsupported("a value for each place that a mask has is not supported");
  }
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const auto begin = at.begin() + static_cast<long>(first);
    const auto end = begin + static_cast<long>(masked);
    Exprs from(end, at.end());
    if (shape.size() > behind) from.insert(from.begin(), I(0));
    return graph::Select(Load(l.graph, mask, Exprs(begin, end)),
                         graph::Cast(l.Out().type, l.LoadBroadcast(values, from)),
                         Load(l.graph, self, at));
  }));
  return absl::OkStatus();
}

// self[a, :, b] = values, the other way round from index.Tensor.
absl::Status IndexPut(Lowering& l) {
  const int self = l.Tensor("self"), values = l.Tensor("values");
  if (l.Has("accumulate") && l.Bool("accumulate")) {
    return l.Unsupported("with accumulate is not supported");
  }
  const std::vector<int> tensors = l.Tensors("indices");
  for (size_t dim = 0; dim < tensors.size(); ++dim) {
    if (tensors[dim] < 0) continue;
    if (dim + 1 == tensors.size() && l.TypeOf(tensors[dim]) == DType::kBool) {
      return MaskPut(l, dim, tensors[dim]);
    }
    break;
  }
  const Shape shape = l.ShapeOf(self);
  const auto given = GivenIndexes(l);
  if (!given.ok()) return given.status();
  Shape indexed;  // the extents of self that are indexed
  std::vector<int> dims;
  for (int dim = 0; dim < given->tensors.size(); ++dim) {
    if (given->tensors[dim] < 0) continue;
    indexed.push_back(shape[dim]);
    dims.push_back(dim);
  }
  const int last = LastHit(l, indexed, given->broadcast, [&](const Exprs& at, const Exprs& from) {
    ExprPtr hit;
    for (size_t k = 0; k < dims.size(); ++k) {
      const ExprPtr index = given->At(l, dims[k], from);
      hit = And(hit, Binary(graph::Op::kEq, index, at[k]));
    }
    return hit;
  });
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    Exprs place, others;
    for (int dim = 0; dim < shape.size(); ++dim) {
      const bool is_indexed = std::find(dims.begin(), dims.end(), dim) != dims.end();
      (is_indexed ? place : others).push_back(at[dim]);
    }
    const ExprPtr found = Load(l.graph, last, place);
    Exprs from = Unravelled(found, given->broadcast);
    from.insert(from.end(), others.begin() + given->place, others.end());
    from.insert(from.begin(), others.begin(), others.begin() + given->place);
    return graph::Select(LessEqual(I(0), found),
                         graph::Cast(l.Out().type, l.LoadBroadcast(values, from)),
                         Load(l.graph, self, at));
  }));
  return absl::OkStatus();
}

// self[..., index[i], ...] = src[i]; src may be a number.
absl::Status Scatter(Lowering& l) {
  const int self = l.Tensor("self"), index = l.Tensor("index");
  const Shape shape = l.ShapeOf(self), from = l.ShapeOf(index);
  if (shape.empty()) return l.Unsupported("scalars are not supported");
  const int64_t dim = Wrap(l.Int("dim"), shape.size());
  const bool is_number = !l.Has("src");
  const int last = LastHit(l, shape, {from[dim]}, [&](const Exprs& at, const Exprs& candidate) {
    Exprs source = at;
    source[dim] = candidate[0];
    ExprPtr inside;
    for (int d = 0; d < shape.size(); ++d) {
      if (d != dim && from[d] < shape[d]) inside = And(inside, Less(at[d], I(from[d])));
    }
    const ExprPtr hit = Binary(graph::Op::kEq, AsIndex(Load(l.graph, index, source)), at[dim]);
    return And(inside, hit);
  });
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const ExprPtr found = Load(l.graph, last, at);
    Exprs source = at;
    source[dim] = found;
    const ExprPtr value =
        is_number ? l.Operand("value", l.Out().type, at) : Load(l.graph, l.Tensor("src"), source);
    return graph::Select(LessEqual(I(0), found), value, Load(l.graph, self, at));
  }));
  return absl::OkStatus();
}

}  // namespace

const OperatorTable& IndexingOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.gather.default", {"self:t dim:i index:t", Gather}},
      {"aten.index_select.default", {"self:t dim:i index:t", IndexSelect}},
      {"aten.embedding.default", {"weight:t indices:t", Embedding}},
      {"aten.index.Tensor", {"self:t indices:t*?", IndexTensor}},
      {"aten.slice_scatter.default", {"self:t src:t dim:i? start:i? step:i?", SliceScatter}},
      {"aten.index_put.default", {"self:t indices:t*? values:t accumulate:b?", IndexPut}},
      {"aten.scatter.src", {"self:t dim:i index:t src:t", Scatter}},
      {"aten.scatter.value", {"self:t dim:i index:t value:n", Scatter}},
      {"aten.select_scatter.default", {"self:t src:t dim:i index:i", SelectScatter}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
