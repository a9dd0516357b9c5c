#include "worker/codegen/ir/emit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "worker/codegen/ir/halves.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::DType;
using graph::Op;

namespace {

// Loops of up to this many steps in all are unrolled by the compiler.
constexpr int64_t kUnrolledSteps = 32;
// A float's running sum takes this many terms before it is added to the sum above it, so that
// errors grow with the root of a sum's length at most.
constexpr int64_t kChain = 32;
// Expressions longer than this get a name even if they are used once.
constexpr size_t kLongExpression = 90;

// `range`: of a. Where 32 bits hold it they are enough, whatever the type: a division of 64 bits is
// several times as long.
std::string Floor(const std::string& a, int64_t divisor, const char* op, Range range,
                  const std::string& type) {
  if (range.low < 0) {
    const char* f = op[0] == '/' ? "ws::floor_div" : "ws::floor_mod";
    return StrCat(f, "<", type, ">(", a, ", ", divisor, ")");
  }
  const bool fits = type == "int" || range.high <= std::numeric_limits<int32_t>::max();
  const std::string u =
      fits && divisor <= std::numeric_limits<int32_t>::max() ? "unsigned" : "unsigned long long";
  return StrCat("static_cast<", type, ">(static_cast<", u, ">(", a, ") ", op, " ", divisor, "u)");
}

// A whole number because something was rounded to one, and then kept between whole numbers.
bool IsWhole(ValuePtr value) {
  if (value->kind != Value::Kind::kOp || !graph::IsFloat(value->type)) return false;
  if (value->op == Op::kRound) return true;
  return (value->op == Op::kMin || value->op == Op::kMax) && IsWhole(value->args[0]) &&
         value->args[1]->kind == Value::Kind::kConst &&
         value->args[1]->number == std::rint(value->args[1]->number);
}

}  // namespace

std::string Identifier(const std::string& name) {
  std::string id;
  for (char c : name) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return id;
}

std::string Indented(const std::string& code) {
  std::string indented;
  int depth = 0;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(code, "\n"), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const bool closes = absl::StartsWith(line, "}");
    if (!line.empty() && line[0] != '#') indented.append(2 * std::max(0, depth - closes), ' ');
    absl::StrAppend(&indented, line, "\n");
    depth += static_cast<int>(std::count(line.begin(), line.end(), '{') -
                              std::count(line.begin(), line.end(), '}'));
  }
  return indented;
}

Emitter::Emitter(const Dialect& dialect, uint64_t variables)
    : dialect_(dialect), given_(variables) {
  scopes_.push_back({"", false, variables, {}, {}, {}, {}});
}

std::string Emitter::NewName(const std::string& prefix) { return StrCat(prefix, names_++); }

void Emitter::Expect(const std::vector<ValuePtr>& values) {
  for (ValuePtr value : values) ++uses_[value->id];
  for (ValuePtr value : dialect_.values->Closure(values)) {
    if (IsBound(value)) continue;
    // Spelled twice in the text.
    const bool twice =
        value->kind == Value::Kind::kOp && (value->op == Op::kPow || value->op == Op::kSign);
    dialect_.values->ForEachChild(value,
                                  [&](ValuePtr child) { uses_[child->id] += twice ? 2 : 1; });
  }
}

void Emitter::Open(const std::string& header, uint64_t variables, bool unroll) {
  const Scope& outer = scopes_.back();
  const uint64_t known = outer.variables | variables;
  scopes_.push_back({header, unroll, known, {}, {}, {}, {}});
}

void Emitter::Close() {
  WS_CHECK(scopes_.size() > 1, "no scope to close");
  Scope inner = std::move(scopes_.back());
  scopes_.pop_back();
  Text& text = scopes_.back().text;
  if (inner.unroll) text.Line("#pragma unroll");
  text.Line(inner.header);
  text.Append(inner.text.str());
  text.Line("}");
}

std::string Emitter::Finish() {
  while (scopes_.size() > 1) Close();
  return scopes_[0].text.str();
}

size_t Emitter::ScopeOf(uint64_t variables) const {
  for (size_t s = 0; s < scopes_.size(); ++s) {
    if ((variables & ~scopes_[s].variables) == 0) return s;
  }
  WS_CHECK(false, "a value needs a variable that no open scope has");
  return 0;
}

std::string Emitter::Name(ValuePtr value) {
  uses_[value->id] += 2;
  return Use(value);
}

std::string Emitter::Use(ValuePtr value, size_t depth) {
  auto bound = bound_.find(value->id);
  if (bound != bound_.end()) return bound->second;
  if (value->kind == Value::Kind::kConst)
    return Literal(value->type, value->number, value->integer);
  for (size_t s = 0; s <= depth; ++s) {
    auto found = scopes_[s].names.find(value->id);
    if (found != scopes_[s].names.end()) return found->second;
  }
  WS_CHECK(value->kind != Value::Kind::kResult, "a stage's result is not at hand here");
  const size_t home = ScopeOf(value->variables);
  WS_CHECK(home <= depth, "a value is used outside of its variables' scope");
  if (value->kind == Value::Kind::kReduce) {
    EmitReduce(value, home);
    return scopes_[home].names.at(value->id);
  }
  // Without variables or cheap: in place.
  const std::string text = Expression(value, home);
  const bool cheap = value->kind == Value::Kind::kIndex;
  if ((home == depth && uses_[value->id] <= 1 && text.size() <= kLongExpression &&
       value->kind != Value::Kind::kLoad) ||
      cheap) {
    return text;
  }
  const std::string name = NewName(value->kind == Value::Kind::kLoad ? "x" : "t");
  scopes_[home].text.Line(StrCat("const ", ComputeType(value->type), " ", name, " = ", text, ";"));
  scopes_[home].names[value->id] = name;
  return name;
}

std::string Emitter::UseAtom(const Atom& atom, size_t depth) {
  switch (atom.kind) {
    case Atom::Kind::kVariable:
      return atom.variable.name;
    case Atom::Kind::kOpaque: {
      const std::string value = Use(dialect_.values->Get(atom.value), depth);
      return StrCat("static_cast<", dialect_.index_type, ">(", value, ")");
    }
    default:
      break;
  }
  for (size_t s = 0; s <= depth; ++s) {
    auto found = scopes_[s].atoms.find(atom.key);
    if (found != scopes_[s].atoms.end()) return found->second;
  }
  const size_t home = std::min(ScopeOf(atom.variables), depth);
  const std::string text =
      Floor(Sum(*atom.inner, home, true), atom.divisor, atom.kind == Atom::Kind::kDiv ? "/" : "%",
            atom.inner->range(), dialect_.index_type);
  const std::string name = NewName("i");
  scopes_[home].text.Line(StrCat("const ", dialect_.index_type, " ", name, " = ", text, ";"));
  scopes_[home].atoms[atom.key] = name;
  return name;
}

std::string Emitter::Sum(const Index& index, size_t depth, bool with_constant) {
  std::string text;
  auto add = [&text](bool negative, const std::string& part) {
    if (text.empty()) {
      text = negative ? StrCat("-", part) : part;
    } else {
      absl::StrAppend(&text, negative ? " - " : " + ", part);
    }
  };
  // Positive terms first: a leading minus is hard to read.
  for (bool negative : {false, true}) {
    for (const Index::Term& term : index.terms()) {
      if ((term.coefficient < 0) != negative) continue;
      const int64_t factor = std::abs(term.coefficient);
      const std::string atom = UseAtom(*term.atom, depth);
      add(negative, factor == 1 ? atom : StrCat(atom, " * ", factor));
    }
  }
  if (with_constant && index.constant() != 0)
    add(index.constant() < 0, StrCat(std::abs(index.constant())));
  return text.empty() ? "0" : text;
}

std::string Emitter::Use(const Index& index, size_t depth) { return Sum(index, depth, true); }

std::string Emitter::Expression(ValuePtr value, size_t depth) {
  switch (value->kind) {
    case Value::Kind::kIndex: {
      const std::string sum = Sum(value->index, depth, true);
      return StrCat("static_cast<long long>(", sum, ")");
    }
    case Value::Kind::kCompare: {
      if (value->op == Op::kEq) return StrCat("(", Sum(value->index, depth, true), " == 0)");
      // 0 <= x + c as x >= -c; 0 <= c - x as x <= c
      bool negative = true;
      for (const Index::Term& term : value->index.terms())
        negative = negative && term.coefficient < 0;
      const Index shown = negative ? value->index * -1 : value->index;
      return StrCat("(", Sum(shown, depth, false), negative ? " <= " : " >= ",
                    negative ? value->index.constant() : -value->index.constant(), ")");
    }
    case Value::Kind::kLoad: {
      const std::string guard = value->args.empty() ? "" : Use(value->args[0], depth);
      const std::string element =
          ToRegister(value->type, Element(value->tensor, value->index, depth));
      if (guard.empty()) return element;
      return StrCat("(", guard, " ? ", element, " : ", Literal(value->type, 0, 0), ")");
    }
    case Value::Kind::kOp:
      return OpExpression(value, depth);
    default:
      WS_CHECK(false, "no expression for this value");
      return "";
  }
}

// A value less its rounding to whole numbers, whose rounding is the value (IsWhole).
std::string Emitter::Unrounded(ValuePtr value, size_t depth) {
  if (value->op == Op::kRound) return Use(value->args[0], depth);
  const std::string x = Unrounded(value->args[0], depth);
  return StrCat("ws::", value->op == Op::kMin ? "minimum" : "maximum", "(", x, ", ",
                Use(value->args[1], depth), ")");
}

// Many quotients of one divisor share its reciprocal.
std::string Emitter::DivisionExpression(ValuePtr value, size_t depth) {
  const ValuePtr divisor = value->args[1];
  const std::string a = Use(value->args[0], depth);
  int exponent = 0;
  const bool exact = divisor->kind == Value::Kind::kConst &&
                     std::abs(std::frexp(divisor->number, &exponent)) == 0.5;  // a power of two
  const size_t home = ScopeOf(divisor->variables);
  const bool fast = dialect_.fast_math && value->type != DType::kF64;
  if (value->type == DType::kF64 || exact || home >= ScopeOf(value->variables)) {
    const std::string b = Use(divisor, depth);
    return fast && !exact ? StrCat("ws::fast_div(", a, ", ", b, ")")
                          : StrCat("(", a, " / ", b, ")");
  }
  if (fast && divisor->kind == Value::Kind::kConst && divisor->number != 0)
    return StrCat("(", a, " * ", Literal(DType::kF32, 1 / divisor->number, 0), ")");
  auto [name, fresh] = scopes_[home].divisors.try_emplace(divisor->id);
  if (fresh) {
    name->second = NewName("d");
    std::string reciprocal;  // of what is known here
    if (divisor->kind == Value::Kind::kConst && std::abs(divisor->number) > 0x1p-40 &&
        std::abs(divisor->number) < 0x1p40)
      reciprocal = StrCat(", ", Literal(DType::kF32, 1 / divisor->number, 0));
    const std::string b = Use(divisor, home);
    scopes_[home].text.Line(
        fast ? StrCat("const float ", name->second, " = ws::fast_div(1.0f, ", b, ");")
             : StrCat("const ws::Divisor ", name->second, "(", b, reciprocal, ");"));
  }
  return fast ? StrCat("(", a, " * ", name->second, ")")
              : StrCat("ws::divide(", a, ", ", name->second, ")");
}

std::string Emitter::CastExpression(ValuePtr value, size_t depth) {
  const ValuePtr from = value->args[0];
  const DType to = value->type;
  if (graph::IsNarrow(to) && IsWhole(from))
    return StrCat("ws::saturate_round<", StorageType(to), ">(", Unrounded(from, depth), ")");
  // An index need not be widened only to be converted.
  const std::string x = from->kind == Value::Kind::kIndex && !IsBound(from)
                            ? Sum(from->index, depth, true)
                            : Use(from, depth);
  if (to == DType::kBool) return StrCat("(", x, " != 0)");
  if (graph::IsNarrow(to)) {
    if (!graph::IsFloat(from->type)) return Wrapped(to, x);
    return StrCat("ws::saturate<", StorageType(to), ">(", x, ")");
  }
  if (to == DType::kF16 || to == DType::kBF16) {
    const std::string storage = StorageType(to);
    if (from->type == DType::kF64)
      return StrCat("ws::to_float(ws::from_double<", storage, ">(", x, "))");
    const bool exact =
        dialect_.unrounded || IsHalfExactly(to, from, *dialect_.values, *dialect_.graph);
    std::string single = x;  // as a float
    if (!graph::IsFloat(from->type)) {
      constexpr int64_t kIntegersOfFloat = 1 << 24;
      if (!dialect_.values->RangeOf(from).Within(-kIntegersOfFloat, kIntegersOfFloat))
        return StrCat("ws::to_float(ws::from_double<", storage, ">(static_cast<double>(", x, ")))");
      single = StrCat("static_cast<float>(static_cast<int>(", x, "))");
    }
    return exact ? single : StrCat("ws::rounded<", storage, ">(", single, ")");
  }
  if (graph::IsFloat(from->type) && graph::IsInteger(to)) {
    return StrCat(to == DType::kI32 ? "ws::to_int(" : "ws::to_long(", x, ")");
  }
  const std::string type = ComputeType(to);
  const Range range = from->type == DType::kI64 ? dialect_.values->RangeOf(from) : Range{};
  if (from->type == DType::kI64 && graph::IsFloat(to) &&
      range.Within(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()))
    return StrCat("static_cast<", type, ">(static_cast<int>(", x, "))");
  if (type == ComputeType(from->type) && from->kind != Value::Kind::kIndex) return x;
  return StrCat("static_cast<", type, ">(", x, ")");
}

std::string Emitter::Product(DType type, const std::string& a, const std::string& b) const {
  if (dialect_.separate && graph::IsFloat(type)) return StrCat("ws::product(", a, ", ", b, ")");
  return StrCat("(", a, " * ", b, ")");
}

// Powers that are products are written so: exact to an ulp, and a tenth of the work.
std::string Emitter::PowExpression(ValuePtr value, size_t depth) {
  const std::string x = Use(value->args[0], depth);
  if (value->args[1]->kind == Value::Kind::kConst) {
    const double power = value->args[1]->number;
    if (power == 1) return x;
    if (power == 2) return Product(value->type, x, x);
    if (power == 3) return Product(value->type, Product(value->type, x, x), x);
    if (power == -1) return StrCat("(", Literal(value->type, 1, 0), " / ", x, ")");
  }
  return StrCat("ws::pow(", x, ", ", Use(value->args[1], depth), ")");
}

// Whether an integer is divided by a positive constant and negative itself never, in 32 bits.
bool Emitter::IsUnsigned(ValuePtr value) const {
  const Range range = dialect_.values->RangeOf(value->args[0]);
  const ValuePtr by = value->args[1];
  return value->type == DType::kI32 && range.Within(0, std::numeric_limits<int>::max()) &&
         by->kind == Value::Kind::kConst && by->integer > 0;
}

namespace {

// y of i64(exp2(f64(y))), an integer of at most 62; nullptr: it is something else.
ValuePtr ExponentOf(ValuePtr power, const Values& values) {
  const auto argument_of = [](ValuePtr value, Op op, DType type) {
    const bool is = value != nullptr && value->kind == Value::Kind::kOp && value->op == op &&
                    value->type == type;
    return is ? value->args[0] : nullptr;
  };
  const ValuePtr exponent =
      argument_of(argument_of(argument_of(power, Op::kCast, DType::kI64), Op::kExp2, DType::kF64),
                  Op::kCast, DType::kF64);
  constexpr int64_t kMost = 62;
  const bool integer = exponent != nullptr && graph::IsInteger(exponent->type);
  return integer && values.RangeOf(exponent).high <= kMost ? exponent : nullptr;
}

// n where a constant is 2^n; nullopt: it is none.
std::optional<int> LogOf(ValuePtr value) {
  if (value->kind != Value::Kind::kConst || value->integer <= 0) return std::nullopt;
  const auto number = static_cast<uint64_t>(value->integer);
  return std::has_single_bit(number) ? std::optional<int>(std::countr_zero(number)) : std::nullopt;
}

}  // namespace

// A quotient of integers, rounded down: of a power of two a shift.
std::string Emitter::QuotientExpression(ValuePtr value, size_t depth) {
  const std::string a = Use(value->args[0], depth);
  if (const auto log = LogOf(value->args[1])) return StrCat("(", a, " >> ", *log, ")");
  if (const ValuePtr y = ExponentOf(value->args[1], *dialect_.values))
    return StrCat("(", a, " >> (static_cast<int>(", Use(y, depth), ") & 63))");
  return Wrapped(value->type, StrCat("ws::floor_div(", a, ", ", Use(value->args[1], depth), ")"));
}

std::string Emitter::OpExpression(ValuePtr value, size_t depth) {
  const DType type = value->type;
  const bool integer = graph::IsInteger(type);
  const bool fast = dialect_.fast_math && type != DType::kF64;
  auto use = [&](int i) { return Use(value->args[i], depth); };
  auto infix = [&](const char* op) {
    if (integer && (op[0] == '+' || op[0] == '-' || op[0] == '*')) {  // wraps
      const std::string u = type == DType::kI64 ? "unsigned long long" : "unsigned";
      return Wrapped(type, StrCat("static_cast<", ComputeType(type), ">(static_cast<", u, ">(",
                                  use(0), ") ", op, " static_cast<", u, ">(", use(1), "))"));
    }
    const std::string a = use(0), b = use(1);
    return StrCat("(", a, " ", op, " ", b, ")");
  };
  auto unsigned_infix = [&](const char* op) {
    return StrCat("static_cast<int>(static_cast<unsigned>(", use(0), ") ", op, " ",
                  value->args[1]->integer, "u)");
  };
  auto call = [&](const char* f) {
    std::string text = StrCat("ws::", f, "(", use(0));
    if (value->args.size() > 1) absl::StrAppend(&text, ", ", use(1));
    return StrCat(text, ")");
  };
  switch (value->op) {
    case Op::kAdd:
      return infix("+");
    case Op::kSub:
      return infix("-");
    case Op::kMul:
      return integer ? infix("*") : Product(type, use(0), use(1));
    case Op::kDiv:
      if (integer && IsUnsigned(value)) return unsigned_infix("/");
      return integer ? QuotientExpression(value, depth) : DivisionExpression(value, depth);
    case Op::kMod:
      if (integer && IsUnsigned(value)) return unsigned_infix("%");
      if (integer && LogOf(value->args[1]))
        return StrCat("(", use(0), " & ", Literal(type, 0, value->args[1]->integer - 1), ")");
      return call("floor_mod");
    case Op::kMin:
    case Op::kMax:
      if (type == DType::kBool) return infix(value->op == Op::kMin ? "&&" : "||");
      return call(value->op == Op::kMin ? "minimum" : "maximum");
    case Op::kPow:
      return PowExpression(value, depth);
    case Op::kAtan2:
      return call("atan2");
    case Op::kRandom:
      return StrCat("static_cast<long long>(", call("random_bits"), ")");
    case Op::kLt:
      return infix("<");
    case Op::kLe:
      return infix("<=");
    case Op::kEq:
      return infix("==");
    case Op::kNe:
      return infix("!=");
    case Op::kAnd:
      return infix("&&");
    case Op::kOr:
      return infix("||");
    case Op::kNeg:
      if (integer) {
        const std::string u = type == DType::kI64 ? "unsigned long long" : "unsigned";
        return Wrapped(type, StrCat("static_cast<", ComputeType(type), ">(0 - static_cast<", u,
                                    ">(", use(0), "))"));
      }
      return StrCat("(-", use(0), ")");
    case Op::kAbs:
      return Wrapped(type, call("abs"));
    case Op::kSign: {
      const std::string x = use(0);
      return StrCat("static_cast<", ComputeType(type), ">((", x, " > 0) - (", x, " < 0))");
    }
    case Op::kSqrt:
      return call("sqrt");
    case Op::kRsqrt:
      return call("rsqrt");
    case Op::kExp:
      return call(fast ? "fast_exp" : "exp");
    case Op::kExp2:
      return call("exp2");
    case Op::kExpm1:
      return call("expm1");
    case Op::kLog:
      return call(value->output == kLogRest    ? "log_rest"
                  : value->output == kLogWhole ? "log_whole"
                                               : "log");
    case Op::kLog2:
      return call("log2");
    case Op::kLog1p:
      return call("log1p");
    case Op::kTanh:
      return call(fast ? "fast_tanh" : "tanh");
    case Op::kErf:
      return call(fast ? "fast_erf" : "erf");
    case Op::kSin:
      return call("sin");
    case Op::kCos:
      return call("cos");
    case Op::kFloor:
      return call("floor");
    case Op::kCeil:
      return call("ceil");
    case Op::kRound:
      return call("round");
    case Op::kTrunc:
      return call("trunc");
    case Op::kE4m3:
      return call("e4m3");
    case Op::kE4m3OfBits: {
      // What are bytes need not become floats first.
      const ValuePtr from = value->args[0];
      const bool byte = from->kind == Value::Kind::kOp && from->op == Op::kCast &&
                        from->args[0]->type == DType::kU8;
      return StrCat("ws::e4m3_of_bits(", byte ? Use(from->args[0], depth) : use(0), ")");
    }
    case Op::kNot:
      return StrCat("(!", use(0), ")");
    case Op::kIsNan:
      return call("is_nan");
    case Op::kSelect: {
      const std::string c = use(0);
      auto side = [&](int i) {
        const bool named = dialect_.both_sides && value->args[i]->kind == Value::Kind::kOp;
        if (named) uses_[value->args[i]->id] += 2;
        return use(i);
      };
      const std::string a = side(1), b = side(2);
      return StrCat("(", c, " ? ", a, " : ", b, ")");
    }
    case Op::kCast:
      return CastExpression(value, depth);
    default:
      WS_CHECK(false, StrCat("no code for operator ", static_cast<int>(value->op)));
      return "";
  }
}

void Emitter::StartAccumulator(const Reduction& r, const std::string& acc, size_t home) {
  Text& text = scopes_[home].text;
  for (const Field& field : FieldsOf(r)) text.Line(StrCat(field.type, " ", acc, field.name, ";"));
  for (const std::string& line : Identity(r, acc)) text.Line(line);
}

void Emitter::EmitReduce(ValuePtr value, size_t home) {
  const graph::Node& node = dialect_.graph->nodes[value->node];
  Reduction r;
  r.combiner = node.combiner;
  r.type = value->args[0]->type;
  r.accumulator = dialect_.accumulator;
  int64_t steps = 1;
  for (const graph::Axis& axis : node.reduce_axes) steps *= axis.extent;
  r.elements = steps;
  const std::string name = NewName("a"), acc = StrCat(name, "_");
  StartAccumulator(r, acc, home);

  // The loops stand in the value's own scope, whatever is open inside it.
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + home + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(home + 1);
  const bool chained = steps > kChain && IsRunningSum(r);
  std::vector<std::string> sums;  // of the open loops; a sum of its own is added at the loop's end
  auto open = [&](const std::string& header, uint64_t variables, bool unroll) {
    const bool own = chained && !sums.empty();
    sums.push_back(own ? StrCat(name, "_", sums.size(), "_") : acc);
    if (own) StartAccumulator(r, sums.back(), scopes_.size() - 1);
    Open(header, variables, unroll);
  };
  Index position(0);
  int64_t inside = steps;  // steps of this loop and those in it
  for (size_t a = 0; a < value->loops.size(); ++a) {
    const Variable& loop = value->loops[a];
    const int64_t extent = node.reduce_axes[a].extent;
    position = position * extent + Index::Of(loop);
    if (extent == 1) continue;
    std::string from = "0", to = StrCat(extent);
    if (chained && extent > 2 * kChain) {
      from = StrCat(loop.name, "_from");
      to = StrCat(from, " + ", kChain);
      if (extent % kChain != 0)
        to = StrCat("ws::minimum(", to, ", static_cast<", dialect_.index_type, ">(", extent, "))");
      open(StrCat("for (", dialect_.index_type, " ", from, " = 0; ", from, " < ", extent, "; ",
                  from, " += ", kChain, ") {"),
           0, false);
    }
    open(StrCat("for (", dialect_.index_type, " ", loop.name, " = ", from, "; ", loop.name, " < ",
                to, "; ++", loop.name, ") {"),
         uint64_t{1} << loop.id, inside <= kUnrolledSteps);
    inside /= extent;
  }
  if (sums.empty()) sums.push_back(acc);
  const size_t depth = scopes_.size() - 1;
  const std::string body = IsIndexed(r) ? Name(value->args[0]) : Use(value->args[0], depth);
  std::vector<std::string> positions;
  if (IsIndexed(r))
    positions.push_back(
        StrCat("static_cast<", FieldsOf(r)[1].type, ">(", Sum(position, depth, true), ")"));
  for (const std::string& line : Accumulate(r, sums.back(), {body}, positions)) Line(line);
  while (scopes_.size() > home + 1) {
    Close();
    const std::string done = sums.back();
    sums.pop_back();
    if (done == acc) continue;
    for (const std::string& line : Merge(r, sums.back(), done)) Line(line);
  }
  for (Scope& scope : inner) scopes_.push_back(std::move(scope));

  scopes_[home].names[value->id] = ResultOf(r, acc, value->output);
  // The other output of the same loop.
  for (const auto& [id, count] : uses_) {
    ValuePtr other = dialect_.values->Get(id);
    if (other->kind == Value::Kind::kReduce && other->node == value->node &&
        other->args == value->args) {
      scopes_[home].names[id] = ResultOf(r, acc, other->output);
    }
  }
}

std::string Emitter::Element(int tensor, const Index& position, size_t depth) {
  const auto [pointer, rest] = dialect_.locate(tensor, position);
  return StrCat(pointer, "[", Sum(rest, depth, true), "]");
}

std::string Emitter::Address(int tensor, const Index& position) {
  const auto [pointer, rest] = dialect_.locate(tensor, position);
  if (rest.is_constant() && rest.constant() == 0) return pointer;
  const std::string sum = Sum(rest, scopes_.size() - 1, true);
  return StrCat(pointer, " + ",
                dialect_.one_sum && rest.terms().size() > 1 ? StrCat("(", sum, ")") : sum);
}

std::string Emitter::Stored(ValuePtr value) {
  // Rounded once, and not widened in between.
  const bool rounds = value->kind == Value::Kind::kOp && value->op == Op::kCast &&
                      (value->type == DType::kF16 || value->type == DType::kBF16) &&
                      value->args[0]->type == DType::kF32;
  if (rounds && !IsBound(value)) return ToMemory(value->type, Use(value->args[0]));
  return ToMemory(value->type, Use(value));
}

std::string Emitter::VectorText(ValuePtr load, const Index& base, int width,
                                const std::string& array, const std::string& hint) {
  const std::string guard = load->args.empty() ? "" : Use(load->args[0]);
  return StrCat(guard.empty() ? "ws::load<" : "ws::load_if<", width, ", ", StorageType(load->type),
                ", ", hint.empty() ? StrCat(dialect_.load_hint) : hint, ">(",
                guard.empty() ? "" : StrCat(guard, ", "), Address(load->tensor, base), ", ", array,
                ");\n");
}

void Emitter::LoadVector(ValuePtr load, const Index& base, int width, const std::string& array,
                         const std::string& hint) {
  Append(VectorText(load, base, width, array, hint));
}

}  // namespace warpsmith::codegen
