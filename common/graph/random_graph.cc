#include "common/graph/random_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/random_terms.h"

namespace warpsmith::graph {
namespace {

using Shape = std::vector<int64_t>;

int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

ExprPtr I(int64_t value) { return ConstInt(DType::kI64, value); }
ExprPtr Add(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kAdd, a, b); }
ExprPtr Sub(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kSub, a, b); }
ExprPtr Mul(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kMul, a, b); }

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : dice_(seed), options_(options) {}

  Graph Run() {
    type_ = PickType();
    pool_.push_back(NewInput(RandomShape(), type_));
    const int64_t moves = dice_.Between(1, options_.max_moves);
    for (int64_t m = 0; m < moves; ++m) Move();
    ChooseOutputs();
    return Prune(graph_);
  }

 private:
  // A tensor and what is known of its values.
  struct Value {
    int tensor;
    double limit;
    bool exact;
  };

  const Shape& ShapeOf(const Value& v) const { return graph_.tensors[v.tensor].shape; }
  DType TypeOf(const Value& v) const { return graph_.tensors[v.tensor].type; }
  std::string NewName(const char* stem) { return absl::StrCat(stem, names_++); }

  DType PickType() {
    if (options_.only_f32) return DType::kF32;
    static const std::vector<DType> kTypes = {DType::kF32, DType::kF32,  DType::kF32, DType::kF32,
                                              DType::kF32, DType::kF32,  DType::kF32, DType::kF64,
                                              DType::kF16, DType::kBF16, DType::kI32, DType::kI64};
    return dice_.Pick(kTypes);
  }

  // What is computed in: halves are stored only.
  static DType Computed(DType type) {
    return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
  }

  Shape RandomShape() {
    static const std::vector<int64_t> kExtents = {
        1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 24, 31, 32, 33, 48, 64, 100, 128, 129, 255, 512};
    if (dice_.OneIn(12)) return {dice_.Between(1, options_.max_elements)};  // one long row
    Shape shape;
    const int64_t rank = dice_.Between(1, 4);
    for (int64_t a = 0; a < rank; ++a) {
      const int64_t room = options_.max_elements / Product(shape);
      if (room == 1 && !dice_.OneIn(4)) break;  // few axes of one element
      int64_t extent = dice_.Pick(kExtents);
      while (extent > room) extent = dice_.Pick(kExtents);
      shape.push_back(extent);
    }
    return shape;
  }

  Value NewInput(const Shape& shape, DType type) {
    Distribution distribution;
    double limit = 5;
    if (!IsFloat(type)) {
      distribution = {Distribution::Kind::kIntegers, -20, 20};
      limit = 20;
    } else if (dice_.OneIn(4)) {
      distribution = {Distribution::Kind::kUniform, 0, 1};
      limit = 1;
    }
    const Role role = dice_.OneIn(5) ? Role::kParam : Role::kInput;
    return {graph_.AddInput(role, NewName("x"), type, shape, distribution), limit, true};
  }

  // ---- nodes ------------------------------------------------------------------------------------

  std::vector<Axis> AxesOf(const Shape& shape, const char* stem) const {
    std::vector<Axis> axes;
    for (size_t a = 0; a < shape.size(); ++a) axes.push_back({absl::StrCat(stem, a), shape[a]});
    return axes;
  }

  static std::vector<ExprPtr> Variables(int first, size_t count) {
    std::vector<ExprPtr> vars;
    for (size_t v = 0; v < count; ++v) vars.push_back(Index(first + static_cast<int>(v)));
    return vars;
  }

  // An element, in the type that is computed in.
  Term At(const Value& v, std::vector<ExprPtr> indexes) const {
    return {Cast(Computed(TypeOf(v)), Load(graph_, v.tensor, std::move(indexes))), v.limit,
            v.exact};
  }

  Value Map(const Shape& shape, const Term& term) {
    const int id = graph_.AddMap(NewName("m"), AxesOf(shape, "i"), term.e);
    return {id, term.limit, term.exact};
  }

  Value Reduce(Combiner combiner, const Shape& kept, const Shape& reduced, const Term& term) {
    const int id =
        graph_.AddReduce(NewName("r"), combiner, AxesOf(kept, "i"), AxesOf(reduced, "k"), term.e);
    const bool is_float = IsFloat(term.e->type);
    switch (combiner) {
      case Combiner::kSum:
        return {id, term.limit * Product(reduced), !is_float};
      case Combiner::kProd:
        return {id, term.limit, !is_float};
      default:
        return {id, term.limit, term.exact};
    }
  }

  // A map that brings the magnitude down, if that is needed.
  Value Tamed(const Value& v) {
    const Term x = At(v, Variables(0, ShapeOf(v).size()));
    const Term tame = Tame(x);
    return tame.e == x.e ? v : Map(ShapeOf(v), tame);
  }

  const Value& PickValue() { return dice_.OneIn(2) ? pool_.back() : dice_.Pick(pool_); }

  // ---- moves ------------------------------------------------------------------------------------

  void Move() {
    const Value x = PickValue();
    switch (dice_.Below(options_.only_f32 ? 14 : 15)) {
      case 0:
      case 1:
      case 2:
        return Keep(Pointwise(x));
      case 3:
      case 4:
        return Keep(View(x));
      case 5:
        return Keep(ReduceAxes(x, LastAxis(x)));
      case 6:
        return Keep(ReduceAxes(x, RandomAxes(x)));
      case 7:
        return Keep(ReduceAxes(x, AllAxes(x)));
      case 8:
      case 9:
        return Normalise(x, dice_.OneIn(3) ? RandomAxes(x) : LastAxis(x));
      case 10:
        return ArgReduce(x, dice_.OneIn(2) ? RandomAxes(x) : LastAxis(x));
      case 11:
      case 12:
        return Keep(Window(x));
      case 13:
        return Keep(Gather(x));
      default:
        return Mask(x);
    }
  }

  // What was rounded to a half is an output and no more: a different rounding, which is nobody's
  // fault, would grow on the way.
  void Keep(const Value& v) {
    if (Computed(TypeOf(v)) == TypeOf(v) || v.exact) pool_.push_back(Tamed(v));
  }

  // Some operators over x and perhaps other tensors, each broadcast along some axes.
  Value Pointwise(const Value& x) {
    const Shape shape = ShapeOf(x);
    Term term = At(x, Variables(0, shape.size()));
    const int64_t operators = dice_.Between(1, 4);
    for (int64_t o = 0; o < operators; ++o) {
      if (dice_.OneIn(2)) {
        term = RandomUnary(dice_, term);
      } else {
        const Term other = Broadcast(shape, term.e->type);
        term = dice_.OneIn(2) ? RandomBinary(dice_, term, other) : RandomBinary(dice_, other, term);
      }
    }
    return Map(shape, Stored(term));
  }

  // An element of a tensor that fits `shape`: of the pool, or a new input.
  Term Broadcast(const Shape& shape, DType type) {
    for (int tries = 0; tries < 4; ++tries) {
      const Value other = PickValue();
      const Shape& theirs = ShapeOf(other);
      if (Computed(TypeOf(other)) != type || theirs.size() > shape.size()) continue;
      const size_t skipped = shape.size() - theirs.size();
      std::vector<ExprPtr> indexes;
      for (size_t a = 0; a < theirs.size(); ++a) {
        if (theirs[a] == shape[a + skipped]) {
          indexes.push_back(Index(static_cast<int>(a + skipped)));
        } else if (theirs[a] == 1) {
          indexes.push_back(I(0));
        }
      }
      if (indexes.size() == theirs.size()) return At(other, indexes);
    }
    Shape theirs;
    std::vector<ExprPtr> indexes;
    for (size_t a = 0; a < shape.size(); ++a) {
      if (dice_.OneIn(3)) continue;
      theirs.push_back(shape[a]);
      indexes.push_back(Index(static_cast<int>(a)));
    }
    const Value input = NewInput(theirs, Computed(type_) == type ? type_ : type);
    return At(input, indexes);
  }

  // Sometimes rounded to the graph's own type, for those of halves.
  Term Stored(Term term) {
    if (Computed(type_) != term.e->type || type_ == term.e->type || !dice_.OneIn(3)) return term;
    // Another evaluation may round to the neighbour.
    return {Cast(type_, term.e), term.limit, false};
  }

  Value View(const Value& x) {
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

  Value Moved(const Value& x, const Shape& shape, std::vector<ExprPtr> indexes) {
    const ExprPtr load = Load(graph_, x.tensor, std::move(indexes));
    return Map(shape, {load, x.limit, x.exact});
  }

  Value Permute(const Value& x) {
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

  // One axis replaced: the new extent, and the old index as a function of the new.
  struct AxisChange {
    size_t axis;
    int64_t extent;
    ExprPtr index;
  };

  Value Change(const Value& x, const AxisChange& change) {
    Shape shape = ShapeOf(x);
    std::vector<ExprPtr> indexes = Variables(0, shape.size());
    shape[change.axis] = change.extent;
    indexes[change.axis] = change.index;
    return Moved(x, shape, indexes);
  }

  Value Slice(const Value& x) {
    if (ShapeOf(x).empty()) return Expand(x);
    const size_t axis = dice_.Below(ShapeOf(x).size());
    const int64_t extent = ShapeOf(x)[axis], step = dice_.Between(1, 3);
    const int64_t first = dice_.Below(extent);
    const int64_t length = dice_.Between(1, (extent - first - 1) / step + 1);
    const ExprPtr i = Index(static_cast<int>(axis));
    return Change(x, {axis, length, Add(Mul(i, I(step)), I(first))});
  }

  Value Flip(const Value& x) {
    if (ShapeOf(x).empty()) return Expand(x);
    const size_t axis = dice_.Below(ShapeOf(x).size());
    const int64_t extent = ShapeOf(x)[axis];
    return Change(x, {axis, extent, Sub(I(extent - 1), Index(static_cast<int>(axis)))});
  }

  Value Roll(const Value& x) {
    if (ShapeOf(x).empty()) return Expand(x);
    const size_t axis = dice_.Below(ShapeOf(x).size());
    const int64_t extent = ShapeOf(x)[axis];
    const ExprPtr moved = Add(Index(static_cast<int>(axis)), I(dice_.Below(extent)));
    return Change(x, {axis, extent, Binary(Op::kMod, moved, I(extent))});
  }

  Value Pad(const Value& x) {
    Shape shape = ShapeOf(x);
    if (shape.empty() || Product(shape) * 2 > options_.max_elements) return Flip(x);
    const size_t axis = dice_.Below(shape.size());
    const int64_t extent = shape[axis], before = dice_.Below(3), after = dice_.Below(3);
    std::vector<ExprPtr> indexes = Variables(0, shape.size());
    const ExprPtr i = Sub(indexes[axis], I(before));
    indexes[axis] = i;
    shape[axis] = extent + before + after;
    const ExprPtr inside =
        Binary(Op::kAnd, Binary(Op::kLe, I(0), i), Binary(Op::kLt, i, I(extent)));
    const ExprPtr load = Load(graph_, x.tensor, indexes);
    const ExprPtr zero = IsFloat(load->type) ? Const(load->type, 0) : ConstInt(load->type, 0);
    return Map(shape, {Select(inside, load, zero), x.limit, x.exact});
  }

  // Keeps what is on or below a diagonal of the last two axes.
  Value Triangle(const Value& x) {
    const Shape& shape = ShapeOf(x);
    if (shape.size() < 2) return Pad(x);
    const std::vector<ExprPtr> indexes = Variables(0, shape.size());
    const ExprPtr row = Add(indexes[shape.size() - 2], I(dice_.Between(0, 2)));
    const ExprPtr load = Load(graph_, x.tensor, indexes);
    const ExprPtr zero = IsFloat(load->type) ? Const(load->type, 0) : ConstInt(load->type, 0);
    return Map(shape, {Select(Binary(Op::kLe, indexes.back(), row), load, zero), x.limit, x.exact});
  }

  // A bool tensor, whether any of a row of it holds, and a select by it.
  void Mask(const Value& x) {
    if (!x.exact || ShapeOf(x).empty()) return Keep(Pointwise(x));
    const Shape shape = ShapeOf(x);
    const std::vector<ExprPtr> indexes = Variables(0, shape.size());
    const Term element = At(x, indexes);
    const Value mask = Map(shape, {RandomCondition(dice_, element), 1, true});
    if (dice_.OneIn(2)) {
      const Split split = SplitBy(shape, LastAxis(x));
      const Combiner combiner = dice_.OneIn(2) ? Combiner::kMax : Combiner::kMin;
      graph_.AddReduce(NewName("r"), combiner, AxesOf(split.kept, "i"), AxesOf(split.reduced, "k"),
                       Load(graph_, mask.tensor, split.indexes));
    }
    const Term other = Broadcast(shape, element.e->type);
    Keep(Map(shape, {Select(Load(graph_, mask.tensor, indexes), element.e, other.e),
                     std::max(element.limit, other.limit), element.exact && other.exact}));
  }

  Value Concat(const Value& x) {
    Shape shape = ShapeOf(x);
    if (shape.empty() || Product(shape) * 3 > options_.max_elements) return Permute(x);
    const size_t axis = dice_.Below(shape.size());
    Shape theirs = shape;
    theirs[axis] = dice_.Between(1, shape[axis] + 1);
    const Value other = NewInput(theirs, TypeOf(x));
    std::vector<ExprPtr> indexes = Variables(0, shape.size()), shifted = indexes;
    const ExprPtr i = indexes[axis];
    shifted[axis] = Sub(i, I(shape[axis]));
    const ExprPtr joined =
        Select(Binary(Op::kLt, i, I(shape[axis])), Load(graph_, x.tensor, indexes),
               Load(graph_, other.tensor, shifted));
    shape[axis] += theirs[axis];
    return Map(shape, {joined, std::max(x.limit, other.limit), x.exact});
  }

  // Merges two axes, or splits one, written over the linear position.
  Value Reshape(const Value& x) {
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

  // A new axis along which the value repeats.
  Value Expand(const Value& x) {
    Shape shape = ShapeOf(x);
    const int64_t room = options_.max_elements / Product(shape);
    const int64_t extent = dice_.Between(1, std::clamp<int64_t>(room, 1, 8));
    const size_t at = dice_.Below(shape.size() + 1);
    std::vector<ExprPtr> indexes = Variables(0, shape.size() + 1);
    indexes.erase(indexes.begin() + at);
    shape.insert(shape.begin() + at, extent);
    return Moved(x, shape, indexes);
  }

  // ---- reductions -------------------------------------------------------------------------------

  // Whether each axis is reduced.
  using Chosen = std::vector<bool>;
  Chosen AllAxes(const Value& x) const { return Chosen(ShapeOf(x).size(), true); }
  Chosen LastAxis(const Value& x) const {
    Chosen chosen(ShapeOf(x).size(), false);
    if (!chosen.empty()) chosen.back() = true;
    return chosen;
  }
  Chosen RandomAxes(const Value& x) {
    Chosen chosen;
    for (size_t a = 0; a < ShapeOf(x).size(); ++a) chosen.push_back(dice_.OneIn(2));
    if (!chosen.empty() && std::count(chosen.begin(), chosen.end(), true) == 0) {
      chosen[dice_.Below(chosen.size())] = true;
    }
    return chosen;
  }

  struct Split {
    Shape kept, reduced;
    std::vector<ExprPtr> indexes;       // of x, in a reduce over the chosen axes
    std::vector<ExprPtr> kept_indexes;  // of the reduce's result, in a map over x's shape
  };
  Split SplitBy(const Shape& shape, const Chosen& chosen) const {
    Split split;
    const int kept = static_cast<int>(std::count(chosen.begin(), chosen.end(), false));
    for (size_t a = 0; a < shape.size(); ++a) {
      if (chosen[a]) {
        split.indexes.push_back(Index(kept + static_cast<int>(split.reduced.size())));
        split.reduced.push_back(shape[a]);
      } else {
        split.indexes.push_back(Index(static_cast<int>(split.kept.size())));
        split.kept_indexes.push_back(Index(static_cast<int>(a)));
        split.kept.push_back(shape[a]);
      }
    }
    return split;
  }

  Value ReduceAxes(const Value& x, const Chosen& chosen) {
    if (chosen.empty()) return Expand(x);
    const Split split = SplitBy(ShapeOf(x), chosen);
    Term term = At(x, split.indexes);
    if (dice_.OneIn(2)) term = RandomUnary(dice_, term);
    const int64_t count = Product(split.reduced);
    switch (dice_.Below(6)) {
      case 0:
        return Reduce(Combiner::kMax, split.kept, split.reduced, term);
      case 1:
        return Reduce(Combiner::kMin, split.kept, split.reduced, term);
      case 2:
        // Factors near 1, few enough that the product stays in range.
        if (IsFloat(term.e->type) && count <= 64) {
          const ExprPtr small = Mul(Unary(Op::kTanh, term.e), Const(term.e->type, 0.05));
          const ExprPtr factor = Add(Const(term.e->type, 1), small);
          return Reduce(Combiner::kProd, split.kept, split.reduced, {factor, 23, false});
        }
        break;
      case 3: {  // a mean
        if (!IsFloat(term.e->type)) break;
        const Value sum = Reduce(Combiner::kSum, split.kept, split.reduced, term);
        return Map(split.kept, Scale(At(sum, Variables(0, split.kept.size())), 1.0 / count));
      }
      default:
        break;
    }
    return Reduce(Combiner::kSum, split.kept, split.reduced, term);
  }

  // Reduces that depend on each other, and a map over everything after them.
  void Normalise(const Value& x, const Chosen& chosen) {
    if (chosen.empty() || !IsFloat(TypeOf(x))) return Keep(Pointwise(x));
    const Shape shape = ShapeOf(x);
    const Split split = SplitBy(shape, chosen);
    switch (dice_.Below(4)) {
      case 0:
      case 1:
        return Softmax(x, shape, split);
      case 2:
        return Centred(x, shape, split);
      default:
        return RootMeanSquare(x, shape, split);
    }
  }

  Term Kept(const Value& v, const Split& split) const { return At(v, split.kept_indexes); }
  Term Same(const Value& v, const Split& split) const {  // in a reduce
    return At(v, Variables(0, split.kept.size()));
  }

  void Softmax(const Value& x, const Shape& shape, const Split& split) {
    const Term inner = At(x, split.indexes), outer = At(x, Variables(0, shape.size()));
    const Value m = Reduce(Combiner::kMax, split.kept, split.reduced, inner);
    const ExprPtr e = Unary(Op::kExp, Sub(inner.e, Same(m, split).e));
    const Value s = Reduce(Combiner::kSum, split.kept, split.reduced, {e, 1, false});
    const ExprPtr shifted = Sub(outer.e, Kept(m, split).e);
    if (dice_.OneIn(3)) {  // its logarithm
      const ExprPtr log = Sub(shifted, Unary(Op::kLog, Kept(s, split).e));
      return Keep(Map(shape, {log, 2 * x.limit + 8, false}));
    }
    const ExprPtr y = Binary(Op::kDiv, Unary(Op::kExp, shifted), Kept(s, split).e);
    Keep(Map(shape, Stored({y, 1, false})));
    if (dice_.OneIn(3)) pool_.push_back({m.tensor, m.limit, m.exact});
  }

  void Centred(const Value& x, const Shape& shape, const Split& split) {
    const Term inner = At(x, split.indexes), outer = At(x, Variables(0, shape.size()));
    const double count = static_cast<double>(Product(split.reduced));
    const Value sum = Reduce(Combiner::kSum, split.kept, split.reduced, inner);
    const Value mean = Map(split.kept, Scale(At(sum, Variables(0, split.kept.size())), 1 / count));
    const ExprPtr d = Sub(inner.e, Same(mean, split).e);
    const Value square =
        Reduce(Combiner::kSum, split.kept, split.reduced, {Mul(d, d), x.limit * x.limit, false});
    const Term variance = Scale(Kept(square, split), 1 / count);
    const ExprPtr r = Unary(Op::kRsqrt, Add(variance.e, Const(variance.e->type, 0.01)));
    const ExprPtr y = Mul(Sub(outer.e, Kept(mean, split).e), r);
    Term term = Tame({y, 20, false});
    if (dice_.OneIn(2)) term = RandomBinary(dice_, term, Broadcast(shape, term.e->type));
    Keep(Map(shape, Stored(term)));
  }

  void RootMeanSquare(const Value& x, const Shape& shape, const Split& split) {
    const Term inner = At(x, split.indexes), outer = At(x, Variables(0, shape.size()));
    const double count = static_cast<double>(Product(split.reduced));
    const Value square = Reduce(Combiner::kSum, split.kept, split.reduced,
                                {Mul(inner.e, inner.e), x.limit * x.limit, false});
    const Term mean = Scale(Kept(square, split), 1 / count);
    const ExprPtr r = Unary(Op::kRsqrt, Add(mean.e, Const(mean.e->type, 0.01)));
    Keep(Map(shape, Stored({Mul(outer.e, r), 20, false})));
  }

  void ArgReduce(const Value& x, const Chosen& chosen) {
    if (chosen.empty() || !x.exact) return Keep(Pointwise(x));
    const Split split = SplitBy(ShapeOf(x), chosen);
    Term term = At(x, split.indexes);
    if (IsFloat(term.e->type) && dice_.OneIn(3)) {
      term.e = Unary(Op::kRound, term.e);  // many ties
    }
    const Combiner combiner = dice_.OneIn(2) ? Combiner::kArgMax : Combiner::kArgMin;
    const Value value = Reduce(combiner, split.kept, split.reduced, term);
    const double last = static_cast<double>(Product(split.reduced));
    // Both outputs; the index is an integer tensor that later moves may use.
    pool_.push_back({value.tensor + 1, last, true});
    pool_.push_back(Tamed(value));
  }

  // Pooling over the last one or two axes.
  Value Window(const Value& x) {
    const Shape from = ShapeOf(x);
    if (from.empty()) return Expand(x);
    const size_t windows = from.size() >= 2 && dice_.OneIn(2) ? 2 : 1;
    Shape kept = from, reduced;
    std::vector<ExprPtr> indexes = Variables(0, from.size());
    ExprPtr inside = ConstInt(DType::kBool, 1);
    for (size_t w = 0; w < windows; ++w) {
      const size_t axis = from.size() - windows + w;
      const int64_t kernel = dice_.Between(1, std::min<int64_t>(from[axis], 4));
      const int64_t stride = dice_.Between(1, 3);
      const int64_t dilation = (kernel - 1) * 2 + 1 <= from[axis] ? dice_.Between(1, 2) : 1;
      const int64_t reach = dilation * (kernel - 1);
      const int64_t padding = dice_.OneIn(2) ? 0 : reach / 2;
      kept[axis] = (from[axis] + 2 * padding - reach - 1) / stride + 1;
      const ExprPtr k = Index(static_cast<int>(from.size() + reduced.size()));
      const ExprPtr i = Sub(Add(Mul(indexes[axis], I(stride)), Mul(k, I(dilation))), I(padding));
      indexes[axis] = i;
      reduced.push_back(kernel);
      if (padding > 0) {
        inside = Binary(Op::kAnd, inside, Binary(Op::kLe, I(0), i));
        inside = Binary(Op::kAnd, inside, Binary(Op::kLt, i, I(from[axis])));
      }
    }
    const Term load = At(x, indexes);
    const DType type = load.e->type;
    if (dice_.OneIn(2)) {
      const ExprPtr least = IsFloat(type) ? Const(type, -INFINITY) : ConstInt(type, -1000000);
      return Reduce(Combiner::kMax, kept, reduced,
                    {Select(inside, load.e, least), load.limit, load.exact});
    }
    const ExprPtr zero = IsFloat(type) ? Const(type, 0) : ConstInt(type, 0);
    const Value sum = Reduce(Combiner::kSum, kept, reduced,
                             {Select(inside, load.e, zero), load.limit, load.exact});
    if (!IsFloat(type)) return sum;
    return Map(kept, Scale(At(sum, Variables(0, kept.size())), 1.0 / Product(reduced)));
  }

  // Rows of x by an index that is an input.
  Value Gather(const Value& x) {
    Shape shape = ShapeOf(x);
    if (shape.empty()) return Expand(x);
    const size_t axis = dice_.Below(shape.size());
    const int64_t extent = shape[axis];
    const int64_t room = options_.max_elements / (Product(shape) / extent);
    const int64_t picks = dice_.Between(1, std::min<int64_t>(room, 2 * extent));
    const DType type = dice_.OneIn(2) ? DType::kI64 : DType::kI32;
    const Distribution distribution{Distribution::Kind::kIntegers, 0, static_cast<double>(extent)};
    const int index = graph_.AddInput(Role::kInput, NewName("n"), type, {picks}, distribution);
    std::vector<ExprPtr> indexes = Variables(0, shape.size());
    const ExprPtr at = Load(graph_, index, {Index(static_cast<int>(axis))});
    indexes[axis] = Cast(DType::kI64, at);
    shape[axis] = picks;
    return Moved(x, shape, indexes);
  }

  // ---- end --------------------------------------------------------------------------------------

  // What nothing uses, so that no move was for nothing, and now and then one that is used.
  void ChooseOutputs() {
    constexpr size_t kMaxOutputs = 6;
    std::vector<bool> used(graph_.tensors.size(), false);
    for (const Node& node : graph_.nodes) {
      for (int loaded : LoadedTensors(node.value)) used[loaded] = true;
    }
    for (size_t t = graph_.tensors.size(); t-- > 0;) {
      if (graph_.tensors[t].node < 0 || graph_.outputs.size() == kMaxOutputs) continue;
      if (!used[t] || dice_.OneIn(6)) graph_.outputs.push_back(static_cast<int>(t));
    }
  }

  Dice dice_;
  const RandomGraphOptions options_;
  Graph graph_;
  DType type_ = DType::kF32;
  std::vector<Value> pool_;
  int names_ = 0;
};

}  // namespace

Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  Graph graph = Generator(seed, options).Run();
  const absl::Status status = Validate(graph);
  WS_CHECK(status.ok(), absl::StrCat("random graph ", seed, ": ", std::string(status.message())));
  return graph;
}

}  // namespace warpsmith::graph
