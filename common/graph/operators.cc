#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

constexpr OpInfo kOps[] = {
    {Op::kAdd, "+", 2, kAddPrecedence, Accepts::kNumber, false},
    {Op::kSub, "-", 2, kAddPrecedence, Accepts::kNumber, false},
    {Op::kMul, "*", 2, kMulPrecedence, Accepts::kNumber, false},
    {Op::kDiv, "/", 2, kMulPrecedence, Accepts::kNumber, false},
    {Op::kMod, "%", 2, kMulPrecedence, Accepts::kInteger, false},
    {Op::kMin, "min", 2, 0, Accepts::kNumber, false},
    {Op::kMax, "max", 2, 0, Accepts::kNumber, false},
    {Op::kPow, "pow", 2, 0, Accepts::kFloat, false},
    {Op::kAtan2, "atan2", 2, 0, Accepts::kFloat, false},
    {Op::kRandom, "random", 2, 0, Accepts::kIndex, false},
    {Op::kLt, "<", 2, kComparePrecedence, Accepts::kNumber, true},
    {Op::kLe, "<=", 2, kComparePrecedence, Accepts::kNumber, true},
    {Op::kEq, "==", 2, kComparePrecedence, Accepts::kAny, true},
    {Op::kNe, "!=", 2, kComparePrecedence, Accepts::kAny, true},
    {Op::kAnd, "and", 2, kAndPrecedence, Accepts::kBool, true},
    {Op::kOr, "or", 2, kOrPrecedence, Accepts::kBool, true},
    {Op::kNeg, "-", 1, kNegPrecedence, Accepts::kNumber, false},
    {Op::kAbs, "abs", 1, 0, Accepts::kNumber, false},
    {Op::kSign, "sign", 1, 0, Accepts::kNumber, false},
    {Op::kSqrt, "sqrt", 1, 0, Accepts::kFloat, false},
    {Op::kRsqrt, "rsqrt", 1, 0, Accepts::kFloat, false},
    {Op::kExp, "exp", 1, 0, Accepts::kFloat, false},
    {Op::kExp2, "exp2", 1, 0, Accepts::kFloat, false},
    {Op::kExpm1, "expm1", 1, 0, Accepts::kFloat, false},
    {Op::kLog, "log", 1, 0, Accepts::kFloat, false},
    {Op::kLog2, "log2", 1, 0, Accepts::kFloat, false},
    {Op::kLog1p, "log1p", 1, 0, Accepts::kFloat, false},
    {Op::kTanh, "tanh", 1, 0, Accepts::kFloat, false},
    {Op::kErf, "erf", 1, 0, Accepts::kFloat, false},
    {Op::kSin, "sin", 1, 0, Accepts::kFloat, false},
    {Op::kCos, "cos", 1, 0, Accepts::kFloat, false},
    {Op::kFloor, "floor", 1, 0, Accepts::kFloat, false},
    {Op::kCeil, "ceil", 1, 0, Accepts::kFloat, false},
    {Op::kRound, "round", 1, 0, Accepts::kFloat, false},
    {Op::kTrunc, "trunc", 1, 0, Accepts::kFloat, false},
    {Op::kE4m3, "e4m3", 1, 0, Accepts::kFloat, false},
    {Op::kE4m3OfBits, "e4m3_of_bits", 1, 0, Accepts::kFloat, false},
    {Op::kNot, "not", 1, kNotPrecedence, Accepts::kBool, true},
    {Op::kIsNan, "isnan", 1, 0, Accepts::kFloat, true},
};

constexpr DType kTypes[] = {DType::kBool, DType::kI8,   DType::kU8,  DType::kI32, DType::kI64,
                            DType::kF16,  DType::kBF16, DType::kF32, DType::kF64};
constexpr Combiner kCombiners[] = {Combiner::kSum,      Combiner::kProd,   Combiner::kMax,
                                   Combiner::kMin,      Combiner::kArgMax, Combiner::kArgMin,
                                   Combiner::kLogSumExp};
constexpr std::string_view kScanPrefix = "cum";

}  // namespace

const OpInfo* FindOp(Op op) {
  for (const OpInfo& info : kOps) {
    if (info.op == op) return &info;
  }
  return nullptr;
}

const OpInfo* FindFunction(std::string_view name) {
  for (const OpInfo& info : kOps) {
    if (info.precedence == 0 && name == info.name) return &info;
  }
  return nullptr;
}

bool Takes(Accepts accepts, DType type) {
  switch (accepts) {
    case Accepts::kAny:
      return true;
    case Accepts::kNumber:
      return type != DType::kBool;
    case Accepts::kFloat:
      return IsFloat(type);
    case Accepts::kInteger:
      return IsInteger(type);
    case Accepts::kIndex:
      return type == DType::kI64;
    case Accepts::kBool:
      return type == DType::kBool;
  }
  return false;
}

const char* NameOf(Accepts accepts) {
  switch (accepts) {
    case Accepts::kAny:
      return "any type";
    case Accepts::kNumber:
      return "numbers";
    case Accepts::kFloat:
      return "floating-point numbers";
    case Accepts::kInteger:
      return "integers";
    case Accepts::kIndex:
      return "i64";
    case Accepts::kBool:
      return "bool";
  }
  return "";
}

int64_t SizeOf(DType type) {
  switch (type) {
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
      return 1;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kI32:
    case DType::kF32:
      return 4;
    case DType::kI64:
    case DType::kF64:
      return 8;
  }
  return 0;
}

const char* NameOf(DType type) {
  switch (type) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
  }
  return "";
}

bool IsFloat(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

bool IsInteger(DType type) { return type == DType::kI32 || type == DType::kI64 || IsNarrow(type); }

bool IsNarrow(DType type) { return type == DType::kI8 || type == DType::kU8; }

std::optional<DType> FindType(std::string_view name) {
  for (DType type : kTypes) {
    if (name == NameOf(type)) return type;
  }
  return std::nullopt;
}

const char* NameOf(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum:
      return "sum";
    case Combiner::kProd:
      return "prod";
    case Combiner::kMax:
      return "max";
    case Combiner::kMin:
      return "min";
    case Combiner::kArgMax:
      return "argmax";
    case Combiner::kArgMin:
      return "argmin";
    case Combiner::kLogSumExp:
      return "logsumexp";
  }
  return "";
}

std::optional<Combiner> FindCombiner(std::string_view name) {
  for (Combiner combiner : kCombiners) {
    if (name == NameOf(combiner)) return combiner;
  }
  return std::nullopt;
}

std::string ScanNameOf(Combiner combiner) { return std::string(kScanPrefix) + NameOf(combiner); }

std::optional<Combiner> FindScan(std::string_view name) {
  if (name.substr(0, kScanPrefix.size()) != kScanPrefix) return std::nullopt;
  return FindCombiner(name.substr(kScanPrefix.size()));
}

bool HasIndex(Combiner combiner) {
  return combiner == Combiner::kArgMax || combiner == Combiner::kArgMin;
}

bool Takes(Combiner combiner, DType type) {
  if (combiner == Combiner::kLogSumExp) return IsFloat(type);
  const bool arithmetic = combiner == Combiner::kSum || combiner == Combiner::kProd;
  return !arithmetic || type != DType::kBool;
}

}  // namespace warpsmith::graph
