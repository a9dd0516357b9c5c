// Expression builders: type checks, folding of constants, and the few simplifications that index
// arithmetic needs to stay readable.
#include <cmath>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/graph.h"
#include "common/graph/numeric.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

ExprPtr Make(Op op, DType type, std::vector<ExprPtr> args) {
  auto e = std::make_shared<Expr>();
  e->op = op;
  e->type = type;
  e->args = std::move(args);
  return e;
}

bool IsConst(const ExprPtr& e) { return e->op == Op::kConst; }
bool IsConst(const ExprPtr& e, int64_t value) {
  return IsConst(e) && !IsFloat(e->type) && e->integer == value;
}
bool IsConstFloat(const ExprPtr& e, double value) {
  return IsConst(e) && IsFloat(e->type) && e->number == value &&
         std::signbit(e->number) == std::signbit(value);
}

ExprPtr Bool(bool value) { return ConstInt(DType::kBool, value); }

// Constants this small can be added and negated without thought of overflow.
bool Small(int64_t value) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  return -kLimit < value && value < kLimit;
}

// x + c for i64, gathering the constants of a chain of additions into one.
ExprPtr AddConstant(const ExprPtr& x, int64_t c) {
  if (IsConst(x)) return ConstInt(DType::kI64, ApplyInteger(Op::kAdd, DType::kI64, x->integer, c));
  if ((x->op == Op::kAdd || x->op == Op::kSub) && IsConst(x->args[1])) {
    const int64_t k = x->op == Op::kAdd ? x->args[1]->integer : -x->args[1]->integer;
    if (Small(x->args[1]->integer) && Small(k + c)) return AddConstant(x->args[0], k + c);
  }
  if (c == 0) return x;
  if (c < 0) return Make(Op::kSub, DType::kI64, {x, ConstInt(DType::kI64, -c)});
  return Make(Op::kAdd, DType::kI64, {x, ConstInt(DType::kI64, c)});
}

ExprPtr FoldBinary(Op op, const OpInfo& info, const ExprPtr& a, const ExprPtr& b) {
  const DType type = a->type;
  if (info.gives_bool) {
    return Bool(IsFloat(type) ? CompareFloat(op, a->number, b->number)
                              : CompareInteger(op, a->integer, b->integer));
  }
  if (IsFloat(type)) return Const(type, ApplyFloat(op, a->number, b->number));
  if ((op == Op::kDiv || op == Op::kMod) && b->integer == 0) return nullptr;  // an error when run
  return ConstInt(type, ApplyInteger(op, type, a->integer, b->integer));
}

// Simplifications of a op b that hold for every value; nullptr if there is none.
ExprPtr SimplifyInteger(Op op, const ExprPtr& a, const ExprPtr& b) {
  const DType type = a->type;
  const bool index = type == DType::kI64;
  switch (op) {
    case Op::kAdd:
      if (IsConst(a, 0)) return b;
      if (IsConst(b, 0)) return a;
      if (index && IsConst(a) && Small(a->integer)) return AddConstant(b, a->integer);
      if (index && IsConst(b) && Small(b->integer)) return AddConstant(a, b->integer);
      return nullptr;
    case Op::kSub:
      if (IsConst(b, 0)) return a;
      if (index && IsConst(b) && Small(b->integer)) return AddConstant(a, -b->integer);
      return nullptr;
    case Op::kMul:
      if (IsConst(a) && !IsConst(b)) return Binary(Op::kMul, b, a);  // the constant on the right
      if (IsConst(b, 0)) return ConstInt(type, 0);
      if (IsConst(b, 1)) return a;
      if (IsConst(b) && a->op == Op::kMul && IsConst(a->args[1])) {
        return Binary(Op::kMul, a->args[0], Binary(Op::kMul, a->args[1], b));
      }
      return nullptr;
    case Op::kDiv:
      return IsConst(b, 1) ? a : nullptr;
    case Op::kMod:
      return IsConst(b, 1) ? ConstInt(type, 0) : nullptr;
    default:
      return nullptr;
  }
}

ExprPtr SimplifyFloat(Op op, const ExprPtr& a, const ExprPtr& b) {
  switch (op) {
    case Op::kAdd:
      if (IsConstFloat(a, -0.0)) return b;
      return IsConstFloat(b, -0.0) ? a : nullptr;
    case Op::kSub:
      return IsConstFloat(b, 0.0) ? a : nullptr;
    case Op::kMul:
      if (IsConstFloat(a, 1.0)) return b;
      return IsConstFloat(b, 1.0) ? a : nullptr;
    case Op::kDiv:
      return IsConstFloat(b, 1.0) ? a : nullptr;
    default:
      return nullptr;
  }
}

// `and` and `or`: a constant on either side decides or drops out; nothing has side effects.
ExprPtr SimplifyLogic(Op op, const ExprPtr& a, const ExprPtr& b) {
  const int64_t neutral = op == Op::kAnd;
  if (IsConst(a)) return a->integer == neutral ? b : a;
  if (IsConst(b)) return b->integer == neutral ? a : b;
  return nullptr;
}

// The same operator over other arguments of the same types, simplified again.
ExprPtr Rebuild(const ExprPtr& e, std::vector<ExprPtr> args) {
  switch (e->op) {
    case Op::kSelect:
      return Select(args[0], args[1], args[2]);
    case Op::kCast:
      return Cast(e->type, args[0]);
    case Op::kLoad: {
      auto load = std::make_shared<Expr>(*e);
      load->args = std::move(args);
      return load;
    }
    default:
      return args.size() == 1 ? Unary(e->op, args[0]) : Binary(e->op, args[0], args[1]);
  }
}

// Each part is done once, so that what was shared stays shared.
class Substitution {
 public:
  explicit Substitution(const std::vector<ExprPtr>& vars) : vars_(vars) {}

  ExprPtr Apply(const ExprPtr& e) {
    if (e->op == Op::kIndex) {
      return e->var < vars_.size() && vars_[e->var] != nullptr ? vars_[e->var] : e;
    }
    if (e->args.empty()) return e;
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
    std::vector<ExprPtr> args;
    bool changed = false;
    for (const ExprPtr& arg : e->args) {
      args.push_back(Apply(arg));
      changed |= args.back() != arg;
    }
    return done_[e.get()] = changed ? Rebuild(e, std::move(args)) : e;
  }

 private:
  const std::vector<ExprPtr>& vars_;
  std::unordered_map<const Expr*, ExprPtr> done_;
};

}  // namespace

ExprPtr Const(DType type, double number) {
  if (!IsFloat(type)) {
    WS_CHECK(std::trunc(number) == number && number >= -0x1p63 && number < 0x1p63,
             absl::StrCat(number, " is no ", NameOf(type)));
    return ConstInt(type, static_cast<int64_t>(number));
  }
  auto e = std::make_shared<Expr>();
  e->op = Op::kConst;
  e->type = type;
  e->number = RoundTo(type, number);
  return e;
}

ExprPtr ConstInt(DType type, int64_t integer) {
  WS_CHECK(!IsFloat(type), absl::StrCat("an integer constant of type ", NameOf(type)));
  auto e = std::make_shared<Expr>();
  e->op = Op::kConst;
  e->type = type;
  e->integer = WrapTo(type, integer);
  return e;
}

ExprPtr Index(int var) {
  WS_CHECK(var >= 0, "a negative index variable");
  auto e = std::make_shared<Expr>();
  e->op = Op::kIndex;
  e->type = DType::kI64;
  e->var = var;
  return e;
}

ExprPtr Load(const Graph& graph, int tensor, std::vector<ExprPtr> indexes) {
  WS_CHECK(tensor >= 0 && tensor < graph.tensors.size(), absl::StrCat("no tensor ", tensor));
  const Tensor& t = graph.tensors[tensor];
  WS_CHECK(indexes.size() == t.shape.size(),
           absl::StrCat(indexes.size(), " indexes for '", t.name, "' of rank ", t.shape.size()));
  for (const ExprPtr& index : indexes) {
    WS_CHECK(index->type == DType::kI64, absl::StrCat("an index of '", t.name, "' is no i64"));
  }
  auto e = std::make_shared<Expr>();
  e->op = Op::kLoad;
  e->type = t.type;
  e->tensor = tensor;
  e->args = std::move(indexes);
  return e;
}

ExprPtr Unary(Op op, ExprPtr a) {
  const OpInfo* info = FindOp(op);
  WS_CHECK(info != nullptr && info->args == 1, "not a unary operator");
  WS_CHECK(Takes(info->accepts, a->type), absl::StrCat("'", info->name, "' of ", NameOf(a->type)));
  if (IsConst(a)) {
    if (op == Op::kNot) return Bool(a->integer == 0);
    if (op == Op::kIsNan) return Bool(std::isnan(a->number));
    return IsFloat(a->type) ? Const(a->type, ApplyFloat(op, a->number))
                            : ConstInt(a->type, ApplyInteger(op, a->type, a->integer));
  }
  if ((op == Op::kNeg || op == Op::kNot) && a->op == op) return a->args[0];
  const DType type = info->gives_bool ? DType::kBool : a->type;
  return Make(op, type, {std::move(a)});
}

ExprPtr Binary(Op op, ExprPtr a, ExprPtr b) {
  const OpInfo* info = FindOp(op);
  WS_CHECK(info != nullptr && info->args == 2, "not a binary operator");
  WS_CHECK(a->type == b->type && Takes(info->accepts, a->type),
           absl::StrCat("'", info->name, "' of ", NameOf(a->type), " and ", NameOf(b->type)));
  ExprPtr simple;
  if (op == Op::kAnd || op == Op::kOr) {
    simple = SimplifyLogic(op, a, b);
  } else if (IsConst(a) && IsConst(b)) {
    simple = FoldBinary(op, *info, a, b);
  } else if (IsFloat(a->type)) {
    simple = SimplifyFloat(op, a, b);
  } else {
    simple = SimplifyInteger(op, a, b);
  }
  if (simple != nullptr) return simple;
  const DType type = info->gives_bool ? DType::kBool : a->type;
  return Make(op, type, {std::move(a), std::move(b)});
}

ExprPtr Select(ExprPtr condition, ExprPtr a, ExprPtr b) {
  WS_CHECK(condition->type == DType::kBool, "the condition of a select is no bool");
  WS_CHECK(a->type == b->type,
           absl::StrCat("select of ", NameOf(a->type), " and ", NameOf(b->type)));
  if (IsConst(condition)) return condition->integer != 0 ? a : b;
  const DType type = a->type;
  return Make(Op::kSelect, type, {std::move(condition), std::move(a), std::move(b)});
}

ExprPtr Cast(DType type, ExprPtr a) {
  if (a->type == type) return a;
  if (IsConst(a)) {
    if (IsFloat(type)) {
      return Const(type, IsFloat(a->type) ? a->number : static_cast<double>(a->integer));
    }
    return ConstInt(type, IsFloat(a->type) ? FloatToInteger(a->type, type, a->number) : a->integer);
  }
  return Make(Op::kCast, type, {std::move(a)});
}

bool Same(const ExprPtr& a, const ExprPtr& b) {
  if (a == b) return true;
  if (a->op != b->op || a->type != b->type || a->var != b->var || a->tensor != b->tensor ||
      a->integer != b->integer || a->args.size() != b->args.size()) {
    return false;
  }
  if (std::isnan(a->number)
          ? !std::isnan(b->number)
          : a->number != b->number || std::signbit(a->number) != std::signbit(b->number)) {
    return false;
  }
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!Same(a->args[i], b->args[i])) return false;
  }
  return true;
}

ExprPtr Substitute(const ExprPtr& e, const std::vector<ExprPtr>& vars) {
  return Substitution(vars).Apply(e);
}

}  // namespace warpsmith::graph
