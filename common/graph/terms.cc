#include "common/graph/terms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/graph/numeric.h"
#include "common/graph/places.h"

namespace warpsmith::graph {
namespace {

// Expressions that are looked at for one answer: shared parts could otherwise take for ever.
constexpr int kMaxSteps = 512;

bool IsConst(const ExprPtr& e, double number) {
  return e->op == Op::kConst && IsFloat(e->type) && e->number == number;
}

// The map that makes a tensor; null: something else does.
const Node* MapOf(const Graph& graph, int tensor) {
  const int node = graph.tensors[tensor].node;
  return node >= 0 && graph.nodes[node].map() ? &graph.nodes[node] : nullptr;
}

// The variable that the expression is but for a constant that is added, as whatever integer; -1: it
// is none.
int IndexIn(const Expr& e) {
  const auto constant = [&](int arg) { return e.args[arg]->op == Op::kConst; };
  if (e.op == Op::kIndex) return e.var;
  if (e.op == Op::kCast && IsInteger(e.type)) return IndexIn(*e.args[0]);
  if ((e.op == Op::kAdd || e.op == Op::kSub) && constant(1)) return IndexIn(*e.args[0]);
  return e.op == Op::kAdd && constant(0) ? IndexIn(*e.args[1]) : -1;
}

bool OnIndexes(const ExprPtr& condition) { return LoadedTensors(condition).empty(); }

}  // namespace

int NamedBy(const Expr& equation, int side) {
  const int variable = IndexIn(*equation.args[side]);
  if (variable < 0) return -1;
  std::vector<bool> used(kMaxVariables);
  MarkVariables(*equation.args[1 - side], used);
  return used[variable] ? -1 : variable;
}

namespace {

// Whether a condition that is `value` says which index it is: the one that something else names.
bool NamesIndex(const ExprPtr& condition, bool value) {
  if (condition->op == Op::kNot) return NamesIndex(condition->args[0], !value);
  if (condition->op == (value ? Op::kAnd : Op::kOr)) {
    return NamesIndex(condition->args[0], value) || NamesIndex(condition->args[1], value);
  }
  if (condition->op != (value ? Op::kEq : Op::kNe)) return false;
  for (const int side : {0, 1}) {
    if (NamedBy(*condition, side) >= 0) return true;
  }
  return false;
}

class Expansion {
 public:
  Expansion(const Graph& graph, std::vector<Interval> ranges, const std::vector<bool>* alone)
      : graph_(graph), alone_(alone) {
    terms_.ranges = std::move(ranges);
  }

  Terms Of(const ExprPtr& value) {
    terms_.terms = Expand(value);
    return std::move(terms_);
  }

 private:
  static std::vector<Term> Itself(const ExprPtr& e) { return {{{e}, {}}}; }

  std::vector<Term> Expand(const ExprPtr& e) {
    const size_t through = terms_.through.size();
    std::vector<Term> terms = Expanded(e);
    const bool itself =
        terms.size() == 1 && terms[0].factors.size() == 1 && terms[0].factors[0] == e;
    if (itself) terms_.through.resize(through);  // what it reads is needed after all
    return terms;
  }

  std::vector<Term> Expanded(const ExprPtr& e) {
    if (++steps_ > kMaxSteps || !IsFloat(e->type)) return Itself(e);
    switch (e->op) {
      case Op::kConst:
        return {{}};
      case Op::kNeg:
        return Expand(e->args[0]);
      case Op::kCast: {
        const DType from = e->args[0]->type;
        const bool rounds = alone_ == nullptr && SizeOf(from) > SizeOf(e->type);
        return IsFloat(from) && !rounds ? Expand(e->args[0]) : Itself(e);
      }
      case Op::kAdd:
      case Op::kSub: {
        std::vector<Term> all = Expand(e->args[0]);
        for (Term& term : Expand(e->args[1])) all.push_back(std::move(term));
        return all;
      }
      case Op::kMul:
        return Multiplied(e);
      case Op::kDiv:
        if (e->args[1]->op == Op::kConst) return Expand(e->args[0]);
        // Quotients that all differ are no fewer as products.
        if (VariablesIn(e->args[1]) == VariablesIn(e)) return Itself(e);
        return Expand(
            Binary(Op::kMul, e->args[0], Binary(Op::kDiv, Const(e->type, 1), e->args[1])));
      case Op::kSelect: {
        const bool value = IsConst(e->args[2], 0);
        if (!value && !IsConst(e->args[1], 0)) return Itself(e);
        std::vector<Term> terms = Expand(e->args[value ? 1 : 2]);
        const bool on_indexes = OnIndexes(e->args[0]);
        // What data decide is a factor of a product, and no reason to make one.
        const bool product = terms.size() > 1 || terms[0].factors.size() > 1;
        if (!on_indexes && !product) return Itself(e);
        for (Term& term : terms) {
          if (on_indexes || NamesIndex(e->args[0], value)) {
            term.guards.push_back({e->args[0], value});
          } else if (term.factors.size() < kMaxFactors) {
            term.factors.push_back(e->args[0]);
          } else {
            return Itself(e);
          }
        }
        return terms;
      }
      case Op::kLoad:
        return Loaded(e);
      default:
        return Itself(e);
    }
  }

  std::vector<bool> VariablesIn(const ExprPtr& e) const {
    std::vector<bool> used(terms_.ranges.size());
    MarkVariables(*e, used);
    return used;
  }

  std::vector<Term> Multiplied(const ExprPtr& e) {
    std::vector<Term> sides[2];
    for (int side = 0; side < 2; ++side) {
      const size_t through = terms_.through.size();
      sides[side] = Expand(e->args[side]);
      // Sums are not multiplied out, but where what is in them may then go in another order.
      const bool out = alone_ != nullptr && (side == 0 || sides[0].size() == 1);
      if (sides[side].size() > 1 && !out) {
        terms_.through.resize(through);
        sides[side] = Itself(e->args[side]);
      }
    }
    std::vector<Term> products;
    for (const Term& x : sides[0]) {
      for (const Term& y : sides[1]) {
        Term product = x;
        product.factors.insert(product.factors.end(), y.factors.begin(), y.factors.end());
        product.guards.insert(product.guards.end(), y.guards.begin(), y.guards.end());
        if (product.factors.size() > kMaxFactors) return Itself(e);
        products.push_back(std::move(product));
      }
    }
    return products;
  }

  std::vector<Term> Loaded(const ExprPtr& e) {
    const int node = graph_.tensors[e->tensor].node;
    if (alone_ == nullptr || node < 0 || !(*alone_)[e->tensor]) return Itself(e);
    const Node& maker = graph_.nodes[node];
    const size_t through = terms_.through.size();
    std::vector<ExprPtr> places = e->args;
    if (maker.reduce) {
      if (maker.combiner != Combiner::kSum ||
          terms_.ranges.size() + maker.reduce_axes.size() > size_t{kMaxVariables}) {
        return Itself(e);
      }
      for (const Axis& axis : maker.reduce_axes) {
        places.push_back(Index(static_cast<int>(terms_.ranges.size())));
        terms_.ranges.push_back({0, axis.extent - 1});
      }
    } else if (!maker.map()) {
      return Itself(e);
    }
    std::vector<Term> terms = Expand(Substitute(maker.value, places));
    // A map that leads to no sum is better read as it is.
    if (!maker.reduce && terms_.through.size() == through) return Itself(e);
    terms_.through.push_back(node);
    return terms;
  }

  const Graph& graph_;
  const std::vector<bool>* const alone_;
  Terms terms_;
  int steps_ = 0;
};

class Zeros {
 public:
  explicit Zeros(const Graph& graph) : graph_(graph) {}

  // Adds to `guards` where e is other than `beyond`, which is 0 or -infinity.
  void Find(const ExprPtr& e, double beyond, std::vector<Guard>& guards) {
    if (++steps_ > kMaxSteps) return;
    const bool zero = beyond == 0;
    switch (e->op) {
      case Op::kSelect:
        for (const bool value : {true, false}) {
          if (!IsConst(Made(e->args[value ? 2 : 1]), beyond)) continue;
          const ExprPtr condition = Inlined(e->args[0]);
          if (OnIndexes(condition) || (zero && NamesIndex(condition, value)))
            guards.push_back({condition, value});
          Find(e->args[value ? 1 : 2], beyond, guards);
        }
        return;
      case Op::kCast:
        if (IsFloat(e->args[0]->type)) Find(e->args[0], beyond, guards);
        if (zero && e->args[0]->type == DType::kBool && NamesIndex(e->args[0], true))
          guards.push_back({e->args[0], true});
        return;
      case Op::kNeg:
        if (zero) Find(e->args[0], beyond, guards);
        return;
      case Op::kMul:
        for (int side = 0; side < 2; ++side) {
          if (zero || IsPositive(e->args[1 - side])) Find(e->args[side], beyond, guards);
        }
        return;
      case Op::kDiv:
        if (zero || IsPositive(e->args[1])) Find(e->args[0], beyond, guards);
        return;
      case Op::kAdd:
        if (zero) return;
        Find(e->args[0], beyond, guards);
        Find(e->args[1], beyond, guards);
        return;
      case Op::kSub:
        if (!zero) Find(e->args[0], beyond, guards);
        return;
      case Op::kExp:
      case Op::kExp2:
        if (zero) Find(e->args[0], -std::numeric_limits<double>::infinity(), guards);
        return;
      case Op::kLoad:
        if (const Node* map = MapOf(graph_, e->tensor)) {
          Find(Substitute(map->value, e->args), beyond, guards);
        }
        return;
      default:
        return;
    }
  }

 private:
  static bool IsPositive(const ExprPtr& e) { return e->op == Op::kConst && e->number > 0; }

  // What a map makes of its element, in place of loading it.
  ExprPtr Made(ExprPtr e) {
    while (e->op == Op::kLoad && ++steps_ <= kMaxSteps) {
      const Node* map = MapOf(graph_, e->tensor);
      if (map == nullptr) break;
      e = Substitute(map->value, e->args);
    }
    return e;
  }
  // A condition, with what maps make in place of what it loads of them.
  ExprPtr Inlined(const ExprPtr& of) {
    const ExprPtr e = Made(of);
    if (e->op == Op::kLoad || e->args.empty() || ++steps_ > kMaxSteps) return e;
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : e->args) args.push_back(Inlined(arg));
    if (e->op == Op::kCast) return Cast(e->type, args[0]);
    if (e->op == Op::kSelect) return Select(args[0], args[1], args[2]);
    return args.size() == 1 ? Unary(e->op, args[0]) : Binary(e->op, args[0], args[1]);
  }

  const Graph& graph_;
  int steps_ = 0;
};

class Width {
 public:
  explicit Width(const Graph& graph) : graph_(graph) {}

  int Of(const ExprPtr& e) {
    const int own = e->type == DType::kI32 || e->type == DType::kI64
                        ? 32
                        : std::max<int>(16, static_cast<int>(8 * SizeOf(e->type)));
    if (own == 16 || ++steps_ > kMaxSteps) return own;
    switch (e->op) {
      case Op::kConst:
        if (ApplyFloat(Op::kE4m3, e->number) == e->number) return 8;
        return RoundTo(DType::kBF16, e->number) == e->number ||
                       RoundTo(DType::kF16, e->number) == e->number
                   ? 16
                   : own;
      case Op::kCast:
      case Op::kNeg:
      case Op::kAbs:
        return std::min(own, Of(e->args[0]));
      case Op::kMin:
      case Op::kMax:
        return std::max(Of(e->args[0]), Of(e->args[1]));
      case Op::kSelect:
        return std::max(Of(e->args[1]), Of(e->args[2]));
      case Op::kE4m3:
      case Op::kE4m3OfBits:
        return 8;
      case Op::kRound:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
        return 16;  // integers are believed to be small
      case Op::kMul:
      case Op::kDiv:
        return OfScaled(e, own);
      case Op::kLoad: {
        const Node* map = MapOf(graph_, e->tensor);
        return map == nullptr ? own : Of(map->value);
      }
      default:
        return own;
    }
  }

 private:
  // What a scale of rows or blocks is taken out of: the factor that has all variables of the other.
  int OfScaled(const ExprPtr& e, int own) {
    std::vector<bool> of[2];
    for (size_t i : {0, 1}) {
      of[i].resize(kMaxVariables);
      MarkVariables(*e->args[i], of[i]);
    }
    const auto has_all = [&](size_t i) {
      for (size_t v = 0; v < kMaxVariables; ++v) {
        if (of[1 - i][v] && !of[i][v]) return false;
      }
      return true;
    };
    int least = own;
    for (size_t i : {0, 1}) {
      if (has_all(i) && (i == 0 || e->op == Op::kMul)) least = std::min(least, Of(e->args[i]));
    }
    return least;
  }

  const Graph& graph_;
  int steps_ = 0;
};

}  // namespace

Terms TermsOf(const Graph& graph, const ExprPtr& value, std::vector<Interval> ranges,
              const std::vector<bool>* alone) {
  return Expansion(graph, std::move(ranges), alone).Of(value);
}

std::vector<Guard> NonzeroWhere(const Graph& graph, const ExprPtr& e) {
  std::vector<Guard> guards;
  if (IsFloat(e->type)) Zeros(graph).Find(e, 0, guards);
  return guards;
}

std::vector<Guard> FiniteWhere(const Graph& graph, const ExprPtr& e) {
  std::vector<Guard> guards;
  if (IsFloat(e->type)) Zeros(graph).Find(e, -std::numeric_limits<double>::infinity(), guards);
  return guards;
}

int BitsOf(const Graph& graph, const ExprPtr& e) { return Width(graph).Of(e); }

}  // namespace warpsmith::graph
