// Operators that read at indexes found in other tensors.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Two values joined in the type that PyTorch computes in.
ExprPtr Joined(const Lowering& l, graph::Combiner combiner, ExprPtr self, ExprPtr value) {
  const DType type = l.Out().type, math = OpMath(type);
  const graph::Op op = combiner == graph::Combiner::kSum   ? graph::Op::kAdd
                       : combiner == graph::Combiner::kMax ? graph::Op::kMax
                                                           : graph::Op::kMin;
  return graph::Cast(
      type, Binary(op, graph::Cast(math, std::move(self)), graph::Cast(math, std::move(value))));
}

// self[:, mask] = values (or += values), which are the same wherever the mask is true.
absl::Status MaskPut(Lowering& l, size_t first, int mask, std::optional<graph::Combiner> combiner) {
  const int self = l.Tensor("self"), values = l.Tensor("values");
  const size_t rank = l.ShapeOf(self).size(), masked = l.ShapeOf(mask).size();
  const Shape& shape = l.ShapeOf(values);
  // The places that are masked are one dimension of the values, behind those before the mask.
  const size_t behind = rank - first - masked;
  if (shape.size() > behind && (shape.size() > behind + 1 || shape[0] != 1)) {
    return l.Unsupported("a value for each place that a mask has is not supported");
  }
  if (combiner && l.Out().type == DType::kBool) return l.Unsupported("of bools is not supported");
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const auto begin = at.begin() + static_cast<long>(first);
    const auto end = begin + static_cast<long>(masked);
    Exprs from(end, at.end());
    if (shape.size() > behind) from.insert(from.begin(), I(0));
    const ExprPtr before = Load(l.graph, self, at), value = l.LoadBroadcast(values, from);
    return graph::Select(
        Load(l.graph, mask, Exprs(begin, end)),
        combiner ? Joined(l, *combiner, before, value) : graph::Cast(l.Out().type, value), before);
  }));
  return absl::OkStatus();
}

// What no write has: it changes nothing that `combiner` joins it with.
ExprPtr Nothing(graph::Combiner combiner, DType type) {
  if (combiner == graph::Combiner::kSum) return Literal(type, 0);
  return Literal(
      type, (combiner == graph::Combiner::kMax ? -1 : 1) * std::numeric_limits<double>::infinity());
}

// self with what is written to its elements, each of which has candidates of a shape: those that
// `hits` are written, with `value`. The last of them stays, or `combiner` joins all of them with
// self: in an order of its own, and in the type that PyTorch computes in.
struct Writes {
  Shape places;      // the part of self's indexes that hits depend on
  Shape candidates;  // of each place
  std::function<Exprs(const Exprs& at)> place_of;
  std::function<ExprPtr(const Exprs& place, const Exprs& candidate)> hits;
  std::function<ExprPtr(const Exprs& at, const Exprs& candidate)> value;
};

void BindLast(Lowering& l, int self, const Writes& writes) {
  const int last = LastHit(l, writes.places, writes.candidates, writes.hits);
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    const ExprPtr found = Load(l.graph, last, writes.place_of(at));
    const ExprPtr value = writes.value(at, Unravelled(found, writes.candidates));
    return graph::Select(LessEqual(I(0), found), graph::Cast(l.Out().type, value),
                         Load(l.graph, self, at));
  }));
}

absl::Status BindWritten(Lowering& l, int self, std::optional<graph::Combiner> combiner,
                         const Writes& writes) {
  if (!combiner) {
    BindLast(l, self, writes);
    return absl::OkStatus();
  }
  if (l.Out().type == DType::kBool) return l.Unsupported("of bools is not supported");
  const DType math = OpMath(l.Out().type);
  const int joined =
      l.AddWindow(l.Name("written"), *combiner, l.Out().shape, writes.candidates,
                  [&](const Exprs& at, const Exprs& candidate) {
                    return graph::Select(writes.hits(writes.place_of(at), candidate),
                                         graph::Cast(math, writes.value(at, candidate)),
                                         Nothing(*combiner, math));
                  });
  l.Bind(l.AddMap(l.Name(), l.Out().shape, [&](const Exprs& at) {
    return Joined(l, *combiner, Load(l.graph, self, at), Load(l.graph, joined, at));
  }));
  return absl::OkStatus();
}

// self[a, :, b] = values, the other way round from index.Tensor; or += values.
absl::Status IndexPut(Lowering& l) {
  const int self = l.Tensor("self"), values = l.Tensor("values");
  const auto combiner = l.Has("accumulate") && l.Bool("accumulate")
                            ? std::optional(graph::Combiner::kSum)
                            : std::nullopt;
  const std::vector<int> tensors = l.Tensors("indices");
  for (size_t dim = 0; dim < tensors.size(); ++dim) {
    if (tensors[dim] < 0) continue;
    if (dim + 1 == tensors.size() && l.TypeOf(tensors[dim]) == DType::kBool) {
      return MaskPut(l, dim, tensors[dim], combiner);
    }
    break;
  }
  const Shape shape = l.ShapeOf(self);
  const auto given = GivenIndexes(l);
  if (!given.ok()) return given.status();
  Writes writes;
  std::vector<int> dims;  // of self, that are indexed
  for (int dim = 0; dim < given->tensors.size(); ++dim) {
    if (given->tensors[dim] < 0) continue;
    writes.places.push_back(shape[dim]);
    dims.push_back(dim);
  }
  writes.candidates = given->broadcast;
  writes.place_of = [&](const Exprs& at) {
    Exprs place;
    for (int dim : dims) place.push_back(at[dim]);
    return place;
  };
  writes.hits = [&](const Exprs& place, const Exprs& candidate) {
    ExprPtr hit;
    for (size_t k = 0; k < dims.size(); ++k) {
      hit = And(hit, Binary(graph::Op::kEq, given->At(l, dims[k], candidate), place[k]));
    }
    return hit;
  };
  writes.value = [&](const Exprs& at, const Exprs& candidate) {
    Exprs from;
    for (int dim = 0; dim < shape.size(); ++dim) {
      if (std::find(dims.begin(), dims.end(), dim) == dims.end()) from.push_back(at[dim]);
    }
    from.insert(from.begin() + static_cast<long>(given->place), candidate.begin(), candidate.end());
    return l.LoadBroadcast(values, from);
  };
  return BindWritten(l, self, combiner, writes);
}

// self[..., index[i], ...] = src[i], or joined with it by `combiner`; src may be a number.
absl::Status ScatterBy(Lowering& l, std::optional<graph::Combiner> combiner) {
  const int self = l.Tensor("self"), index = l.Tensor("index");
  const Shape shape = l.ShapeOf(self), from = l.ShapeOf(index);
  if (shape.empty()) return l.Unsupported("scalars are not supported");
  const int64_t dim = Wrap(l.Int("dim"), shape.size());
  const auto source_of = [dim](Exprs at, const Exprs& candidate) {
    at[dim] = candidate[0];
    return at;
  };
  Writes writes;
  writes.places = shape;
  writes.candidates = {from[dim]};
  writes.place_of = [](const Exprs& at) { return at; };
  writes.hits = [&](const Exprs& at, const Exprs& candidate) {
    ExprPtr inside;
    for (int d = 0; d < shape.size(); ++d) {
      if (d != dim && from[d] < shape[d]) inside = And(inside, Less(at[d], I(from[d])));
    }
    const ExprPtr found = AsIndex(Load(l.graph, index, source_of(at, candidate)));
    return And(inside, Binary(graph::Op::kEq, found, at[dim]));
  };
  writes.value = [&](const Exprs& at, const Exprs& candidate) {
    return l.Has("src") ? Load(l.graph, l.Tensor("src"), source_of(at, candidate))
                        : l.Operand("value", l.Out().type, at);
  };
  return BindWritten(l, self, combiner, writes);
}
absl::Status Scatter(Lowering& l) { return ScatterBy(l, std::nullopt); }
absl::Status ScatterAdd(Lowering& l) { return ScatterBy(l, graph::Combiner::kSum); }

absl::Status ScatterReduce(Lowering& l) {
  static const auto* const kCombiners = new std::map<std::string, graph::Combiner>{
      {"sum", graph::Combiner::kSum},
      {"amax", graph::Combiner::kMax},
      {"amin", graph::Combiner::kMin},
  };
  const auto found = kCombiners->find(l.String("reduce"));
  if (found == kCombiners->end())
    return l.Unsupported(absl::StrCat("reduce '", l.String("reduce"), "' is not supported"));
  if (l.Has("include_self") && !l.Bool("include_self"))
    return l.Unsupported("without self is not supported");
  if (found->second != graph::Combiner::kSum && !graph::IsFloat(l.Out().type))
    return l.Unsupported("the largest or least of integers is not supported");
  return ScatterBy(l, found->second);
}

// How many elements are put in order at the most: each is compared with each.
constexpr int64_t kMostRanked = 4096;

Exprs Replaced(Exprs at, int64_t dim, const ExprPtr& place) {
  at[dim] = place;
  return at;
}

// The place that each element has among all along a dimension, in order: of equal ones the first is
// before the others. Not of NaN, which PyTorch has as the largest.
absl::StatusOr<int> AddRank(Lowering& l, int self, int64_t dim, bool descending) {
  const Shape shape = l.ShapeOf(self);
  const int64_t extent = shape[dim];
  if (extent > kMostRanked)
    return l.Unsupported(absl::StrCat("of more than ", kMostRanked, " elements is not supported"));
  return l.AddWindow(l.Name("rank"), graph::Combiner::kSum, shape, {extent},
                     [&](const Exprs& at, const Exprs& other) {
                       const ExprPtr mine = Load(l.graph, self, at);
                       const ExprPtr theirs = Load(l.graph, self, Replaced(at, dim, other[0]));
                       const ExprPtr before = descending ? Less(mine, theirs) : Less(theirs, mine);
                       const ExprPtr earlier =
                           And(Binary(graph::Op::kEq, mine, theirs), Less(other[0], at[dim]));
                       return graph::Select(before, I(1), graph::Select(earlier, I(1), I(0)));
                     });
}

// Where the elements of some places in that order are along the dimension: a tensor of shape
// `taken`. place_of: where an element of these is of `self`, but for the dimension, and its place.
using PlaceOf = std::function<std::pair<Exprs, ExprPtr>(const Exprs& at)>;
absl::StatusOr<int> AddFound(Lowering& l, int self, int64_t dim, bool descending,
                             const Shape& taken, const PlaceOf& place_of) {
  const auto rank = AddRank(l, self, dim, descending);
  if (!rank.ok()) return rank.status();
  return l.AddWindow(l.Name("index"), graph::Combiner::kMax, taken, {l.ShapeOf(self)[dim]},
                     [&](const Exprs& at, const Exprs& candidate) {
                       const auto [of, place] = place_of(at);
                       const ExprPtr found = Load(l.graph, *rank, Replaced(of, dim, candidate[0]));
                       return graph::Select(Binary(graph::Op::kEq, found, place), candidate[0],
                                            I(0));
                     });
}

// Binds the elements at the indexes, and these.
void BindFound(Lowering& l, int self, int64_t dim, int index, const PlaceOf& place_of) {
  if (l.Used(0)) {
    l.Bind(l.AddMap(l.Name(), l.ShapeOf(index), [&](const Exprs& at) {
      return Load(l.graph, self, Replaced(place_of(at).first, dim, Load(l.graph, index, at)));
    }));
  }
  if (l.Used(1)) l.Bind(index, 1);
}

absl::Status BindRanked(Lowering& l, int self, int64_t dim, bool descending, const Shape& taken,
                        const PlaceOf& place_of) {
  const auto index = AddFound(l, self, dim, descending, taken, place_of);
  if (!index.ok()) return index.status();
  BindFound(l, self, dim, *index, place_of);
  return absl::OkStatus();
}

// The first k of a dimension that is in order, as PyTorch has them on a card where it is asked for
// no order: by their indexes, but those that equal the last of them behind the others.
int AddUnsorted(Lowering& l, int self, int64_t dim, int sorted) {
  const Shape shape = l.ShapeOf(sorted);
  const int64_t k = shape[dim], extent = l.ShapeOf(self)[dim];
  const auto value = [&](const Exprs& at) {
    return Load(l.graph, self, Replaced(at, dim, Load(l.graph, sorted, at)));
  };
  const int key = l.AddMap(l.Name("key"), shape, [&](const Exprs& at) {
    const ExprPtr last = Binary(graph::Op::kEq, value(at), value(Replaced(at, dim, I(k - 1))));
    return Add(Load(l.graph, sorted, at), graph::Select(last, I(extent), I(0)));
  });
  const int place = l.AddWindow(
      l.Name("place"), graph::Combiner::kSum, shape, {k}, [&](const Exprs& at, const Exprs& other) {
        const ExprPtr mine = Load(l.graph, key, at);
        const ExprPtr theirs = Load(l.graph, key, Replaced(at, dim, other[0]));
        return graph::Select(Less(theirs, mine), I(1), I(0));
      });
  return l.AddWindow(l.Name("unsorted"), graph::Combiner::kMax, shape, {k},
                     [&](const Exprs& at, const Exprs& other) {
                       const Exprs from = Replaced(at, dim, other[0]);
                       const ExprPtr here =
                           Binary(graph::Op::kEq, Load(l.graph, place, from), at[dim]);
                       return graph::Select(here, Load(l.graph, sorted, from), I(0));
                     });
}

// All in order, or the k largest or least.
absl::Status InOrder(Lowering& l, bool descending, bool sorted) {
  const int self = l.Tensor("self");
  const size_t rank = l.ShapeOf(self).size();
  if (rank == 0) return l.Unsupported("scalars are not supported");
  const int64_t dim = Wrap(l.Has("dim") ? l.Int("dim") : -1, rank);
  const PlaceOf place_of = [dim](const Exprs& at) { return std::pair(at, at[dim]); };
  const auto index = AddFound(l, self, dim, descending, l.Out(0).shape, place_of);
  if (!index.ok()) return index.status();
  BindFound(l, self, dim, sorted ? *index : AddUnsorted(l, self, dim, *index), place_of);
  return absl::OkStatus();
}
absl::Status Sort(Lowering& l) {
  return InOrder(l, l.Has("descending") && l.Bool("descending"), true);
}
absl::Status TopK(Lowering& l) {
  const bool sorted = !l.Has("sorted") || l.Bool("sorted");
  return InOrder(l, !l.Has("largest") || l.Bool("largest"), sorted || !l.OrderMatters());
}

// The lower of the two in the middle.
absl::Status Median(Lowering& l) {
  const int self = l.Tensor("self");
  const Shape shape = l.ShapeOf(self);
  if (shape.empty()) return l.Unsupported("scalars are not supported");
  const int64_t dim = Wrap(l.Int("dim"), shape.size());
  const bool keep = l.Has("keepdim") && l.Bool("keepdim");
  const ExprPtr middle = I((shape[dim] - 1) / 2);
  return BindRanked(l, self, dim, false, l.Out(0).shape, [&](Exprs at) {
    if (!keep) at.insert(at.begin() + dim, I(0));
    return std::pair(at, middle);
  });
}

// How many of a row's bounds, in order, are below each value, or not above it.
absl::Status CountBounds(Lowering& l, const char* values, const char* bounds) {
  const int of = l.Tensor(values), row = l.Tensor(bounds);
  const Shape shape = l.ShapeOf(of), bounds_shape = l.ShapeOf(row);
  if (l.Has("sorter")) return l.Unsupported("a sorter is not supported");
  const bool right =
      (l.Has("right") && l.Bool("right")) || (l.Has("side") && l.String("side") == "right");
  const graph::DType type = l.Out().type;
  const bool one = bounds_shape.size() == 1;  // for all rows
  l.Bind(l.AddWindow(l.Name(), graph::Combiner::kSum, shape, {bounds_shape.back()},
                     [&](const Exprs& at, const Exprs& bound) {
                       Exprs where(at.begin(), one || at.empty() ? at.begin() : at.end() - 1);
                       where.push_back(bound[0]);
                       const bool alike = l.TypeOf(of) == l.TypeOf(row);
                       const graph::DType wide = alike ? l.TypeOf(of) : graph::DType::kF64;
                       const ExprPtr x = graph::Cast(wide, Load(l.graph, of, at));
                       const ExprPtr b = graph::Cast(wide, Load(l.graph, row, where));
                       return graph::Cast(type, right ? LessEqual(b, x) : Less(b, x));
                     }));
  return absl::OkStatus();
}
absl::Status Bucketize(Lowering& l) { return CountBounds(l, "self", "boundaries"); }
absl::Status SearchSorted(Lowering& l) { return CountBounds(l, "self", "sorted_sequence"); }

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
      {"aten.scatter_add.default", {"self:t dim:i index:t src:t", ScatterAdd}},
      {"aten.scatter_reduce.two",
       {"self:t dim:i index:t src:t reduce:s include_self:b?", ScatterReduce}},
      {"aten.topk.default", {"self:t k:i dim:i? largest:b? sorted:b?", TopK}},
      {"aten.sort.default", {"self:t dim:i? descending:b?", Sort}},
      {"aten.sort.stable", {"self:t stable:b? dim:i? descending:b?", Sort}},
      {"aten.median.dim", {"self:t dim:i keepdim:b?", Median}},
      {"aten.bucketize.Tensor", {"self:t boundaries:t out_int32:b? right:b?", Bucketize}},
      {"aten.searchsorted.Tensor",
       {"sorted_sequence:t self:t out_int32:b? right:b? side:s?", SearchSorted}},
      {"aten.select_scatter.default", {"self:t src:t dim:i index:i", SelectScatter}},
  };
  return *kTable;
}

}  // namespace warpsmith::import
