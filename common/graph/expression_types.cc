// Typing of one expression: Ast to Expr. Literals take the type of what they are combined with.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/graph/ast.h"
#include "common/graph/numeric.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {
namespace {

class Builder {
 public:
  Builder(const TokenReader& reader, const Scope& scope) : reader_(reader), scope_(scope) {}

  absl::StatusOr<ExprPtr> Build(const Ast& ast, DType type) const {
    if (ast.type && *ast.type != type) {
      return reader_.ErrorAt(
          ast.column, absl::StrCat("expected ", NameOf(type), " but this is ", NameOf(*ast.type),
                                   "; cast it: ", NameOf(type), "(...)"));
    }
    switch (ast.kind) {
      case Ast::Kind::kInteger:
      case Ast::Kind::kNumber:
        return Literal(ast, type);
      case Ast::Kind::kBool:
        return ConstInt(DType::kBool, ast.integer);
      case Ast::Kind::kVariable:
        return Index(ast.id);
      case Ast::Kind::kLoad: {
        auto args = BuildAll(ast, DType::kI64);
        if (!args.ok()) return args.status();
        return Load(*scope_.graph, ast.id, *std::move(args));
      }
      case Ast::Kind::kCast:
        return CastTo(ast, type);
      case Ast::Kind::kSelect:
        return SelectOf(ast, type);
      case Ast::Kind::kOp:
        return Operation(ast, type);
    }
    return absl::InternalError("an expression of no kind");
  }

 private:
  absl::StatusOr<ExprPtr> Literal(const Ast& ast, DType type) const {
    const bool integer = ast.kind == Ast::Kind::kInteger;
    if (IsFloat(type)) {
      return Const(type, integer ? static_cast<double>(ast.integer) : ast.number);
    }
    if (type == DType::kBool) {
      return reader_.ErrorAt(ast.column, "expected bool but this is a number; write true or false");
    }
    if (!integer) {
      return reader_.ErrorAt(ast.column,
                             absl::StrCat("expected ", NameOf(type), " but this is a fraction"));
    }
    const ExprPtr value = ConstInt(type, ast.integer);
    if (value->integer != ast.integer) {
      return reader_.ErrorAt(ast.column,
                             absl::StrCat(ast.integer, " is out of range for ", NameOf(type)));
    }
    return value;
  }

  absl::StatusOr<std::vector<ExprPtr>> BuildAll(const Ast& ast, DType type) const {
    std::vector<ExprPtr> args;
    for (const AstPtr& arg : ast.args) {
      auto built = Build(*arg, type);
      if (!built.ok()) return built.status();
      args.push_back(*std::move(built));
    }
    return args;
  }

  // The type of something whose surroundings do not tell.
  static DType TypeAlone(const Ast& ast, Accepts accepts = Accepts::kAny) {
    if (ast.type) return *ast.type;
    return accepts == Accepts::kFloat || HasFraction(ast) ? DType::kF64 : DType::kI64;
  }

  static bool HasFraction(const Ast& ast) {
    if (ast.kind == Ast::Kind::kNumber) return true;
    if (ast.kind == Ast::Kind::kOp && FindOp(ast.op)->accepts == Accepts::kFloat) return true;
    for (size_t i = ast.kind == Ast::Kind::kSelect ? 1 : 0; i < ast.args.size(); ++i) {
      if (!ast.args[i]->type && HasFraction(*ast.args[i])) return true;
    }
    return false;
  }

  absl::StatusOr<ExprPtr> CastTo(const Ast& ast, DType type) const {
    const Ast& inner = *ast.args[0];
    // f16(0.1) is the literal 0.1 of that type; i32(0.5) is a conversion.
    const bool direct = !inner.type && (IsFloat(type) || !HasFraction(inner));
    auto value = Build(inner, direct && type != DType::kBool ? type : TypeAlone(inner));
    if (!value.ok()) return value;
    return Cast(type, *std::move(value));
  }

  absl::StatusOr<ExprPtr> SelectOf(const Ast& ast, DType type) const {
    auto condition = Build(*ast.args[0], DType::kBool);
    if (!condition.ok()) return condition;
    auto a = Build(*ast.args[1], type);
    if (!a.ok()) return a;
    auto b = Build(*ast.args[2], type);
    if (!b.ok()) return b;
    return Select(*std::move(condition), *std::move(a), *std::move(b));
  }

  absl::StatusOr<ExprPtr> Operation(const Ast& ast, DType type) const {
    const OpInfo& info = *FindOp(ast.op);
    DType operands = type;
    if (info.gives_bool) {
      operands = TypeAlone(*ast.args[0], info.accepts);
      if (ast.args.size() == 2 && !ast.args[0]->type) {
        operands = TypeAlone(*ast.args[1], info.accepts);
        if (!ast.args[1]->type && HasFraction(*ast.args[0])) operands = DType::kF64;
      }
      if (info.accepts == Accepts::kBool) operands = DType::kBool;
    }
    if (!Takes(info.accepts, operands)) {
      return reader_.ErrorAt(
          ast.column, absl::StrCat("'", info.name, "' takes ", NameOf(info.accepts), ", not ",
                                   NameOf(operands)));
    }
    // Numbers alone are worked out in double and rounded once, so that 1 / 3 * 3 is 1 in f16 too.
    if (ast.literal && IsFloat(operands) && operands != DType::kF64) {
      auto exact = Operation(ast, DType::kF64);
      if (!exact.ok()) return exact;
      if ((*exact)->op == Op::kConst) return Const(type, (*exact)->number);
    }
    auto args = BuildAll(ast, operands);
    if (!args.ok()) return args.status();
    return args->size() == 1 ? Unary(ast.op, (*args)[0]) : Binary(ast.op, (*args)[0], (*args)[1]);
  }

  const TokenReader& reader_;
  const Scope& scope_;
};

}  // namespace

absl::StatusOr<ExprPtr> Build(const TokenReader& reader, const Scope& scope, const Ast& ast,
                              DType type) {
  return Builder(reader, scope).Build(ast, type);
}

namespace {

// Reads a constant; also gives what it was read from.
absl::StatusOr<ExprPtr> ParseConstant(TokenReader& reader, const Dims& dims, DType type,
                                      AstPtr* read) {
  const Scope scope{nullptr, &dims, {}};
  const int column = reader.Peek().column;
  auto ast = ParseExpression(reader, scope);
  if (!ast.ok()) return ast.status();
  auto value = Build(reader, scope, **ast, type);
  if (!value.ok()) return value;
  if ((*value)->op != Op::kConst) return reader.ErrorAt(column, "division by zero");
  *read = *std::move(ast);
  return value;
}

// Computes without wrapping. True: it is beyond i64 somewhere, where an extent that wrapped would
// be a plausible wrong one, or it has more than numbers and arithmetic in it.
bool Overflows(const Ast& ast, int64_t& value) {
  value = ast.integer;
  if (ast.kind == Ast::Kind::kInteger) return false;
  if (ast.kind != Ast::Kind::kOp) return true;
  int64_t a = 0, b = 0;
  if (Overflows(*ast.args[0], a)) return true;
  if (ast.args.size() == 2 && Overflows(*ast.args[1], b)) return true;
  switch (ast.op) {
    case Op::kAdd:
      return __builtin_add_overflow(a, b, &value);
    case Op::kSub:
      return __builtin_sub_overflow(a, b, &value);
    case Op::kMul:
      return __builtin_mul_overflow(a, b, &value);
    case Op::kNeg:
      return __builtin_sub_overflow(int64_t{0}, a, &value);
    case Op::kDiv:
      if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, &value);
      value = b == 0 ? 0 : FloorDiv(a, b);
      return false;
    case Op::kMod:
      value = b == 0 ? 0 : FloorMod(a, b);
      return false;
    default:
      return true;
  }
}

}  // namespace

absl::StatusOr<int64_t> ParseInteger(TokenReader& reader, const Dims& dims) {
  const int column = reader.Peek().column;
  AstPtr ast;
  auto value = ParseConstant(reader, dims, DType::kI64, &ast);
  if (!value.ok()) return value.status();
  int64_t exact = 0;
  if (Overflows(*ast, exact)) {
    return reader.ErrorAt(column, "beyond 64 bits, or not of numbers, dimensions and + - * / %");
  }
  return exact;
}

absl::StatusOr<double> ParseNumber(TokenReader& reader, const Dims& dims) {
  AstPtr ast;
  auto value = ParseConstant(reader, dims, DType::kF64, &ast);
  if (!value.ok()) return value.status();
  return (*value)->number;
}

}  // namespace warpsmith::graph
