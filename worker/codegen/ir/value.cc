#include "worker/codegen/ir/value.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "absl/hash/hash.h"
#include "common/base/check.h"
#include "common/graph/numeric.h"

namespace warpsmith::codegen {

using graph::DType;
using GraphOp = graph::Op;

double StepsOf(graph::Op op) {
  switch (op) {
    case graph::Op::kExp:
    case graph::Op::kLog:
    case graph::Op::kTanh:
    case graph::Op::kErf:
    case graph::Op::kPow:
    case graph::Op::kSin:
    case graph::Op::kCos:
    case graph::Op::kLog1p:
    case graph::Op::kExpm1:
    case graph::Op::kDiv:
      return 12;
    case graph::Op::kRandom:
      return 64;  // ten rounds of two wide products, and what joins them
    default:
      return 1;
  }
}

bool IsConst(ValuePtr value, int64_t integer) {
  return value->kind == Value::Kind::kConst && !graph::IsFloat(value->type) &&
         value->integer == integer;
}

void ForEachOpaque(const Index& index, const std::function<void(int)>& f) {
  for (const Index::Term& term : index.terms()) {
    if (term.atom->kind == Atom::Kind::kOpaque) f(term.atom->value);
    if (term.atom->inner) ForEachOpaque(*term.atom->inner, f);
  }
}

Variable Values::NewVariable(const std::string& name, Range range, int64_t multiple) {
  Variable variable;
  // One too many is noticed by full(); ids stay in range until then.
  variable.id = std::min(next_variable_, kMaxVariables - 1);
  ++next_variable_;
  variable.name = name;
  variable.range = range;
  variable.multiple = multiple;
  return variable;
}

namespace {

// Whether the larger (kMax) or smaller of a value and this number is the value, if it is one. Zero
// has two signs.
bool IsWithin(GraphOp bound, ValuePtr value, double number) {
  if (number == 0 || value->kind != Value::Kind::kOp) return false;
  if (value->op != GraphOp::kMin && value->op != GraphOp::kMax) return false;
  const auto beyond = [&](ValuePtr arg) {
    const bool is = arg->kind == Value::Kind::kConst &&
                    (bound == GraphOp::kMax ? arg->number >= number : arg->number <= number);
    return is || IsWithin(bound, arg, number);
  };
  const bool first = beyond(value->args[0]), second = beyond(value->args[1]);
  return value->op == bound ? first || second : first && second;
}

// What tells a value from others beside its index, arguments and loops.
auto NumbersOf(const Value& v) {
  return std::make_tuple(v.kind, v.type, v.op, std::bit_cast<uint64_t>(v.number), v.integer,
                         v.tensor, v.node, v.output);
}

}  // namespace

size_t Values::SameContent::operator()(ValuePtr value) const {
  return absl::HashOf(NumbersOf(*value), value->index, value->args);
}

bool Values::SameContent::operator()(ValuePtr a, ValuePtr b) const {
  return NumbersOf(*a) == NumbersOf(*b) && a->args == b->args && a->index == b->index &&
         std::equal(a->loops.begin(), a->loops.end(), b->loops.begin(), b->loops.end(),
                    [](const Variable& x, const Variable& y) { return x.id == y.id; });
}

ValuePtr Values::Intern(Value value) {
  auto found = interned_.find(&value);
  if (found != interned_.end()) return *found;
  value.id = static_cast<int>(values_.size());
  for (ValuePtr arg : value.args) {
    value.variables |= arg->variables;
    value.stage = std::max(value.stage, arg->stage);
    value.loads |= arg->loads;
  }
  value.variables |= value.index.variables();
  ForEachOpaque(value.index, [&](int id) {
    value.stage = std::max(value.stage, Get(id)->stage);
    value.loads |= Get(id)->loads;
  });
  for (const Variable& loop : value.loops) value.variables &= ~(uint64_t{1} << loop.id);
  if (value.kind == Value::Kind::kLoad) value.loads = true;
  values_.push_back(std::make_unique<Value>(std::move(value)));
  interned_.insert(values_.back().get());
  return values_.back().get();
}

ValuePtr Values::Const(DType type, double number) {
  if (!graph::IsFloat(type)) return ConstInt(type, static_cast<int64_t>(number));
  Value value{Value::Kind::kConst, type};
  value.number = graph::RoundTo(type, number);
  return Intern(std::move(value));
}

ValuePtr Values::ConstInt(DType type, int64_t integer) {
  Value value{Value::Kind::kConst, type};
  value.integer = graph::WrapTo(type, integer);
  return Intern(std::move(value));
}

ValuePtr Values::OfIndex(const Index& index) {
  if (index.is_constant()) return ConstInt(DType::kI64, index.constant());
  if (index.terms().size() == 1 && index.constant() == 0 && index.terms()[0].coefficient == 1 &&
      index.terms()[0].atom->kind == Atom::Kind::kOpaque) {
    ValuePtr value = Get(index.terms()[0].atom->value);
    if (value->type == DType::kI64) return value;
  }
  Value value{Value::Kind::kIndex, DType::kI64};
  value.index = index;
  return Intern(std::move(value));
}

namespace {

// Every value of the narrow type is one of the wide type.
bool HoldsAll(DType wide, DType narrow) {
  return graph::IsFloat(wide) && graph::IsFloat(narrow) &&
         graph::SizeOf(wide) > graph::SizeOf(narrow);
}

}  // namespace

ValuePtr Values::Compare(GraphOp op, const Index& index) {
  const Range range = index.range();
  if (op == GraphOp::kLe) {
    if (range.low >= 0) return Bool(true);
    if (range.high < 0) return Bool(false);
  } else {
    if (range.low == 0 && range.high == 0) return Bool(true);
    if (range.low > 0 || range.high < 0) return Bool(false);
    const int64_t multiple = Index(index - Index(index.constant())).multiple();
    if (multiple > 1 && index.constant() % multiple != 0) return Bool(false);
  }
  Value value{Value::Kind::kCompare, DType::kBool};
  value.op = op;
  value.index = op == GraphOp::kLe ? WithoutLanes(index) : index;
  return Intern(std::move(value));
}

ValuePtr Values::Load(int tensor, DType type, const Index& position, ValuePtr guard) {
  Value value{Value::Kind::kLoad, type};
  value.tensor = tensor;
  value.index = position;
  // A load that happens anyway serves those that need a condition.
  auto plain = interned_.find(&value);
  if (plain != interned_.end()) return *plain;
  if (guard != nullptr) value.args.push_back(guard);
  return Intern(std::move(value));
}

namespace {

// A logarithm that many values of `other` meet.
bool IsSharedLog(ValuePtr log, ValuePtr other) {
  return log->kind == Value::Kind::kOp && log->op == GraphOp::kLog && log->output == 0 &&
         log->type != DType::kF64 && log->variables != other->variables &&
         (log->variables & ~other->variables) == 0;
}

}  // namespace

ValuePtr Values::PartOfLog(ValuePtr log, int part) {
  Value value{Value::Kind::kOp, log->type};
  value.op = GraphOp::kLog;
  value.output = part;
  value.args = log->args;
  return Intern(std::move(value));
}

namespace {

// x of log1p(exp(x)), or of that with x itself where it is more than some number of which the two
// differ by less than fp64 shows of their tanh; null: it is neither.
ValuePtr OfSoftplus(ValuePtr value) {
  constexpr double kLeastThreshold = 16;
  const auto is = [](ValuePtr v, GraphOp op) {
    return v->kind == Value::Kind::kOp && v->op == op && v->output == 0;
  };
  ValuePtr above = nullptr;
  if (is(value, GraphOp::kSelect)) {
    const ValuePtr condition = value->args[0];
    above = value->args[1];
    if (!is(condition, GraphOp::kLt) || condition->args[1] != above ||
        condition->args[0]->kind != Value::Kind::kConst ||
        !(condition->args[0]->number >= kLeastThreshold))
      return nullptr;
    value = value->args[2];
  }
  if (!is(value, GraphOp::kLog1p) || !is(value->args[0], GraphOp::kExp)) return nullptr;
  const ValuePtr x = value->args[0]->args[0];
  return above == nullptr || above == x ? x : nullptr;
}

}  // namespace

ValuePtr Values::Op(GraphOp op, DType type, std::vector<ValuePtr> args) {
  // tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), which takes a third: Mish is most of what
  // becomes of a convolution's sums. As accurate: nothing cancels. Beyond 20 it is 1.
  if (op == GraphOp::kTanh && (type == DType::kF32 || type == DType::kF64)) {
    if (const ValuePtr x = OfSoftplus(args[0]); x != nullptr) {
      const ValuePtr e = Op(GraphOp::kExp, type, {Op(GraphOp::kMin, type, {x, Const(type, 20)})});
      const ValuePtr two = Const(type, 2);
      const ValuePtr n = Op(GraphOp::kMul, type, {e, Op(GraphOp::kAdd, type, {e, two})});
      return Op(GraphOp::kDiv, type, {n, Op(GraphOp::kAdd, type, {n, two})});
    }
  }
  // What is added to many values has its rounding in all of them, where they do not average out:
  // the logarithm of a sum over 1,000 is 7 give or take 2e-7, and what is left of a difference of
  // two such log-softmaxes may be 1e-4. So it is added as two parts, first the one with more
  // digits.
  if (op == GraphOp::kAdd || op == GraphOp::kSub) {
    for (const int log : {1, 0}) {
      if (!IsSharedLog(args[log], args[1 - log])) continue;
      const ValuePtr whole = PartOfLog(args[log], kLogWhole);
      args[log] = PartOfLog(args[log], kLogRest);
      const GraphOp last = log == 1 ? op : GraphOp::kAdd;
      const ValuePtr near = Op(op, type, std::move(args));
      return Op(last, type, {near, whole});
    }
  }
  // Conditions become constants when ranges decide comparisons; what hangs on them folds.
  switch (op) {
    case GraphOp::kMin:
    case GraphOp::kMax:
      for (int i : {0, 1}) {
        if (graph::IsFloat(type) && args[i]->kind == Value::Kind::kConst &&
            IsWithin(op, args[1 - i], args[i]->number))
          return args[1 - i];
      }
      break;
    case GraphOp::kLt:
    case GraphOp::kLe:
      if (!graph::IsFloat(args[0]->type)) {
        const Range a = RangeOf(args[0]), b = RangeOf(args[1]);
        const bool strict = op == GraphOp::kLt;
        if (a.high < b.low || (!strict && a.high == b.low)) return Bool(true);
        if (a.low > b.high || (strict && a.low == b.high)) return Bool(false);
      }
      break;
    case GraphOp::kAnd:
      if (IsConst(args[0], 0) || IsConst(args[1], 1)) return args[0];
      if (IsConst(args[1], 0) || IsConst(args[0], 1)) return args[1];
      if (args[0] == args[1]) return args[0];
      break;
    case GraphOp::kOr:
      if (IsConst(args[0], 1) || IsConst(args[1], 0)) return args[0];
      if (IsConst(args[1], 1) || IsConst(args[0], 0)) return args[1];
      if (args[0] == args[1]) return args[0];
      break;
    case GraphOp::kNot:
      if (args[0]->kind == Value::Kind::kConst) return Bool(args[0]->integer == 0);
      if (args[0]->kind == Value::Kind::kOp && args[0]->op == GraphOp::kNot)
        return args[0]->args[0];
      if (args[0]->kind == Value::Kind::kCompare && args[0]->op == GraphOp::kLe) {
        return Compare(GraphOp::kLe, args[0]->index * -1 - Index(1));  // not 0 <= x: 0 <= -x - 1
      }
      break;
    case GraphOp::kSelect:
      if (args[0]->kind == Value::Kind::kConst) return args[0]->integer ? args[1] : args[2];
      if (args[1] == args[2]) return args[1];
      break;
    case GraphOp::kCast:
      if (args[0]->type == type) return args[0];
      // There and back through a wider type.
      if (args[0]->kind == Value::Kind::kOp && args[0]->op == GraphOp::kCast &&
          args[0]->args[0]->type == type && HoldsAll(args[0]->type, type)) {
        return args[0]->args[0];
      }
      if (args[0]->kind == Value::Kind::kConst) {
        const bool from_float = graph::IsFloat(args[0]->type);
        if (graph::IsFloat(type)) {
          return Const(type, from_float ? args[0]->number : static_cast<double>(args[0]->integer));
        }
        return ConstInt(type, from_float
                                  ? graph::FloatToInteger(args[0]->type, type, args[0]->number)
                                  : args[0]->integer);
      }
      break;
    default:
      break;
  }
  Value value{Value::Kind::kOp, type};
  value.op = op;
  value.args = std::move(args);
  return Intern(std::move(value));
}

ValuePtr Values::Result(int node, int output, int stage, DType type, uint64_t variables) {
  Value value{Value::Kind::kResult, type};
  value.node = node;
  value.output = output;
  value.stage = stage;
  value.variables = variables;
  return Intern(std::move(value));
}

ValuePtr Values::Reduce(int node, int output, DType type, std::vector<Variable> loops,
                        ValuePtr body) {
  Value value{Value::Kind::kReduce, type};
  value.node = node;
  value.output = output;
  value.loops = std::move(loops);
  value.args = {body};
  return Intern(std::move(value));
}

Range Values::RangeOf(ValuePtr value) const {
  if (value->kind == Value::Kind::kConst && !graph::IsFloat(value->type)) {
    return {value->integer, value->integer};
  }
  if (value->kind == Value::Kind::kIndex) return value->index.range();
  if (value->type == DType::kBool) return {0, 1};
  if (value->kind == Value::Kind::kOp) {
    auto range = [&](int i) { return RangeOf(value->args[i]); };
    switch (value->op) {
      case GraphOp::kMin: {
        const Range a = range(0), b = range(1);
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      case GraphOp::kMax: {
        const Range a = range(0), b = range(1);
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      case GraphOp::kAbs: {
        const Range a = range(0);
        if (a.low <= -kUnbounded) break;
        return {std::max<int64_t>({0, a.low, -a.high}),
                std::max(std::abs(a.low), std::abs(a.high))};
      }
      case GraphOp::kSelect: {
        const Range a = range(1), b = range(2);
        return {std::min(a.low, b.low), std::max(a.high, b.high)};
      }
      case GraphOp::kCast:
        if (!graph::IsFloat(value->args[0]->type)) {
          const Range a = range(0);
          if (value->type == DType::kI64 ||
              a.Within(graph::LowestOf(value->type), graph::HighestOf(value->type)))
            return a;
        }
        break;
      case GraphOp::kAdd:
      case GraphOp::kSub: {
        const Range a = range(0), b = range(1);
        constexpr int64_t kLarge = int64_t{1} << 40;
        if (!a.Within(-kLarge, kLarge) || !b.Within(-kLarge, kLarge)) break;
        const Range sum = value->op == GraphOp::kAdd ? Range{a.low + b.low, a.high + b.high}
                                                     : Range{a.low - b.high, a.high - b.low};
        if (value->type == DType::kI64 ||
            sum.Within(graph::LowestOf(value->type), graph::HighestOf(value->type)))
          return sum;
        break;
      }
      case GraphOp::kRandom:
        return {0, (1 << 24) - 1};
      case GraphOp::kMod:
      case GraphOp::kDiv: {
        // By a positive constant, rounded down.
        const ValuePtr by = value->args[1];
        if (by->kind != Value::Kind::kConst || by->integer <= 0) break;
        if (value->op == GraphOp::kMod) return {0, by->integer - 1};
        const Range a = range(0);
        if (a.low < 0) break;
        return {a.low / by->integer, a.high / by->integer};
      }
      default:
        break;
    }
  }
  if (value->type == DType::kI32 || graph::IsNarrow(value->type)) {
    return {graph::LowestOf(value->type), graph::HighestOf(value->type)};
  }
  return {};
}

Index Values::AsIndex(ValuePtr value) const {
  if (value->kind == Value::Kind::kConst) return Index(value->integer);
  if (value->kind == Value::Kind::kIndex) return value->index;
  return Index::Opaque(value->id, RangeOf(value), value->variables);
}

void Values::ForEachChild(ValuePtr value, const std::function<void(ValuePtr)>& f) const {
  for (ValuePtr arg : value->args) f(arg);
  ForEachOpaque(value->index, [&](int id) { f(Get(id)); });
}

std::vector<ValuePtr> Values::Closure(const std::vector<ValuePtr>& roots,
                                      const std::function<bool(ValuePtr)>& known) const {
  std::vector<ValuePtr> order;
  std::vector<bool> seen(values_.size());
  std::function<void(ValuePtr)> visit = [&](ValuePtr value) {
    if (seen[value->id]) return;
    seen[value->id] = true;
    if (known == nullptr || !known(value)) ForEachChild(value, visit);
    order.push_back(value);
  };
  for (ValuePtr root : roots) visit(root);
  return order;
}

}  // namespace warpsmith::codegen
