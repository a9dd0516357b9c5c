#include "worker/oracle/device_expression.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/numeric.h"

namespace warpsmith::oracle {

using graph::DType;
using graph::Expr;
using graph::ExprPtr;
using graph::IsFloat;
using graph::Op;
using graph::Tensor;

namespace {

std::string IntegerText(int64_t x) {
  if (x == INT64_MIN) return "(-9223372036854775807ll - 1)";
  return absl::StrCat("(", x, "ll)");
}

// An int modulo 2^8, in the range of a type of one byte.
std::string WrapText(DType type, const std::string& value) {
  return absl::StrCat("(int)(", StorageType(type), ")(", value, ")");
}

std::string OperatorText(Op op, DType type, const std::string& a, const std::string& b) {
  const bool floats = IsFloat(type);
  auto infix = [&](const char* symbol) { return absl::StrCat("(", a, " ", symbol, " ", b, ")"); };
  auto call = [&](const char* function) {
    return b.empty() ? absl::StrCat(function, "(", a, ")")
                     : absl::StrCat(function, "(", a, ", ", b, ")");
  };
  switch (op) {
    case Op::kAdd:
      return floats ? infix("+") : call("wrap_add");
    case Op::kSub:
      return floats ? infix("-") : call("wrap_sub");
    case Op::kMul:
      return floats ? infix("*") : call("wrap_mul");
    case Op::kDiv:
      return floats ? infix("/") : call("floor_div");
    case Op::kMod:
      return call("floor_mod");
    case Op::kMin:
      return call("smaller");
    case Op::kMax:
      return call("larger");
    case Op::kPow:
      return floats ? call("pow") : call("integer_power");
    case Op::kAtan2:
      return call("atan2");
    case Op::kRandom:
      return call("random_bits");
    case Op::kLt:
      return infix("<");
    case Op::kLe:
      return infix("<=");
    case Op::kEq:
      return infix("==");
    case Op::kNe:
      return infix("!=");
    case Op::kNeg:
      return floats ? absl::StrCat("(-", a, ")")
                    : absl::StrCat("wrap_mul(", a, ", ", type == DType::kI64 ? "-1ll" : "-1", ")");
    case Op::kAbs:
      return call("magnitude");
    case Op::kSign:
      return call("sign_of");
    case Op::kSqrt:
      return call("sqrt");
    case Op::kRsqrt:
      return absl::StrCat("(1 / sqrt(", a, "))");
    case Op::kExp:
      return call("exp");
    case Op::kExp2:
      return call("exp2");
    case Op::kExpm1:
      return call("expm1");
    case Op::kLog:
      return call("log");
    case Op::kLog2:
      return call("log2");
    case Op::kLog1p:
      return call("log1p");
    case Op::kTanh:
      return call("tanh");
    case Op::kErf:
      return call("erf");
    case Op::kSin:
      return call("sin");
    case Op::kCos:
      return call("cos");
    case Op::kFloor:
      return floats ? call("floor") : a;
    case Op::kCeil:
      return floats ? call("ceil") : a;
    case Op::kRound:
      return floats ? call("rint") : a;
    case Op::kTrunc:
      return floats ? call("trunc") : a;
    case Op::kE4m3:
      return call("nearest_e4m3");
    case Op::kE4m3OfBits:
      return call("e4m3_of_bits");
    case Op::kNot:
      return absl::StrCat("(!", a, ")");
    case Op::kIsNan:
      return call("is_nan");
    default:
      WS_CHECK(false, "an operator that the oracle does not know");
  }
}

}  // namespace

// ---- types ----

std::string StorageType(DType type) {
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return "unsigned char";
    case DType::kI8:
      return "signed char";
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "i64";
    case DType::kF16:
    case DType::kBF16:
      return "unsigned short";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
  }
  return "";
}

std::string LoadText(DType type, const std::string& pointer, const std::string& index) {
  std::string element = absl::StrCat(pointer, "[", index, "]");
  if (type == DType::kBool) return absl::StrCat("(", element, " != 0)");
  if (type == DType::kF16) return absl::StrCat("from_f16(", element, ")");
  if (type == DType::kBF16) return absl::StrCat("from_bf16(", element, ")");
  return element;
}

std::string StoreText(DType type, const std::string& value) {
  if (type == DType::kF16) return absl::StrCat("to_f16(", value, ")");
  if (type == DType::kBF16) return absl::StrCat("to_bf16(", value, ")");
  return absl::StrCat("(", StorageType(type), ")(", value, ")");
}

// Type that arithmetic on `type` is done in.
std::string ComputeType(DType type, Pass pass) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "i64";
    case DType::kF64:
      return "double";
    default:
      return pass == Pass::kExact ? "double" : "float";
  }
}

bool HeldWide(const Tensor& tensor, Pass pass) {
  return pass == Pass::kExact && IsFloat(tensor.type) && tensor.node >= 0;
}

std::string HeldType(const Tensor& tensor, Pass pass) {
  return HeldWide(tensor, pass) ? "double" : StorageType(tensor.type);
}

int64_t HeldBytes(const Tensor& tensor, Pass pass) {
  return tensor.elements() * (HeldWide(tensor, pass) ? 8 : graph::SizeOf(tensor.type));
}

std::string FloatText(double x, const std::string& type) {
  if (std::isnan(x)) return absl::StrCat("(", type, ")not_a_number()");
  if (std::isinf(x)) return absl::StrCat("(", type, ")(", x < 0 ? "-" : "", "infinity())");
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", x);
  return absl::StrCat("(", type, ")(", text, ")");
}

std::string CastText(DType from, DType to, Pass pass, const std::string& a) {
  if (to == DType::kBool) return absl::StrCat("(", a, " != 0)");
  if (graph::IsNarrow(to)) {
    return IsFloat(from) ? absl::StrCat("saturate((double)", a, ", ", graph::LowestOf(to), ", ",
                                        graph::HighestOf(to), ")")
                         : WrapText(to, a);
  }
  if (IsFloat(from) && to == DType::kI64) return absl::StrCat("to_i64(", a, ")");
  if (IsFloat(from) && to == DType::kI32) {
    return absl::StrCat("to_i32(", a, ", ", from == DType::kF64 ? "-2147483647 - 1" : "0", ")");
  }
  if (pass == Pass::kPlain && IsFloat(to)) {
    if (to == DType::kF16 && from != to) return absl::StrCat("from_f16(to_f16((float)", a, "))");
    if (to == DType::kBF16 && from != to) {
      return absl::StrCat("from_bf16(to_bf16((float)", a, "))");
    }
  }
  return absl::StrCat("(", ComputeType(to, pass), ")", a);
}

// ---- expressions ----

std::string ExprWriter::Write(const ExprPtr& e) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto found = scope->find(e.get());
    if (found != scope->end()) return found->second;
  }
  std::string name = Compute(e);
  scopes_.back()[e.get()] = name;
  return name;
}

void ExprWriter::Line(const std::string& text) {
  absl::StrAppend(out_, std::string(indent_, ' '), text, "\n");
}
std::string ExprWriter::Fresh() { return absl::StrCat("x", next_++); }
std::string ExprWriter::Define(DType type, const std::string& value) {
  std::string name = Fresh();
  Line(absl::StrCat("const ", ComputeType(type, pass_), " ", name, " = ", value, ";"));
  return name;
}

std::string ExprWriter::Compute(const ExprPtr& e) {
  switch (e->op) {
    case Op::kConst:
      if (IsFloat(e->type)) return FloatText(e->number, ComputeType(e->type, pass_));
      if (e->type == DType::kBool) return e->integer != 0 ? "true" : "false";
      if (e->type == DType::kI64) return IntegerText(e->integer);
      return absl::StrCat("(int)", IntegerText(e->integer));
    case Op::kIndex:
      return absl::StrCat("v", e->var);
    case Op::kLoad:
      return WriteLoad(e);
    case Op::kSelect:
      return Branch(e->type, Write(e->args[0]), e->args[1], e->args[2], "", "");
    case Op::kAnd:
      return Branch(e->type, Write(e->args[0]), e->args[1], nullptr, "", "false");
    case Op::kOr:
      return Branch(e->type, Write(e->args[0]), nullptr, e->args[1], "true", "");
    case Op::kCast:
      return Define(e->type, CastText(e->args[0]->type, e->type, pass_, Write(e->args[0])));
    default:
      break;
  }
  std::string a = Write(e->args[0]);
  std::string b = e->args.size() > 1 ? Write(e->args[1]) : "";
  const std::string result = OperatorText(e->op, e->args[0]->type, a, b);
  return Define(e->type, graph::IsNarrow(e->type) ? WrapText(e->type, result) : result);
}

std::string ExprWriter::WriteLoad(const ExprPtr& e) {
  const Tensor& tensor = graph_.tensors[e->tensor];
  std::string index = "0ll";
  for (size_t i = 0; i < e->args.size(); ++i) {
    std::string part = Write(e->args[i]);
    index = i == 0 ? part : absl::StrCat("(", index, ") * ", tensor.shape[i], "ll + ", part);
  }
  std::string pointer = absl::StrCat("t", e->tensor);
  std::string value = HeldWide(tensor, pass_) ? absl::StrCat(pointer, "[", index, "]")
                                              : LoadText(tensor.type, pointer, index);
  return Define(e->type, value);
}

// Only the side that is taken is evaluated. A side is an expression or, if null, a text.
std::string ExprWriter::Branch(DType type, const std::string& condition, const ExprPtr& then,
                               const ExprPtr& otherwise, const std::string& then_text,
                               const std::string& otherwise_text) {
  std::string name = Fresh();
  Line(absl::StrCat(ComputeType(type, pass_), " ", name, ";"));
  auto side = [&](const ExprPtr& e, const std::string& text) {
    scopes_.emplace_back();
    indent_ += 2;
    std::string value = e == nullptr ? text : Write(e);
    Line(absl::StrCat(name, " = ", value, ";"));
    indent_ -= 2;
    scopes_.pop_back();
  };
  Line(absl::StrCat("if (", condition, ") {"));
  side(then, then_text);
  Line("} else {");
  side(otherwise, otherwise_text);
  Line("}");
  return name;
}

}  // namespace warpsmith::oracle
