#include "worker/codegen/ir/combine.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/graph/numeric.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::Combiner;
using graph::DType;

std::string ComputeType(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
      return "int";
    case DType::kI64:
      return "long long";
    case DType::kF64:
      return "double";
    default:
      return "float";
  }
}

std::string StorageType(DType type) {
  if (type == DType::kF16) return "ws::f16";
  if (type == DType::kBF16) return "ws::bf16";
  if (type == DType::kI8) return "signed char";
  if (type == DType::kU8) return "unsigned char";
  return ComputeType(type);
}

std::string ToRegister(DType type, const std::string& text) {
  if (graph::IsNarrow(type)) return StrCat("static_cast<int>(", text, ")");
  return type == DType::kF16 || type == DType::kBF16 ? StrCat("ws::to_float(", text, ")") : text;
}

std::string ToMemory(DType type, const std::string& text) {
  if (graph::IsNarrow(type)) return StrCat("static_cast<", StorageType(type), ">(", text, ")");
  return type == DType::kF16 || type == DType::kBF16
             ? StrCat("ws::from_float<", StorageType(type), ">(", text, ")")
             : text;
}

std::string Wrapped(DType type, const std::string& text) {
  return graph::IsNarrow(type) ? ToRegister(type, ToMemory(type, text)) : text;
}

std::string Literal(DType type, double number, int64_t integer) {
  if (type == DType::kBool) return integer ? "true" : "false";
  if (type == DType::kI32 || graph::IsNarrow(type)) {
    if (integer == INT32_MIN) return "(-2147483647 - 1)";
    return integer < 0 ? StrCat("(", integer, ")") : StrCat(integer);
  }
  if (type == DType::kI64) {
    if (integer == INT64_MIN) return "(-9223372036854775807LL - 1)";
    return integer < 0 ? StrCat("(", integer, "LL)") : StrCat(integer, "LL");
  }
  const bool wide = type == DType::kF64;
  if (std::isnan(number)) {
    return wide ? "__longlong_as_double(0x7ff8000000000000LL)" : "ws::bits_float(0x7fc00000u)";
  }
  // What rounds to infinity in float is infinity.
  if (std::isinf(number) || (!wide && std::isinf(static_cast<float>(number)))) {
    if (wide) {
      return number > 0 ? "__longlong_as_double(0x7ff0000000000000LL)"
                        : "(-__longlong_as_double(0x7ff0000000000000LL))";
    }
    return number > 0 ? "ws::bits_float(0x7f800000u)" : "ws::bits_float(0xff800000u)";
  }
  char text[64];
  std::snprintf(text, sizeof(text), wide ? "%.17g" : "%.9g", number);
  std::string digits = text;
  if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
  if (!wide) digits += "f";
  return std::signbit(number) ? StrCat("(", digits, ")") : digits;
}

bool IsIndexed(const Reduction& r) {
  return r.combiner == Combiner::kArgMax || r.combiner == Combiner::kArgMin;
}

bool IsRunningSum(const Reduction& r) {
  return r.combiner == Combiner::kSum && graph::IsFloat(r.type) && !r.online &&
         r.accumulator != v1::ACCUMULATOR_F64 && r.accumulator != v1::ACCUMULATOR_COMPENSATED;
}

namespace {

bool Compensated(const Reduction& r) {
  return r.combiner == Combiner::kSum && r.accumulator == v1::ACCUMULATOR_COMPENSATED &&
         graph::IsFloat(r.type) && r.type != DType::kF64;
}

// The C++ type of the running value.
std::string RunningType(const Reduction& r) {
  if (r.combiner == Combiner::kSum && graph::IsFloat(r.type) &&
      r.accumulator == v1::ACCUMULATOR_F64) {
    return "double";
  }
  return r.type == DType::kBool ? "int" : ComputeType(r.type);
}

std::string Unsigned(const std::string& type) {
  return type == "int" ? "unsigned" : "unsigned long long";
}

std::string IndexType(const Reduction& r) { return r.elements < INT32_MAX ? "int" : "long long"; }

std::string Lowest(DType type, bool high) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (graph::IsFloat(type)) return Literal(type, high ? infinity : -infinity, 0);
  if (type == DType::kBool) return high ? "1" : "0";
  return Literal(type, 0, high ? graph::HighestOf(type) : graph::LowestOf(type));
}

// One expression for a op b.
std::string Join(const Reduction& r, const std::string& a, const std::string& b) {
  const std::string type = RunningType(r);
  const bool integer = !graph::IsFloat(r.type);
  switch (r.combiner) {
    case Combiner::kSum:
    case Combiner::kProd: {
      const char* op = r.combiner == Combiner::kSum ? " + " : " * ";
      if (!integer) return StrCat("(", a, op, b, ")");
      const std::string u = Unsigned(type);
      return StrCat("static_cast<", type, ">(static_cast<", u, ">(", a, ")", op, "static_cast<", u,
                    ">(", b, "))");
    }
    case Combiner::kMax:
      return StrCat("ws::maximum(", a, ", ", b, ")");
    default:
      return StrCat("ws::minimum(", a, ", ", b, ")");
  }
}

// A tree over the expressions: short chains, and errors that grow with its depth.
std::string Tree(const Reduction& r, const std::vector<std::string>& values, size_t from,
                 size_t to) {
  if (to - from == 1) {
    const std::string type = RunningType(r);
    return type == ComputeType(r.type) ? values[from]
                                       : StrCat("static_cast<", type, ">(", values[from], ")");
  }
  const size_t middle = from + (to - from + 1) / 2;
  return Join(r, Tree(r, values, from, middle), Tree(r, values, middle, to));
}

// `if (value at position is taken) ...`: better, or as good and earlier; NaN is best.
std::string Take(const Reduction& r, const std::string& acc, const std::string& value,
                 const std::string& position) {
  const char* worse = r.combiner == Combiner::kArgMax ? " <= " : " >= ";
  const std::string v = StrCat(acc, "v"), i = StrCat(acc, "i");
  const std::string set = StrCat(" { ", v, " = ", value, "; ", i, " = ", position, "; }");
  if (!graph::IsFloat(r.type)) {
    return StrCat("if (!(", value, worse, v, ") || (", value, " == ", v, " && ", position, " < ", i,
                  "))", set);
  }
  return StrCat("if ((!(", value, worse, v, ") && ", v, " == ", v, ") || (", position, " < ", i,
                " && (", value, " == ", v, " || (", value, " != ", value, " && ", v, " != ", v,
                "))))", set);
}

std::vector<std::string> AddCompensated(const std::string& acc, const std::string& value,
                                        const std::string& correction) {
  const std::string v = StrCat(acc, "v"), c = StrCat(acc, "c");
  std::vector<std::string> lines = {StrCat("{ const float x = ", value, ", t = ", v, " + x;"),
                                    StrCat("  ", c, " += ws::abs(", v, ") >= ws::abs(x) ? (", v,
                                           " - t) + x : (x - t) + ", v, ";"),
                                    StrCat("  ", v, " = t; }")};
  if (!correction.empty()) lines.push_back(StrCat(c, " += ", correction, ";"));
  return lines;
}

// m, s: a running maximum and the sum of exp(x - m). Rows of -inf alone give NaN at the end, as
// exp(-inf - -inf) does; until then they count for nothing.
std::vector<std::string> MergeOnline(const Reduction& r, const std::string& acc,
                                     const std::string& maximum,
                                     const std::vector<std::string>& values,
                                     const std::string& sum) {
  const std::string exp = r.fast_math ? "ws::fast_exp" : "ws::exp";
  const std::string type = ComputeType(r.type);
  const std::string low = Lowest(r.type, false);
  const std::string v = StrCat(acc, "v"), s = StrCat(acc, "s");
  std::vector<std::string> lines = {
      StrCat("{ const ", type, " m = ws::maximum(", v, ", ", maximum, ");"),
      StrCat("  const ", type, " at = m == ", low, " ? ", Literal(r.type, 0, 0), " : m;")};
  std::string added = sum.empty() ? "" : StrCat(sum, " * ", exp, "(", maximum, " - at)");
  if (!sum.empty()) {
    // exp(m - m) for an infinite m would be NaN where the part has no NaN itself.
    added = StrCat("(", maximum, " == m ? ", sum, " : ", added, ")");
  }
  Reduction plain = r;
  plain.combiner = Combiner::kSum;
  plain.accumulator = v1::ACCUMULATOR_AUTO;
  if (!values.empty()) {
    std::vector<std::string> terms;
    for (const std::string& value : values) terms.push_back(StrCat(exp, "(", value, " - at)"));
    added = Tree(plain, terms, 0, terms.size());
  }
  lines.push_back(StrCat("  ", s, " = (", v, " == m ? ", s, " : ", s, " * ", exp, "(", v,
                         " - at)) + ", added, ";"));
  lines.push_back(StrCat("  ", v, " = m; }"));
  return lines;
}

}  // namespace

std::string JoinOf(const Reduction& r, const std::string& a, const std::string& b) {
  return Join(r, a, b);
}

std::vector<Field> FieldsOf(const Reduction& r) {
  if (r.online) return {{ComputeType(r.type), "v"}, {ComputeType(r.type), "s"}};
  if (IsIndexed(r)) return {{RunningType(r), "v"}, {IndexType(r), "i"}};
  if (Compensated(r)) return {{"float", "v"}, {"float", "c"}};
  return {{RunningType(r), "v"}};
}

std::vector<std::string> Identity(const Reduction& r, const std::string& acc) {
  const std::string v = StrCat(acc, "v = ");
  switch (r.combiner) {
    case Combiner::kSum:
      if (Compensated(r)) return {StrCat(v, "0.0f;"), StrCat(acc, "c = 0.0f;")};
      return {StrCat(v, "0;")};
    case Combiner::kProd:
      return {StrCat(v, "1;")};
    case Combiner::kMax:
      if (r.online) return {StrCat(v, Lowest(r.type, false), ";"), StrCat(acc, "s = 0;")};
      return {StrCat(v, Lowest(r.type, false), ";")};
    case Combiner::kMin:
      return {StrCat(v, Lowest(r.type, true), ";")};
    case Combiner::kLogSumExp:
      return {StrCat(v, Lowest(r.type, false), ";")};
    default: {
      const std::string last = IndexType(r) == "int" ? "2147483647" : "9223372036854775807LL";
      return {StrCat(v, Lowest(r.type, r.combiner == Combiner::kArgMin), ";"),
              StrCat(acc, "i = ", last, ";")};
    }
  }
}

std::vector<std::string> Accumulate(const Reduction& r, const std::string& acc,
                                    const std::vector<std::string>& values,
                                    const std::vector<std::string>& positions) {
  if (r.online) {
    Reduction maximum = r;
    maximum.online = false;
    return MergeOnline(r, acc, Tree(maximum, values, 0, values.size()), values, "");
  }
  if (IsIndexed(r)) {
    std::vector<std::string> lines;
    for (size_t j = 0; j < values.size(); ++j)
      lines.push_back(Take(r, acc, values[j], positions[j]));
    return lines;
  }
  if (Compensated(r)) {
    std::vector<std::string> lines;
    for (const std::string& value : values) {
      for (std::string& line : AddCompensated(acc, value, "")) lines.push_back(std::move(line));
    }
    return lines;
  }
  const std::string v = StrCat(acc, "v");
  // Lanes meet in their own type: a few roundings of a few values, and one conversion for all.
  Reduction lanes = r;
  lanes.accumulator = v1::ACCUMULATOR_AUTO;
  const std::string all = Tree(lanes, values, 0, values.size());
  const std::string type = RunningType(r);
  return {StrCat(
      v, " = ",
      Join(r, v, type == RunningType(lanes) ? all : StrCat("static_cast<", type, ">(", all, ")")),
      ";")};
}

std::vector<std::string> Merge(const Reduction& r, const std::string& a, const std::string& b) {
  if (r.online) return MergeOnline(r, a, StrCat(b, "v"), {}, StrCat(b, "s"));
  if (IsIndexed(r)) return {Take(r, a, StrCat(b, "v"), StrCat(b, "i"))};
  if (Compensated(r)) return AddCompensated(a, StrCat(b, "v"), StrCat(b, "c"));
  const std::string v = StrCat(a, "v");
  return {StrCat(v, " = ", Join(r, v, StrCat(b, "v")), ";")};
}

std::string ResultOf(const Reduction& r, const std::string& acc, int output) {
  const std::string v = StrCat(acc, "v");
  if (r.online) {
    if (output == 0) return v;
    const std::string nan = Literal(r.type, std::numeric_limits<double>::quiet_NaN(), 0);
    return StrCat("(", v, " == ", Lowest(r.type, false), " ? ", nan, " : ", acc, "s)");
  }
  if (IsIndexed(r) && output == 1) return StrCat("static_cast<long long>(", acc, "i)");
  // An infinite sum has a correction that is no number.
  if (Compensated(r)) return StrCat("(", acc, "c == ", acc, "c ? ", v, " + ", acc, "c : ", v, ")");
  if (r.combiner == Combiner::kSum || r.combiner == Combiner::kProd) {
    if (graph::IsNarrow(r.type)) return Wrapped(r.type, v);
  }
  if (RunningType(r) == ComputeType(r.type)) return v;
  return r.type == DType::kBool ? StrCat("(", v, " != 0)")
                                : StrCat("static_cast<", ComputeType(r.type), ">(", v, ")");
}

bool IsWide(const Field& field) { return field.type == "double" || field.type == "long long"; }

std::string AccumulatorText(const std::vector<Accumulated>& members, const std::string& tag) {
  std::string fields, none, merged;
  for (const bool wide : {true, false}) {
    for (const Accumulated& member : members) {
      for (const Field& field : FieldsOf(member.reduction)) {
        if (IsWide(field) == wide)
          absl::StrAppend(&fields, " ", field.type, " ", member.prefix, field.name, ";");
      }
    }
  }
  for (const auto& [reduction, prefix] : members) {
    for (const std::string& line : Identity(reduction, StrCat("acc.", prefix)))
      absl::StrAppend(&none, line, "\n");
    for (const std::string& line : Merge(reduction, StrCat("a.", prefix), StrCat("b.", prefix)))
      absl::StrAppend(&merged, line, "\n");
  }
  const std::string head = tag.empty() ? "" : StrCat("template <int ", tag, ">");
  const std::string type = tag.empty() ? "Acc" : StrCat("Acc<", tag, ">");
  const std::string above = tag.empty() ? "" : head + "\n";
  return StrCat(head, tag.empty() ? "" : " ", "struct Acc {", fields, " };\n", above,
                "static WS_DEVICE ", type, " identity() {\n", type, " acc;\n", none,
                "return acc;\n}\n", above, "static WS_DEVICE void combine(", type, "& a, const ",
                type, "& b) {\n", merged, "}\n");
}

}  // namespace warpsmith::codegen
