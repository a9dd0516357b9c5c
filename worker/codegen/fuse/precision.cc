#include "worker/codegen/fuse/precision.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "worker/codegen/group/domain.h"

namespace warpsmith::codegen {
namespace {

// Approximate functions are off by some 2^-21 of their values, which types of 16 bits do not tell,
// nor sums of what was rounded to them.
bool RoundsAway(const graph::Graph& graph, const std::vector<int>& roots) {
  const auto widens = [](const graph::Expr& value) {
    return value.op == graph::Op::kCast && value.args[0]->op == graph::Op::kLoad &&
           IsHalf(value.args[0]->type);
  };
  const auto sums_halves = [&](int t) {
    const int id = graph.tensors[t].node;
    if (id < 0 || !graph.nodes[id].reduce) return false;
    const graph::Expr& value = *graph.nodes[id].value;
    const int of = value.op == graph::Op::kLoad ? graph.tensors[value.tensor].node : -1;
    return widens(value) || (of >= 0 && graph.nodes[of].map() && widens(*graph.nodes[of].value));
  };
  return std::all_of(roots.begin(), roots.end(),
                     [&](int t) { return IsHalf(graph.tensors[t].type) || sums_halves(t); });
}

// Whether it gives by the sign, the order or the whole part of floats what is no float's value.
bool Decides(const graph::Expr& e) {
  switch (e.op) {
    case graph::Op::kSign:
    case graph::Op::kFloor:
    case graph::Op::kCeil:
    case graph::Op::kRound:
    case graph::Op::kTrunc:
    case graph::Op::kE4m3:
    case graph::Op::kE4m3OfBits:
    case graph::Op::kLt:
    case graph::Op::kLe:
    case graph::Op::kEq:
    case graph::Op::kNe:
      return graph::IsFloat(e.args[0]->type);
    case graph::Op::kCast:
      return graph::IsFloat(e.args[0]->type) && !graph::IsFloat(e.type);
    default:
      return false;
  }
}

// Looks for what decides by a float that the group's own sums made.
class Decisions {
 public:
  Decisions(const graph::Graph& graph, const std::set<int>& reads) : graph_(graph), reads_(reads) {}

  bool In(int tensor) {
    if (graph_.tensors[tensor].node < 0 || !seen_.insert(tensor).second) return false;
    return In(*graph_.nodes[graph_.tensors[tensor].node].value);
  }

 private:
  bool In(const graph::Expr& e) {
    if (!walked_.insert(&e).second) return false;  // parts are shared
    if (Decides(e) && Any(e, [this](const graph::Expr& arg) { return IsMade(arg); })) return true;
    if (e.op == graph::Op::kLoad && reads_.count(e.tensor) == 0 && In(e.tensor)) return true;
    return Any(e, [this](const graph::Expr& arg) { return In(arg); });
  }

  // Of a sum, here or in a tensor that is computed here too.
  bool IsMade(const graph::Expr& e) {
    if (!graph::IsFloat(e.type)) return false;
    if (e.op == graph::Op::kAdd || e.op == graph::Op::kSub) return true;
    if (e.op == graph::Op::kLoad)
      return reads_.count(e.tensor) == 0 && graph_.tensors[e.tensor].node >= 0;
    const auto [known, is_new] = made_.try_emplace(&e, false);
    if (is_new) known->second = Any(e, [this](const graph::Expr& arg) { return IsMade(arg); });
    return known->second;
  }

  template <class Test>
  static bool Any(const graph::Expr& e, const Test& test) {
    return std::any_of(e.args.begin(), e.args.end(),
                       [&](const graph::ExprPtr& arg) { return test(*arg); });
  }

  const graph::Graph& graph_;
  const std::set<int>& reads_;
  std::set<int> seen_;
  std::set<const graph::Expr*> walked_;
  std::map<const graph::Expr*, bool> made_;
};

bool IsExponential(graph::Op op) {
  return op == graph::Op::kExp || op == graph::Op::kExp2 || op == graph::Op::kExpm1;
}

// Running sums of floats that an exponential is taken of, through maps: an error of a sum is a
// share of the exponential, however large the sum.
class Exponents {
 public:
  explicit Exponents(const graph::Graph& graph) : graph_(graph) {
    for (const graph::Node& node : graph.nodes) Look(*node.value, false);
  }
  std::set<int> nodes;

 private:
  void Look(const graph::Expr& e, bool exponent) {
    if (!seen_.insert({&e, exponent}).second) return;
    if (e.op == graph::Op::kLoad && exponent) {
      const int id = graph_.tensors[e.tensor].node;
      if (id >= 0 && graph_.nodes[id].map()) Look(*graph_.nodes[id].value, true);
      if (id >= 0 && IsRunningSum(graph_.nodes[id])) nodes.insert(id);
    }
    const bool inside = exponent || IsExponential(e.op);
    for (const graph::ExprPtr& arg : e.args) {
      if (graph::IsFloat(arg->type)) Look(*arg, inside);
    }
  }

  static bool IsRunningSum(const graph::Node& node) {
    return node.scan && node.combiner == graph::Combiner::kSum && graph::IsFloat(node.value->type);
  }

  const graph::Graph& graph_;
  std::set<std::pair<const graph::Expr*, bool>> seen_;
};

// Sums of products that each element which they are made of has subtracted from it, or added: in
// gradients of norms and softmaxes, say. Products have either sign, so that what the sum loses to
// rounding is a larger share of it than of other sums, and that share is one of the largest
// elements' own.
class Subtracted {
 public:
  explicit Subtracted(const graph::Graph& graph) : graph_(graph) {
    for (const graph::Node& node : graph.nodes) {
      Look(*node.value, graph.tensors[node.outputs[0]].elements(), false);
    }
  }
  std::set<int> nodes;

 private:
  // `elements`: of the sum or difference that the expression is a term of, or a factor of a term.
  void Look(const graph::Expr& e, int64_t elements, bool term) {
    if (!graph::IsFloat(e.type) || !seen_.insert({&e, elements, term}).second) return;
    switch (e.op) {
      case graph::Op::kLoad:
        if (term) LookInto(e.tensor, elements);
        return;
      case graph::Op::kAdd:
      case graph::Op::kSub:
        term = term || (!IsConstant(*e.args[0]) && !IsConstant(*e.args[1]));
        break;
      case graph::Op::kMul:
      case graph::Op::kNeg:
      case graph::Op::kCast:
        break;
      case graph::Op::kDiv:
        Look(*e.args[1], elements, false);
        Look(*e.args[0], elements, term);
        return;
      default:
        term = false;
    }
    for (const graph::ExprPtr& arg : e.args) Look(*arg, elements, term);
  }

  void LookInto(int tensor, int64_t elements) {
    const int id = graph_.tensors[tensor].node;
    if (id < 0) return;
    const graph::Node& node = graph_.nodes[id];
    if (node.map()) Look(*node.value, elements, true);
    if (!node.reduce || node.combiner != graph::Combiner::kSum) return;
    int64_t summed = graph_.tensors[tensor].elements();
    for (const graph::Axis& axis : node.reduce_axes) summed *= axis.extent;
    const bool long_one = summed > kFewProducts * graph_.tensors[tensor].elements();
    if (long_one && elements >= summed && node.value->type == graph::DType::kF32 &&
        IsProduct(*node.value))
      nodes.insert(id);
  }

  // Of two factors, neither of them a constant: not a square.
  bool IsProduct(const graph::Expr& e) const {
    switch (e.op) {
      case graph::Op::kMul:
        if (!IsConstant(*e.args[0]) && !IsConstant(*e.args[1]))
          return !graph::Same(e.args[0], e.args[1]);
        return IsProduct(*e.args[0]) || IsProduct(*e.args[1]);
      case graph::Op::kLoad: {
        const int id = graph_.tensors[e.tensor].node;
        return id >= 0 && graph_.nodes[id].map() && IsProduct(*graph_.nodes[id].value);
      }
      case graph::Op::kAdd:
      case graph::Op::kSub:
        return IsProduct(*e.args[0]) || IsProduct(*e.args[1]);
      case graph::Op::kNeg:
      case graph::Op::kCast:
      case graph::Op::kDiv:
        return IsProduct(*e.args[0]);
      default:
        return false;
    }
  }

  static bool IsConstant(const graph::Expr& e) {
    return e.op == graph::Op::kConst || (e.op == graph::Op::kCast && IsConstant(*e.args[0]));
  }

  static constexpr int64_t kFewProducts = 16;  // whose order does not matter

  const graph::Graph& graph_;
  std::set<std::tuple<const graph::Expr*, int64_t, bool>> seen_;
};

}  // namespace

FirstPrecision::FirstPrecision(const graph::Graph& graph)
    : graph_(graph), exponents_(Exponents(graph).nodes), subtracted_(Subtracted(graph).nodes) {
  std::vector<int> open;
  for (const auto& update : graph.updates) {
    if (graph::IsFloat(graph.tensors[update.value].type)) open.push_back(update.value);
  }
  while (!open.empty()) {
    const int tensor = open.back();
    open.pop_back();
    const int node = graph.tensors[tensor].node;
    if (node < 0 || !states_.insert(tensor).second) continue;
    for (int read : graph::LoadedTensors(graph.nodes[node].value)) open.push_back(read);
  }
}

bool FirstPrecision::Computes(int tensor, const std::set<int>& reads,
                              const std::set<int>& nodes) const {
  if (nodes.empty()) return false;
  std::set<int> seen;
  std::vector<int> open = {tensor};
  while (!open.empty()) {
    const int node = graph_.tensors[open.back()].node;
    open.pop_back();
    if (node < 0 || !seen.insert(node).second) continue;
    if (nodes.count(node) > 0) return true;
    for (int read : graph::LoadedTensors(graph_.nodes[node].value)) {
      if (reads.count(read) == 0) open.push_back(read);
    }
  }
  return false;
}

void FirstPrecision::Choose(const std::vector<int>& roots, const std::set<int>& reads,
                            v1::Group& group) const {
  // What a state keeps of an error is there in the next call, too.
  const bool state =
      std::any_of(roots.begin(), roots.end(), [&](int root) { return states_.count(root) > 0; });
  Decisions decisions(graph_, reads);
  const auto decides = [&](int root) { return decisions.In(root); };
  if (state || std::any_of(roots.begin(), roots.end(), decides))
    group.mutable_precision()->set_separate(true);
  const auto computes = [&](const std::set<int>& nodes) {
    return std::any_of(roots.begin(), roots.end(),
                       [&](int root) { return Computes(root, reads, nodes); });
  };
  const bool rounds_away = RoundsAway(graph_, roots);
  if (computes(exponents_) || (!rounds_away && computes(subtracted_)))
    group.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F64);
  if (!state && rounds_away) group.mutable_precision()->set_fast_math(true);
}

}  // namespace warpsmith::codegen
