#include "common/graph/random_graph.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/random_views.h"

namespace warpsmith::graph {
namespace {

ExprPtr Add(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kAdd, a, b); }
ExprPtr Sub(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kSub, a, b); }
ExprPtr Mul(const ExprPtr& a, const ExprPtr& b) { return Binary(Op::kMul, a, b); }

class Generator : public RandomViews {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : RandomViews(seed, options) {}

  Graph Run() {
    pool_.push_back(NewInput(RandomShape(), type_));
    const int64_t moves = dice_.Between(1, options_.max_moves);
    for (int64_t m = 0; m < moves; ++m) Move();
    if (options_.both_ways) BothWays(PickValue());
    if (options_.states) UpdateStates();
    ChooseOutputs();
    return Prune(graph_);
  }

 private:
  // ---- moves ------------------------------------------------------------------------------------

  void Move() {
    const Value x = PickValue();
    if (options_.scans && dice_.OneIn(4)) return Keep(ScanAxis(x));
    if (options_.products && dice_.OneIn(3)) return Keep(MatrixProduct(x));
    if (options_.scatters && dice_.OneIn(3)) return Keep(AddedAtPlaces(x));
    if (options_.ranks && dice_.OneIn(3)) return Keep(FirstOf(x));
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
      if (options_.equal_extents && dice_.OneIn(2)) {
        // Along any axes that happen to be as long, the same one twice too.
        std::vector<ExprPtr> any;
        for (int64_t extent : theirs) {
          std::vector<ExprPtr> fitting;
          for (size_t a = 0; a < shape.size(); ++a) {
            if (shape[a] == extent) fitting.push_back(Index(static_cast<int>(a)));
          }
          if (!fitting.empty()) any.push_back(dice_.Pick(fitting));
        }
        if (any.size() == theirs.size()) return At(other, any);
      }
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

  // Along one axis, by a new input that has this axis and one of its own, and perhaps x's first one
  // as the batch; or two of them, by as many inputs, and what a map makes of both.
  Value MatrixProduct(const Value& x) {
    const Shape shape = ShapeOf(x);
    const DType type = Computed(TypeOf(x));
    if (shape.empty() || type == DType::kBool) return Pointwise(x);
    Chosen chosen(shape.size(), false);
    chosen[dice_.Below(shape.size())] = true;
    const Split split = SplitBy(shape, chosen);
    const int64_t columns = std::min(
        dice_.Between(1, 24), std::max<int64_t>(1, options_.max_elements / Product(split.kept)));
    const bool batch = !split.kept.empty() && dice_.OneIn(3), turned = dice_.OneIn(2),
               first = dice_.OneIn(4);
    // Of the result: the axes that stay, and the new one before or behind them.
    Shape result = split.kept, theirs = {columns, split.reduced[0]};
    result.insert(first ? result.begin() : result.end(), columns);
    const int rank = static_cast<int>(result.size());
    std::vector<ExprPtr> own, other = {Index(first ? 0 : rank - 1), Index(rank)};
    size_t kept = first ? 1 : 0;
    for (size_t a = 0; a < shape.size(); ++a)
      own.push_back(chosen[a] ? Index(rank) : Index(static_cast<int>(kept++)));
    if (turned) {
      std::swap(theirs[0], theirs[1]);
      std::swap(other[0], other[1]);
    }
    if (batch) {
      theirs.insert(theirs.begin(), split.kept[0]);
      other.insert(other.begin(), Index(first ? 1 : 0));
    }
    Term term = At(x, own);
    if (dice_.OneIn(3)) term = RandomUnary(dice_, term);
    const auto times_new = [&] {
      const Value input = NewInput(theirs, Computed(type_) == term.e->type ? type_ : term.e->type);
      const Term by = At(input, other);
      return Reduce(Combiner::kSum, result, split.reduced,
                    {Mul(term.e, by.e), term.limit * by.limit, term.exact && by.exact});
    };
    const Value product = times_new();
    if (!dice_.OneIn(3)) return product;
    const Value second = times_new();
    const std::vector<ExprPtr> place = Variables(0, result.size());
    return Map(result, Stored(RandomBinary(dice_, At(product, place), At(second, place))));
  }

  // What x has along an axis, each added to the place that a table names, of which there is one for
  // every index of another axis, too, or one for all; places lie where the axis was, or first.
  Value AddedAtPlaces(const Value& x) {
    const Shape shape = ShapeOf(x);
    if (shape.empty() || Computed(TypeOf(x)) == DType::kBool) return Pointwise(x);
    const size_t axis = dice_.Below(shape.size()), batch = dice_.Below(shape.size());
    const int64_t rows = shape[axis];
    const int64_t places = std::min<int64_t>(
        dice_.Between(1, 12), std::max<int64_t>(1, options_.max_elements * rows / Product(shape)));
    const bool first = dice_.OneIn(3);
    Shape kept = shape;
    kept.erase(kept.begin() + static_cast<int64_t>(axis));
    const size_t at = first ? 0 : axis;
    kept.insert(kept.begin() + static_cast<int64_t>(at), places);
    const ExprPtr row = Index(static_cast<int>(kept.size())), place = Index(static_cast<int>(at));
    std::vector<ExprPtr> own;
    for (size_t a = 0; a < shape.size(); ++a) {
      const size_t without = a > axis ? a - 1 : a;
      own.push_back(a == axis ? row : Index(static_cast<int>(without + (without >= at ? 1 : 0))));
    }
    Shape theirs = {rows};
    std::vector<ExprPtr> key_at = {row};
    if (batch != axis) {
      const bool outside = dice_.OneIn(2);
      theirs.insert(outside ? theirs.begin() : theirs.end(), shape[batch]);
      key_at.insert(outside ? key_at.begin() : key_at.end(), own[batch]);
    }
    Distribution named{Distribution::Kind::kIntegers};
    named.low = dice_.OneIn(2) ? -2 : 0;
    named.high = static_cast<double>(places + (dice_.OneIn(3) ? 2 : 0));
    const DType type = dice_.OneIn(2) ? DType::kI64 : DType::kI32;
    const int table = graph_.AddInput(Role::kInput, NewName("n"), type, theirs, named);
    ExprPtr key = Cast(DType::kI64, Load(graph_, table, key_at));
    if (dice_.OneIn(3)) key = Select(Binary(Op::kLt, key, I(0)), Add(key, I(places)), key);
    ExprPtr hit = dice_.OneIn(2) ? Binary(Op::kEq, key, place) : Binary(Op::kEq, place, key);
    if (dice_.OneIn(4)) hit = Binary(Op::kAnd, hit, Binary(Op::kLe, I(dice_.Below(rows)), row));
    Term term = At(x, own);
    if (dice_.OneIn(3)) term = RandomUnary(dice_, term);
    const ExprPtr zero = IsFloat(term.e->type) ? Const(term.e->type, 0) : ConstInt(term.e->type, 0);
    const ExprPtr added =
        dice_.OneIn(4) ? Select(Unary(Op::kNot, hit), zero, term.e) : Select(hit, term.e, zero);
    return Reduce(Combiner::kSum, kept, {rows}, {added, term.limit, term.exact});
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

  // Along its last axes or two, over some of the others with or without what the rows gave, and a
  // map over everything.
  void BothWays(const Value& x) {
    const Shape shape = ShapeOf(x);
    if (shape.size() < 2) return BothWays(Expanded(x));
    const size_t rank = shape.size(), along = rank > 2 && dice_.OneIn(3) ? 2 : 1;
    Chosen row(rank, false), over(rank, false);
    for (size_t a = 0; a < rank; ++a) (a < rank - along ? over : row)[a] = true;
    if (dice_.OneIn(3)) over[dice_.Below(rank - along)] = rank - along == 1;
    const Value sums = ReduceAxes(x, row);
    const Split rows = SplitBy(shape, row), columns = SplitBy(shape, over);
    for (int64_t totals = dice_.Between(1, 2); totals > 0; --totals) {
      Term term = At(x, columns.indexes);
      std::vector<ExprPtr> own(columns.indexes.begin(), columns.indexes.end() - along);
      if (dice_.OneIn(2) && Computed(TypeOf(sums)) == term.e->type)
        term = RandomBinary(dice_, term, At(sums, own));
      const bool largest = dice_.OneIn(4);
      const Value total =
          Reduce(largest ? Combiner::kMax : Combiner::kSum, columns.kept, columns.reduced, term);
      if (dice_.OneIn(2)) {
        Map(columns.kept, Stored(RandomUnary(dice_, At(total, Variables(0, columns.kept.size())))));
      }
    }
    if (dice_.OneIn(4) || Computed(TypeOf(sums)) != Computed(TypeOf(x))) return;
    Map(shape, Stored(RandomBinary(dice_, At(x, Variables(0, rank)), At(sums, rows.kept_indexes))));
  }

  // x along new axes, so that it has two at least.
  Value Expanded(const Value& x) {
    Shape shape = ShapeOf(x);
    const std::vector<ExprPtr> own = Variables(static_cast<int>(2 - shape.size()), shape.size());
    while (shape.size() < 2) shape.insert(shape.begin(), dice_.Between(2, 8));
    return Map(shape, At(x, own));
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

  // The places of the first few along an axis, in order, or those elements: each has the place that
  // is the number of those before it.
  Value FirstOf(const Value& x) {
    const Shape shape = ShapeOf(x);
    if (shape.empty() || !x.exact || Computed(TypeOf(x)) == DType::kBool) return Pointwise(x);
    const size_t axis = dice_.OneIn(2) ? shape.size() - 1 : dice_.Below(shape.size());
    const auto rank_of = static_cast<int>(shape.size());  // variables: those of x, and the other
    const std::vector<ExprPtr> own = Variables(0, shape.size());
    std::vector<ExprPtr> others = own;
    others[axis] = Index(rank_of);
    Term mine = At(x, own), theirs = At(x, others);
    if (IsFloat(mine.e->type) && dice_.OneIn(3)) {  // many ties
      mine.e = Unary(Op::kRound, mine.e);
      theirs.e = Unary(Op::kRound, theirs.e);
    }
    const ExprPtr before =
        dice_.OneIn(2) ? Binary(Op::kLt, mine.e, theirs.e) : Binary(Op::kLt, theirs.e, mine.e);
    const ExprPtr earlier = Binary(Op::kAnd, Binary(Op::kEq, mine.e, theirs.e),
                                   Binary(Op::kLt, Index(rank_of), Index(static_cast<int>(axis))));
    const Value ranks = Reduce(Combiner::kSum, shape, {shape[axis]},
                               {Select(before, I(1), Select(earlier, I(1), I(0))), 1, true});
    Shape kept = shape;
    kept[axis] = dice_.Between(1, std::min<int64_t>(shape[axis] + 1, 9));
    const ExprPtr place = Index(static_cast<int>(axis));
    const Value found = Reduce(
        Combiner::kMax, kept, {shape[axis]},
        {Select(Binary(Op::kEq, Load(graph_, ranks.tensor, others), place), Index(rank_of), I(0)),
         static_cast<double>(shape[axis]), true});
    if (dice_.OneIn(2)) return found;
    std::vector<ExprPtr> at = own;
    at[axis] = Load(graph_, found.tensor, own);
    return Map(kept, At(x, at));
  }

  // Along any axis, the last as often as all others.
  Value ScanAxis(const Value& x) {
    const Shape shape = ShapeOf(x);
    if (shape.empty()) return Expand(x);
    const int last = static_cast<int>(shape.size()) - 1;
    Scan scan;
    scan.axis = dice_.OneIn(2) ? last : static_cast<int>(dice_.Below(last + 1));
    scan.reverse = dice_.OneIn(3);
    scan.exclusive = dice_.OneIn(3);
    Term term = At(x, Variables(0, shape.size()));
    if (dice_.OneIn(2)) term = RandomUnary(dice_, term);
    const int64_t count = shape[scan.axis];
    const bool is_float = IsFloat(term.e->type);
    switch (dice_.Below(8)) {
      case 0:
      case 1:
        scan.exclusive = false;  // it would begin with the largest there is
        return ScanOf(dice_.OneIn(2) ? Combiner::kMax : Combiner::kMin, shape, scan, term);
      case 2:
        return ArgScan(x, shape, scan);
      case 3:
        if (!is_float) break;
        scan.exclusive = false;
        return ScanOf(Combiner::kLogSumExp, shape, scan,
                      {term.e, term.limit + std::log(static_cast<double>(count)), false});
      case 4:
        // As in a reduce.
        if (is_float && count <= 64) {
          const ExprPtr small = Mul(Unary(Op::kTanh, term.e), Const(term.e->type, 0.05));
          return ScanOf(Combiner::kProd, shape, scan,
                        {Add(Const(term.e->type, 1), small), 23, false});
        }
        break;
      default:
        break;
    }
    return ScanOf(Combiner::kSum, shape, scan, term);
  }

  Value ArgScan(const Value& x, const Shape& shape, Scan scan) {
    if (!x.exact) return Pointwise(x);
    scan.exclusive = false;
    Term term = At(x, Variables(0, shape.size()));
    if (IsFloat(term.e->type) && dice_.OneIn(3)) term.e = Unary(Op::kRound, term.e);  // many ties
    const Combiner combiner = dice_.OneIn(2) ? Combiner::kArgMax : Combiner::kArgMin;
    const Value value = ScanOf(combiner, shape, scan, term);
    pool_.push_back({value.tensor + 1, static_cast<double>(shape[scan.axis] - 1), true});
    return value;
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

  // The new value on a slice of the state, its own elsewhere; or the other way round.
  ExprPtr OnSlice(const Value& state, const ExprPtr& step) {
    std::vector<ExprPtr> own;
    for (size_t a = 0; a < ShapeOf(state).size(); ++a) own.push_back(Index(static_cast<int>(a)));
    const auto axis = static_cast<size_t>(dice_.Below(static_cast<int64_t>(own.size())));
    const int64_t extent = ShapeOf(state)[axis], first = dice_.Below(extent);
    const ExprPtr inside =
        Binary(Op::kAnd, Binary(Op::kLe, ConstInt(DType::kI64, first), own[axis]),
               Binary(Op::kLt, own[axis], ConstInt(DType::kI64, dice_.Between(first, extent))));
    const ExprPtr stays = Load(graph_, state.tensor, own);
    return dice_.OneIn(3) ? Select(inside, stays, step) : Select(inside, step, stays);
  }

  // The new value where a table names places of an axis, one of several that name the same or what
  // may be outside of it; the state's own elsewhere.
  ExprPtr AtPlaces(const Value& state, const ExprPtr& step) {
    const Shape& shape = ShapeOf(state);
    const auto axis = static_cast<size_t>(dice_.Below(static_cast<int64_t>(shape.size())));
    const int64_t writers = dice_.Between(1, 6);
    Distribution places{Distribution::Kind::kIntegers};
    places.low = dice_.OneIn(4) ? -2 : 0;
    places.high = static_cast<double>(shape[axis] + (dice_.OneIn(4) ? 2 : 0));
    const int table =
        graph_.AddInput(Role::kInput, NewName("table"), DType::kI64, {writers}, places);
    const ExprPtr hit = Binary(Op::kEq, Load(graph_, table, {Index(1)}), Index(0));
    const int last =
        graph_.AddReduce(NewName("last"), Combiner::kMax, {{"i0", shape[axis]}}, {{"r0", writers}},
                         Select(hit, Index(1), ConstInt(DType::kI64, -1)));
    std::vector<ExprPtr> own;
    for (size_t a = 0; a < shape.size(); ++a) own.push_back(Index(static_cast<int>(a)));
    const ExprPtr found = Load(graph_, last, {own[axis]});
    const ExprPtr stays = Load(graph_, state.tensor, own);
    const ExprPtr number = Cast(TypeOf(state), found);
    const ExprPtr told = dice_.OneIn(2) ? step : Select(Binary(Op::kEq, found, I(0)), number, step);
    return dice_.OneIn(3) ? Select(Binary(Op::kLt, found, I(0)), stays, told)
                          : Select(Binary(Op::kLe, I(0), found), told, stays);
  }

  // Most states take what was computed in their shape and type, or a step from their own value.
  void UpdateStates() {
    const size_t inputs = graph_.tensors.size();
    for (size_t s = 0; s < inputs; ++s) {
      if (graph_.tensors[s].role != Role::kState || dice_.OneIn(4)) continue;
      const Value state{static_cast<int>(s), 5, true};
      std::vector<Value> fitting;
      for (const Value& v : pool_) {
        if (graph_.tensors[v.tensor].node >= 0 && TypeOf(v) == TypeOf(state) &&
            ShapeOf(v) == ShapeOf(state)) {
          fitting.push_back(v);
        }
      }
      int next = -1;
      if (!fitting.empty() && !dice_.OneIn(3)) {
        next = dice_.Pick(fitting).tensor;
      } else {
        const Term own = At(state, Variables(0, ShapeOf(state).size()));
        Term step = RandomUnary(dice_, own);
        if (!fitting.empty()) {
          const Value& with = dice_.Pick(fitting);
          step = RandomBinary(dice_, step, At(with, Variables(0, ShapeOf(with).size())));
        }
        step.e = Cast(TypeOf(state), step.e);
        if (!ShapeOf(state).empty() && dice_.OneIn(2))
          step.e = dice_.OneIn(2) ? AtPlaces(state, step.e) : OnSlice(state, step.e);
        next = Map(ShapeOf(state), step).tensor;
      }
      graph_.updates.push_back({state.tensor, next});
    }
  }

  // What nothing uses, so that no move was for nothing, and now and then one that is used.
  void ChooseOutputs() {
    constexpr size_t kMaxOutputs = 6;
    std::vector<bool> used(graph_.tensors.size(), false);
    for (const Node& node : graph_.nodes) {
      for (int loaded : LoadedTensors(node.value)) used[loaded] = true;
    }
    for (const Graph::Update& update : graph_.updates) used[update.value] = true;
    for (size_t t = graph_.tensors.size(); t-- > 0;) {
      if (graph_.tensors[t].node < 0 || graph_.outputs.size() == kMaxOutputs) continue;
      if (!used[t] || dice_.OneIn(6)) graph_.outputs.push_back(static_cast<int>(t));
    }
    // Where updates use everything.
    if (graph_.outputs.empty() && !graph_.nodes.empty())
      graph_.outputs.push_back(graph_.nodes.back().outputs[0]);
  }
};

}  // namespace

Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  Graph graph = Generator(seed, options).Run();
  const absl::Status status = Validate(graph);
  WS_CHECK(status.ok(), absl::StrCat("random graph ", seed, ": ", std::string(status.message())));
  return graph;
}

}  // namespace warpsmith::graph
