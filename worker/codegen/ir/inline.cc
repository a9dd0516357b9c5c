#include "worker/codegen/ir/inline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using graph::DType;
using graph::Op;

namespace {

// Known to the simplifier: no values of memory in it.
bool IsPure(ValuePtr value) {
  if (value->kind == Value::Kind::kConst) return value->type == DType::kI64;
  return value->kind == Value::Kind::kIndex && !value->index.has_opaque();
}

bool IsEquation(ValuePtr value) {
  return value->kind == Value::Kind::kCompare && value->op == Op::kEq;
}

// Whether `known` says that `other` holds: that an index is one number, that it is not another.
bool Implies(ValuePtr known, ValuePtr other) {
  if (!IsEquation(known) || other->kind != Value::Kind::kOp || other->op != Op::kNot ||
      !IsEquation(other->args[0]))
    return false;
  const Index &a = known->index, &b = other->args[0]->index;
  for (const Index& difference : {a - b, a + b}) {
    if (difference.is_constant() && difference.constant() != 0) return true;
  }
  return false;
}

void AddCondition(ValuePtr condition, std::vector<ValuePtr>& guard) {
  if (condition->kind == Value::Kind::kOp && condition->op == Op::kAnd) {
    AddCondition(condition->args[0], guard);
    AddCondition(condition->args[1], guard);
    return;
  }
  if (IsConst(condition, 1)) return;
  for (ValuePtr known : guard) {
    if (Implies(known, condition)) return;
  }
  guard.erase(std::remove_if(guard.begin(), guard.end(),
                             [&](ValuePtr one) { return Implies(condition, one); }),
              guard.end());
  auto at = std::lower_bound(guard.begin(), guard.end(), condition,
                             [](ValuePtr a, ValuePtr b) { return a->id < b->id; });
  if (at == guard.end() || *at != condition) guard.insert(at, condition);
}

}  // namespace

absl::StatusOr<ValuePtr> Inliner::Element(int tensor, const std::vector<Index>& at) {
  return Get(tensor, at, {});
}

absl::StatusOr<ValuePtr> Inliner::Body(const graph::Node& node, const std::vector<Index>& env) {
  return Build(node.value, env, {});
}

absl::StatusOr<ValuePtr> Inliner::ElementUnder(int tensor, const std::vector<Index>& at,
                                               ValuePtr condition) {
  Guard guard;
  AddCondition(condition, guard);
  return Get(tensor, at, guard);
}

absl::StatusOr<ValuePtr> Inliner::BodyUnder(const graph::Node& node, const std::vector<Index>& env,
                                            ValuePtr condition) {
  Guard guard;
  AddCondition(condition, guard);
  return Build(node.value, env, guard);
}

// Only what certainly does not wrap; other arithmetic stays operators on numbers.
ValuePtr Inliner::Integer(Op op, ValuePtr a, ValuePtr b) {
  if (!IsPure(a) || !IsPure(b)) return nullptr;
  const Index x = values_.AsIndex(a), y = values_.AsIndex(b);
  const int64_t mx = Magnitude(x), my = Magnitude(y);
  if (mx > kExactMagnitude || my > kExactMagnitude) return nullptr;
  const bool product = op == Op::kMul;
  const __int128 result = product ? static_cast<__int128>(mx) * my : static_cast<__int128>(mx) + my;
  if (result > kExactMagnitude) return nullptr;
  switch (op) {
    case Op::kAdd:
      return values_.OfIndex(x + y);
    case Op::kSub:
      return values_.OfIndex(x - y);
    case Op::kMul:
      if (y.is_constant()) return values_.OfIndex(x * y.constant());
      return x.is_constant() ? values_.OfIndex(y * x.constant()) : nullptr;
    case Op::kDiv:
      return y.is_constant() && y.constant() > 0 ? values_.OfIndex(FloorDiv(x, y.constant()))
                                                 : nullptr;
    case Op::kMod:
      return y.is_constant() && y.constant() > 0 ? values_.OfIndex(FloorMod(x, y.constant()))
                                                 : nullptr;
    case Op::kMin:
    case Op::kMax: {
      const Range difference = (x - y).range();
      if (difference.high <= 0) return op == Op::kMin ? a : b;
      return difference.low >= 0 ? (op == Op::kMin ? b : a) : nullptr;
    }
    case Op::kLt:
      return values_.Compare(Op::kLe, y - x - Index(1));
    case Op::kLe:
      return values_.Compare(Op::kLe, y - x);
    case Op::kEq:
      return values_.Compare(Op::kEq, y - x);
    case Op::kNe:
      return values_.Op(Op::kNot, DType::kBool, {values_.Compare(Op::kEq, y - x)});
    default:
      return nullptr;
  }
}

absl::StatusOr<ValuePtr> Inliner::Build(const graph::ExprPtr& e, const std::vector<Index>& env,
                                        const Guard& guard) {
  switch (e->op) {
    case Op::kConst:
      return graph::IsFloat(e->type) ? values_.Const(e->type, e->number)
                                     : values_.ConstInt(e->type, e->integer);
    case Op::kIndex:
      return values_.OfIndex(env[e->var]);
    case Op::kLoad: {
      std::vector<Index> at;
      for (const graph::ExprPtr& arg : e->args) {
        auto index = Build(arg, env, guard);
        if (!index.ok()) return index;
        at.push_back(values_.AsIndex(*index));
      }
      return Get(e->tensor, std::move(at), guard);
    }
    case Op::kSelect:
    case Op::kAnd:
    case Op::kOr: {
      auto condition = Build(e->args[0], env, guard);
      if (!condition.ok()) return condition;
      const bool constant = (*condition)->kind == Value::Kind::kConst;
      if (e->op == Op::kSelect && constant) {
        return Build(e->args[(*condition)->integer ? 1 : 2], env, guard);
      }
      if (e->op != Op::kSelect && constant) {
        const bool decides = ((*condition)->integer != 0) == (e->op == Op::kOr);
        return decides ? condition : Build(e->args[1], env, guard);
      }
      // Inside, the condition is known: one that stands in the guard already is decided.
      Guard where = guard, otherwise = guard;
      AddCondition(*condition, where);
      AddCondition(values_.Op(Op::kNot, DType::kBool, {*condition}), otherwise);
      auto a = Build(e->args[1], env, e->op == Op::kOr ? otherwise : where);
      if (!a.ok()) return a;
      if (e->op != Op::kSelect) return values_.Op(e->op, DType::kBool, {*condition, *a});
      auto b = Build(e->args[2], env, otherwise);
      if (!b.ok()) return b;
      return values_.Op(Op::kSelect, e->type, {*condition, *a, *b});
    }
    default:
      break;
  }
  std::vector<ValuePtr> args;
  for (const graph::ExprPtr& arg : e->args) {
    auto value = Build(arg, env, guard);
    if (!value.ok()) return value;
    args.push_back(*value);
  }
  if (args.size() == 2 && args[0]->type == DType::kI64) {
    if (ValuePtr value = Integer(e->op, args[0], args[1])) return value;
  }
  // The divisor of a division that is not reached may be zero.
  if ((e->op == Op::kDiv || e->op == Op::kMod) && !graph::IsFloat(e->type) && !guard.empty() &&
      (args[1]->kind != Value::Kind::kConst || args[1]->integer == 0)) {
    ValuePtr zero = values_.Op(Op::kEq, DType::kBool, {args[1], values_.ConstInt(e->type, 0)});
    args[1] = values_.Op(Op::kSelect, e->type, {zero, values_.ConstInt(e->type, 1), args[1]});
  }
  return values_.Op(e->op, e->type, args);
}

absl::StatusOr<ValuePtr> Inliner::Get(int tensor, std::vector<Index> at, const Guard& guard) {
  Key key{tensor, std::move(at), guard};
  auto found = memo_.find(key);
  if (found != memo_.end()) return found->second;
  auto value = GetUncached(tensor, std::get<1>(key), guard);
  if (value.ok()) memo_[std::move(key)] = *value;
  return value;
}

absl::StatusOr<ValuePtr> Inliner::GetUncached(int tensor, const std::vector<Index>& at,
                                              const Guard& guard) {
  if (access_.in_memory(tensor)) return LoadFromMemory(tensor, at, guard);
  const int id = graph_.tensors[tensor].node;
  const graph::Node& node = graph_.nodes[id];
  if (access_.observe) access_.observe(tensor, at);
  if (node.map()) return Build(node.value, at, guard);
  if (access_.stage) {
    auto result = access_.stage(tensor, at);
    if (!result.ok()) return result;
    if (*result != nullptr) return *result;
  }
  if (node.scan) {
    return absl::InvalidArgumentError(
        absl::StrCat("scan '", graph_.tensors[tensor].name,
                     "' cannot be computed where it is used; make it a group"));
  }
  return Serial(id, node.outputs[0] == tensor ? 0 : 1, at, guard);
}

absl::StatusOr<ValuePtr> Inliner::Serial(int id, int output, const std::vector<Index>& at,
                                         const Guard& guard) {
  const graph::Node& node = graph_.nodes[id];
  const graph::Tensor& tensor = graph_.tensors[node.outputs[0]];
  int64_t elements = 1;
  for (const graph::Axis& axis : node.reduce_axes) elements *= axis.extent;
  if (elements > kMaxSerialElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduce '", tensor.name, "' has ", elements, " elements, more than the ",
                     kMaxSerialElements, " that one thread takes; make it a group of its own"));
  }
  const bool indexed =
      node.combiner == graph::Combiner::kArgMax || node.combiner == graph::Combiner::kArgMin;
  const int64_t most = in_loops_ > 0 ? kMaxWrittenOutInLoop : kMaxWrittenOut;
  if (access_.write_out && !indexed && elements <= most &&
      written_out_ * elements <= kMaxWrittenOutTogether) {
    written_out_ *= elements;
    auto total = WrittenOut(node, at, 0, guard);
    written_out_ /= elements;
    return total;
  }
  std::vector<Index> env = at;
  // The same loop variables wherever the reduce stands: it never stands within itself.
  std::vector<Variable>& loops = loops_[id];
  if (loops.empty()) {
    for (const graph::Axis& axis : node.reduce_axes) {
      loops.push_back(
          values_.NewVariable(absl::StrCat("n", loops.size(), "_", id), {0, axis.extent - 1}));
    }
  }
  for (const Variable& loop : loops) env.push_back(Index::Of(loop));
  if (values_.full()) {
    return absl::InvalidArgumentError(absl::StrCat("reduce '", tensor.name,
                                                   "' is nested too deeply "
                                                   "in one kernel; make it a group of its own"));
  }
  ++in_loops_;
  auto body = Build(node.value, env, guard);
  --in_loops_;
  if (!body.ok()) return body;
  // Both outputs of an argmax come from one loop.
  if (indexed) {
    for (int o = 0; o < 2; ++o) {
      memo_[Key{node.outputs[o], at, guard}] =
          values_.Reduce(id, o, o == 0 ? tensor.type : DType::kI64, loops, *body);
    }
  }
  return values_.Reduce(id, output, output == 0 ? tensor.type : DType::kI64, loops, *body);
}

absl::StatusOr<ValuePtr> Inliner::WrittenOut(const graph::Node& node, std::vector<Index> env,
                                             size_t axis, const Guard& guard) {
  if (axis == node.reduce_axes.size()) return Build(node.value, env, guard);
  ValuePtr total = nullptr;
  env.push_back(Index(0));
  for (int64_t i = 0; i < node.reduce_axes[axis].extent; ++i) {
    env.back() = Index(i);
    auto part = WrittenOut(node, env, axis + 1, guard);
    if (!part.ok()) return part;
    if (total == nullptr) {
      total = *part;
      continue;
    }
    const bool boolean = (*part)->type == DType::kBool;
    switch (node.combiner) {
      case graph::Combiner::kSum:
        total = values_.Op(Op::kAdd, total->type, {total, *part});
        break;
      case graph::Combiner::kProd:
        total = values_.Op(Op::kMul, total->type, {total, *part});
        break;
      case graph::Combiner::kMax:
        total = values_.Op(boolean ? Op::kOr : Op::kMax, total->type, {total, *part});
        break;
      default:
        total = values_.Op(boolean ? Op::kAnd : Op::kMin, total->type, {total, *part});
        break;
    }
  }
  return total;
}

// A number as the index that a condition here says it is, if that stays inside anyway: what reads
// part 3 of a tensor where the part is 3 reads what all parts read of theirs, in one load.
Index Inliner::AsItStands(const Index& number, int64_t extent, const Guard& guard) {
  if (!number.is_constant()) return number;
  for (ValuePtr condition : guard) {
    if (!IsEquation(condition) || condition->index.has_opaque()) continue;
    // Of the two ways to say it that which has no sign, as who reads all parts has it.
    const bool turned = condition->index.terms()[0].coefficient < 0;
    const Index same = (turned ? condition->index * -1 : condition->index) + number;  // index == 0
    if (same.constant() == 0 && same.range().Within(0, extent - 1)) return same;
  }
  return number;
}

// Of the conditions that hold here, those that keep the load inside its tensor; nullptr if it is
// inside anyway. If that cannot be shown, all of them.
ValuePtr Inliner::NeededGuard(const graph::Tensor& tensor, const std::vector<Index>& at,
                              const Guard& guard) {
  if (guard.empty()) return nullptr;
  Guard needed;
  bool shown = true;
  for (size_t axis = 0; axis < at.size() && shown; ++axis) {
    // Both ends: low end `index >= 0`, high end `extent - 1 - index >= 0`.
    for (const Index& end : {at[axis], Index(tensor.shape[axis] - 1) - at[axis]}) {
      if (end.range().low >= 0) continue;
      bool found = false;
      for (ValuePtr condition : guard) {
        if (condition->kind != Value::Kind::kCompare || condition->op != Op::kLe) continue;
        if ((end - condition->index).range().low >= 0) {
          AddCondition(condition, needed);
          found = true;
          break;
        }
      }
      shown = shown && found;
    }
  }
  if (!shown) needed = guard;
  ValuePtr all = nullptr;
  for (ValuePtr condition : needed) {
    all = all == nullptr ? condition : values_.Op(Op::kAnd, DType::kBool, {all, condition});
  }
  return all;
}

ValuePtr Inliner::LoadFromMemory(int tensor, std::vector<Index> at, const Guard& guard) {
  const graph::Tensor& t = graph_.tensors[tensor];
  for (size_t axis = 0; axis < at.size(); ++axis) {
    at[axis] = AsItStands(at[axis], t.shape[axis], guard);
  }
  return values_.Load(tensor, t.type, Flatten(at, t.shape), NeededGuard(t, at, guard));
}

}  // namespace warpsmith::codegen
