// Operators that move elements and compute nothing. Each is a map whose value is one load; those
// that move nothing bind their output to the operand itself.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/import/lowering.h"
#include "common/base/check.h"

namespace warpsmith::import {
namespace {

using graph::ExprPtr;
using graph::Load;

absl::Status Same(Lowering& l) {
  l.Bind(l.Tensor("self"));
  return absl::OkStatus();
}

// Binds the output to elements of `self`, at indexes that are a function of the output's; where the
// view is the identity, to `self`.
absl::Status Viewed(Lowering& l, const std::function<Exprs(const Exprs&)>& source) {
  const int self = l.Tensor("self");
  l.Bind(l.AddMap(l.Name(), l.Out().shape,
                  [&](const Exprs& at) { return Load(l.graph, self, source(at)); }));
  return absl::OkStatus();
}

// Indexes into `from` of the element at `at` of the same elements shaped `to`. The shapes are
// matched piece by piece, each as small as possible, so that dimensions that a reshape leaves alone
// keep their index, and only what is split or joined is divided or multiplied.
Exprs Reshaped(const Shape& from, const Shape& to, const Exprs& at) {
  Exprs indexes(from.size(), I(0));
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t from_begin = i, to_begin = j;
    int64_t from_size = i < from.size() ? from[i++] : 1;
    int64_t to_size = j < to.size() ? to[j++] : 1;
    while (from_size != to_size) {
      if (from_size < to_size) {
        WS_CHECK(i < from.size(), "a view of another size");
        from_size *= from[i++];
      } else {
        WS_CHECK(j < to.size(), "a view of another size");
        to_size *= to[j++];
      }
    }
    ExprPtr linear = I(0);
    for (size_t k = to_begin; k < j; ++k) linear = Add(Mul(linear, I(to[k])), at[k]);
    int64_t stride = 1;
    bool first = true;  // the last dimension that has more than one element
    for (size_t k = i; k-- > from_begin;) {
      if (from[k] == 1) continue;
      const bool outermost = stride * from[k] == from_size;
      ExprPtr index = first ? linear : Div(linear, I(stride));
      indexes[k] = outermost ? index : Mod(index, I(from[k]));
      stride *= from[k];
      first = false;
    }
  }
  return indexes;
}

absl::Status View(Lowering& l) {
  const Shape& from = l.ShapeOf(l.Tensor("self"));
  const Shape& to = l.Out().shape;
  if (from == to) return Same(l);
  return Viewed(l, [&](const Exprs& at) { return Reshaped(from, to, at); });
}

absl::Status Permute(Lowering& l) {
  const std::vector<int64_t> dims = l.Ints("dims");
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes(at.size());
    for (int k = 0; k < dims.size(); ++k) indexes[Wrap(dims[k], dims.size())] = at[k];
    return indexes;
  });
}

absl::Status Transpose(Lowering& l) {
  const int64_t rank = l.Out().shape.size();
  const int64_t a = Wrap(l.Int("dim0"), rank), b = Wrap(l.Int("dim1"), rank);
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes = at;
    if (rank > 0) std::swap(indexes[a], indexes[b]);
    return indexes;
  });
}

absl::Status Expand(Lowering& l) {
  if (l.ShapeOf(l.Tensor("self")) == l.Out().shape) return Same(l);
  l.Bind(l.AddMap(l.Name(), l.Out().shape,
                  [&](const Exprs& at) { return l.LoadBroadcast(l.Tensor("self"), at); }));
  return absl::OkStatus();
}

absl::Status Repeat(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  return Viewed(l, [&](const Exprs& at) {
    const size_t skip = at.size() - shape.size();
    Exprs indexes;
    for (int dim = 0; dim < shape.size(); ++dim)
      indexes.push_back(Mod(at[skip + dim], I(shape[dim])));
    return indexes;
  });
}

// One element of a dimension, which goes.
absl::Status SelectInt(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const int64_t dim = Wrap(l.Int("dim"), shape.size());
  const int64_t index = Wrap(l.Int("index"), shape[dim]);
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes = at;
    indexes.insert(indexes.begin() + dim, I(index));
    return indexes;
  });
}

// Part of a dimension: start + step * index.
absl::Status Part(Lowering& l, int64_t dim, int64_t start, int64_t step, int output,
                  const std::string& name) {
  const int self = l.Tensor("self");
  const Shape& to = l.Out(output).shape;
  if (to == l.ShapeOf(self)) {
    l.Bind(self, output);
    return absl::OkStatus();
  }
  l.Bind(l.AddMap(name, to,
                  [&](const Exprs& at) {
                    Exprs indexes = at;
                    indexes[dim] = Add(Mul(indexes[dim], I(step)), I(start));
                    return Load(l.graph, self, indexes);
                  }),
         output);
  return absl::OkStatus();
}

absl::Status Slice(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const int64_t dim = l.Has("dim") ? Wrap(l.Int("dim"), shape.size()) : 0;
  int64_t start = l.Has("start") ? l.Int("start") : 0;
  if (start < 0) start += shape[dim];
  start = std::clamp<int64_t>(start, 0, shape[dim]);
  return Part(l, dim, start, l.Has("step") ? l.Int("step") : 1, 0, l.Name());
}

absl::Status Split(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const int64_t dim = l.Has("dim") ? Wrap(l.Int("dim"), shape.size()) : 0;
  int64_t start = 0;
  int output = 0;
  for (int64_t size : l.Ints("split_sizes")) {
    if (l.Used(output)) {
      const absl::Status status = Part(l, dim, start, 1, output, l.Name(absl::StrCat(output)));
      if (!status.ok()) return status;
    }
    start += size;
    ++output;
  }
  return absl::OkStatus();
}

absl::Status Flip(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const std::vector<int64_t> dims = l.Ints("dims");
  if (dims.empty()) return Same(l);
  const std::vector<bool> flipped = Marked(dims, shape.size());
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes = at;
    for (int dim = 0; dim < shape.size(); ++dim) {
      if (flipped[dim]) indexes[dim] = Sub(I(shape[dim] - 1), at[dim]);
    }
    return indexes;
  });
}

absl::Status Roll(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const std::vector<int64_t> shifts = l.Ints("shifts"), dims = l.Ints("dims");
  if (dims.size() != shifts.size()) return l.Unsupported("without dims is not supported");
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes = at;
    for (int k = 0; k < dims.size(); ++k) {
      const int64_t dim = Wrap(dims[k], shape.size());
      const int64_t shift = ((shifts[k] % shape[dim]) + shape[dim]) % shape[dim];
      indexes[dim] = Mod(Add(indexes[dim], I(shape[dim] - shift)), I(shape[dim]));
    }
    return indexes;
  });
}

// What lies on a diagonal of two dimensions, as a last one.
absl::Status Diagonal(Lowering& l) {
  const int64_t rank = l.ShapeOf(l.Tensor("self")).size();
  const int64_t offset = l.Has("offset") ? l.Int("offset") : 0;
  const int64_t row = Wrap(l.Has("dim1") ? l.Int("dim1") : 0, rank);
  const int64_t column = Wrap(l.Has("dim2") ? l.Int("dim2") : 1, rank);
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes(rank);
    size_t next = 0;
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (dim != row && dim != column) indexes[dim] = at[next++];
    }
    indexes[row] = Add(at.back(), I(std::max<int64_t>(-offset, 0)));
    indexes[column] = Add(at.back(), I(std::max<int64_t>(offset, 0)));
    return indexes;
  });
}

absl::Status Unfold(Lowering& l) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const int64_t dim = Wrap(l.Int("dimension"), shape.size());
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes(at.begin(), at.end() - 1);
    if (!indexes.empty()) indexes[dim] = Add(Mul(indexes[dim], I(l.Int("step"))), at.back());
    return indexes;
  });
}

absl::Status Cat(Lowering& l) {
  const Meta& out = l.Out();
  std::vector<int> parts;
  for (int tensor : l.Tensors("tensors")) {
    if (tensor != kEmpty) parts.push_back(tensor);  // what is empty counts for nothing
  }
  const int64_t dim = Wrap(l.Has("dim") ? l.Int("dim") : 0, out.shape.size());
  if (parts.size() == 1 && l.ShapeOf(parts[0]) == out.shape && l.TypeOf(parts[0]) == out.type) {
    l.Bind(parts[0]);
    return absl::OkStatus();
  }
  l.Bind(l.AddMap(l.Name(), out.shape, [&](const Exprs& at) {
    // select(i < end of the first, first, select(i < end of the second, ...)), from the inside
    int64_t end = out.shape[dim];
    ExprPtr value;
    for (size_t k = parts.size(); k-- > 0;) {
      const int64_t begin = end - l.ShapeOf(parts[k])[dim];
      Exprs indexes = at;
      indexes[dim] = Sub(at[dim], I(begin));
      ExprPtr part = graph::Cast(out.type, Load(l.graph, parts[k], indexes));
      value = value == nullptr ? part : graph::Select(Less(at[dim], I(end)), part, value);
      end = begin;
    }
    return value;
  }));
  return absl::OkStatus();
}

// ---- padding --------------------------------------------------------------------------------

// Elements in front of each dimension and behind it, from PyTorch's list, last dimension first.
// Negative ones cut.
struct Padding {
  std::vector<int64_t> before, after;
};
Padding PaddingOf(const std::vector<int64_t>& pad, size_t rank) {
  Padding padding{std::vector<int64_t>(rank), std::vector<int64_t>(rank)};
  for (size_t k = 0; k + 1 < pad.size() && k / 2 < rank; k += 2) {
    padding.before[rank - 1 - k / 2] = pad[k];
    padding.after[rank - 1 - k / 2] = pad[k + 1];
  }
  return padding;
}

absl::Status ConstantPad(Lowering& l) {
  const int self = l.Tensor("self");
  const Shape& shape = l.ShapeOf(self);
  const Padding padding = PaddingOf(l.Ints("pad"), shape.size());
  if (shape == l.Out().shape) {
    const bool moved =
        std::any_of(padding.before.begin(), padding.before.end(), [](int64_t n) { return n != 0; });
    if (!moved) return Same(l);
  }
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    Exprs indexes;
    ExprPtr inside;
    for (int dim = 0; dim < shape.size(); ++dim) {
      const ExprPtr index = Sub(at[dim], I(padding.before[dim]));
      if (padding.before[dim] > 0) inside = And(inside, LessEqual(I(0), index));
      if (padding.after[dim] > 0) inside = And(inside, Less(index, I(shape[dim])));
      indexes.push_back(index);
    }
    const ExprPtr element = Load(l.graph, self, indexes);
    if (inside == nullptr) return element;
    return graph::Select(inside, element, l.Operand("value", l.Out().type, at));
  }));
  return absl::OkStatus();
}

// Indexes beyond the ends are brought back: to the end itself, or mirrored at it.
absl::Status EdgePad(Lowering& l, bool mirrored) {
  const Shape& shape = l.ShapeOf(l.Tensor("self"));
  const Padding padding = PaddingOf(l.Ints("padding"), shape.size());
  return Viewed(l, [&](const Exprs& at) {
    Exprs indexes;
    for (int dim = 0; dim < shape.size(); ++dim) {
      ExprPtr index = Sub(at[dim], I(padding.before[dim]));
      const ExprPtr last = I(shape[dim] - 1);
      if (mirrored && padding.before[dim] > 0) index = Unary(graph::Op::kAbs, index);
      if (mirrored && padding.after[dim] > 0) {
        index = Sub(last, Unary(graph::Op::kAbs, Sub(last, index)));
      }
      if (!mirrored && padding.before[dim] > 0) index = Binary(graph::Op::kMax, index, I(0));
      if (!mirrored && padding.after[dim] > 0) index = Binary(graph::Op::kMin, index, last);
      indexes.push_back(index);
    }
    return indexes;
  });
}
absl::Status ReflectionPad(Lowering& l) { return EdgePad(l, /*mirrored=*/true); }
absl::Status ReplicationPad(Lowering& l) { return EdgePad(l, /*mirrored=*/false); }

// Not an operation on data: PyTorch checked it when it exported, or what is checked of the data is
// what forward's caller has to see to.
absl::Status Nothing(Lowering&) { return absl::OkStatus(); }

OperatorTable Build() {
  OperatorTable table;
  for (const char* name : {"clone", "alias", "detach", "lift_fresh_copy"}) {
    table[std::string("aten.") + name + ".default"] = {"self:t", Same};
  }
  for (const char* name : {"view.default", "_unsafe_view.default", "reshape.default",
                           "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims"}) {
    table[std::string("aten.") + name] = {"self:t", View};
  }
  table["aten.permute.default"] = {"self:t dims:i*", Permute};
  table["aten.transpose.int"] = {"self:t dim0:i dim1:i", Transpose};
  table["aten.expand.default"] = {"self:t", Expand};
  table["aten.repeat.default"] = {"self:t", Repeat};
  table["aten.select.int"] = {"self:t dim:i index:i", SelectInt};
  table["aten.slice.Tensor"] = {"self:t dim:i? start:i? step:i?", Slice};
  table["aten.split_with_sizes.default"] = {"self:t split_sizes:i* dim:i?", Split};
  table["aten.flip.default"] = {"self:t dims:i*", Flip};
  table["aten.roll.default"] = {"self:t shifts:i* dims:i*?", Roll};
  table["aten.unfold.default"] = {"self:t dimension:i size:i step:i", Unfold};
  table["aten.cat.default"] = {"tensors:e* dim:i?", Cat};
  table["aten.constant_pad_nd.default"] = {"self:t pad:i* value:n", ConstantPad};
  for (const char* rank : {"1d", "2d", "3d"}) {
    table[absl::StrCat("aten.reflection_pad", rank, ".default")] = {"self:t padding:i*",
                                                                    ReflectionPad};
    table[absl::StrCat("aten.replication_pad", rank, ".default")] = {"self:t padding:i*",
                                                                     ReplicationPad};
  }
  table["aten.diagonal.default"] = {"self:t offset:i? dim1:i? dim2:i?", Diagonal};
  table["aten._assert_tensor_metadata.default"] = {"", Nothing};
  table["aten._assert_async.msg"] = {"", Nothing};
  return table;
}

}  // namespace

const OperatorTable& ViewOperators() {
  static const auto* const kTable = new OperatorTable(Build());
  return *kTable;
}

}  // namespace warpsmith::import
