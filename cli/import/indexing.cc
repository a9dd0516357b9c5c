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

// self[a, :, b]: the index tensors broadcast with each other; their dimensions take the place of
// the first one if they stand together, and go to the front otherwise.
absl::Status IndexTensor(Lowering& l) {
  const int self = l.Tensor("self");
  const Shape& shape = l.ShapeOf(self);
  const std::vector<int> given = l.Tensors("indices");
  int first = -1, last = -1, count = 0;
  size_t broadcast_rank = 0;
  for (int dim = 0; dim < given.size(); ++dim) {
    if (given[dim] < 0) continue;
    if (!graph::IsInteger(l.TypeOf(given[dim]))) return l.Unsupported("masks are not supported");
    if (first < 0) first = dim;
    last = dim;
    ++count;
    broadcast_rank = std::max(broadcast_rank, l.ShapeOf(given[dim]).size());
  }
  if (count == 0) return l.Unsupported("without an index is not supported");
  const size_t place = last - first + 1 == count ? first : 0;
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const Exprs gathered(at.begin() + place, at.begin() + place + broadcast_rank);
    Exprs others(at.begin(), at.begin() + place);
    others.insert(others.end(), at.begin() + place + broadcast_rank, at.end());
    Exprs indexes;
    size_t next = 0;
    for (int dim = 0; dim < shape.size(); ++dim) {
      if (dim >= given.size() || given[dim] < 0) {
        indexes.push_back(others[next++]);
        continue;
      }
      const ExprPtr index = AsIndex(l.LoadBroadcast(given[dim], gathered));
      // Negative ones count from the end.
      indexes.push_back(graph::Select(Less(index, I(0)), Add(index, I(shape[dim])), index));
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

}  // namespace

const OperatorTable& IndexingOperators() {
  static const auto* const kTable = new OperatorTable{
      {"aten.gather.default", {"self:t dim:i index:t", Gather}},
      {"aten.index_select.default", {"self:t dim:i index:t", IndexSelect}},
      {"aten.embedding.default", {"weight:t indices:t", Embedding}},
      {"aten.index.Tensor", {"self:t indices:t*?", IndexTensor}},
      {"aten.slice_scatter.default", {"self:t src:t dim:i? start:i? step:i?", SliceScatter}},
      {"aten.select_scatter.default", {"self:t src:t dim:i index:i", SelectScatter}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
