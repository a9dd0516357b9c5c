// Recursive descent over one expression: text to Ast.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/ast.h"
#include "common/graph/operators.h"

namespace warpsmith::graph {

const Token& TokenReader::Peek(int ahead) const {
  return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
}

Token TokenReader::Next() {
  Token token = Peek();
  if (next_ + 1 < tokens_.size()) ++next_;
  return token;
}

bool TokenReader::At(const char* symbol, int ahead) const {
  const Token& token = Peek(ahead);
  return token.text == symbol &&
         (token.kind == Token::Kind::kSymbol || token.kind == Token::Kind::kName);
}

bool TokenReader::Take(const char* symbol) {
  if (!At(symbol)) return false;
  Next();
  return true;
}

absl::Status TokenReader::Expect(const char* symbol) {
  if (Take(symbol)) return absl::OkStatus();
  return ErrorHere(absl::StrCat("expected '", symbol, "'"));
}

absl::Status TokenReader::ExpectEnd() {
  if (Peek().kind == Token::Kind::kEnd) return absl::OkStatus();
  return ErrorHere("expected the end of the line");
}

absl::StatusOr<Token> TokenReader::ExpectName(const char* what) {
  if (Peek().kind != Token::Kind::kName || !IsName(Peek().text)) {
    return ErrorHere(absl::StrCat("expected ", what));
  }
  return Next();
}

absl::Status TokenReader::ErrorHere(const std::string& message) const {
  const Token& token = Peek();
  const std::string found =
      token.kind == Token::Kind::kEnd ? "the end of the line" : absl::StrCat("'", token.text, "'");
  return ErrorAt(token.column, absl::StrCat(message, " but found ", found));
}

absl::Status TokenReader::ErrorAt(int column, const std::string& message) const {
  return SyntaxError(line_, column, message);
}

namespace {

class ExpressionParser {
 public:
  ExpressionParser(TokenReader& reader, const Scope& scope) : reader_(reader), scope_(scope) {}

  absl::StatusOr<AstPtr> Parse() { return Infix(kOrPrecedence); }

 private:
  struct Infixed {
    Op op;
    int precedence;
    bool swap;  // a > b is b < a
  };

  // Refuses what is nested too deep, which would exhaust the stack.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) { ++depth_; }
    ~Depth() { --depth_; }

   private:
    int& depth_;
  };

  std::optional<Infixed> PeekInfix() const {
    static constexpr struct {
      const char* symbol;
      Infixed infix;
    } kInfixes[] = {
        {"or", {Op::kOr, kOrPrecedence, false}},      {"and", {Op::kAnd, kAndPrecedence, false}},
        {"<", {Op::kLt, kComparePrecedence, false}},  {"<=", {Op::kLe, kComparePrecedence, false}},
        {">", {Op::kLt, kComparePrecedence, true}},   {">=", {Op::kLe, kComparePrecedence, true}},
        {"==", {Op::kEq, kComparePrecedence, false}}, {"!=", {Op::kNe, kComparePrecedence, false}},
        {"+", {Op::kAdd, kAddPrecedence, false}},     {"-", {Op::kSub, kAddPrecedence, false}},
        {"*", {Op::kMul, kMulPrecedence, false}},     {"/", {Op::kDiv, kMulPrecedence, false}},
        {"%", {Op::kMod, kMulPrecedence, false}},
    };
    for (const auto& [symbol, infix] : kInfixes) {
      if (reader_.At(symbol)) return infix;
    }
    return std::nullopt;
  }

  // Operators that bind at least as tightly as `precedence`.
  absl::StatusOr<AstPtr> Infix(int precedence) {
    Depth depth(depth_);
    if (depth_ > kMaxNesting) {
      return reader_.ErrorAt(reader_.Peek().column,
                             absl::StrCat("nested deeper than ", kMaxNesting, " levels"));
    }
    auto left = Prefix(precedence);
    bool compared = false;
    while (left.ok()) {
      const auto infix = PeekInfix();
      if (!infix || infix->precedence < precedence) break;
      if (infix->precedence == kComparePrecedence) {
        if (compared) return reader_.ErrorHere("comparisons do not chain: expected 'and'");
        compared = true;
      }
      const int column = reader_.Next().column;
      auto right = Infix(infix->precedence + 1);
      if (!right.ok()) return right;
      if (infix->swap) std::swap(*left, *right);
      left = MakeOp(infix->op, column, *std::move(left), *std::move(right));
    }
    return left;
  }

  absl::StatusOr<AstPtr> Prefix(int precedence) {
    const int column = reader_.Peek().column;
    if (precedence <= kNotPrecedence && reader_.Take("not")) {
      auto operand = Infix(kComparePrecedence);
      return operand.ok() ? MakeOp(Op::kNot, column, *std::move(operand)) : std::move(operand);
    }
    if (!reader_.Take("-")) return Primary();
    if (reader_.Peek().kind == Token::Kind::kInteger) {
      const uint64_t magnitude = reader_.Next().integer;
      AstPtr ast = Make(Ast::Kind::kInteger, column);
      ast->integer = static_cast<int64_t>(-magnitude);
      // -0 is the integer 0; as a float, minus zero is written -0.0.
      ast->literal = true;
      return ast;
    }
    auto operand = Infix(kNegPrecedence);
    return operand.ok() ? MakeOp(Op::kNeg, column, *std::move(operand)) : std::move(operand);
  }

  absl::StatusOr<AstPtr> Primary() {
    const Token& token = reader_.Peek();
    switch (token.kind) {
      case Token::Kind::kInteger:
      case Token::Kind::kNumber:
        return Literal();
      case Token::Kind::kName:
        return Named();
      default:
        break;
    }
    if (!reader_.At("(")) return reader_.ErrorHere("expected an expression");
    reader_.Next();
    auto inner = Infix(kOrPrecedence);
    if (!inner.ok()) return inner;
    if (auto status = reader_.Expect(")"); !status.ok()) return status;
    return inner;
  }

  absl::StatusOr<AstPtr> Literal() {
    const Token token = reader_.Next();
    const bool integer = token.kind == Token::Kind::kInteger;
    if (integer && token.integer > std::numeric_limits<int64_t>::max()) {
      return reader_.ErrorAt(token.column, absl::StrCat("number ", token.text, " is out of range"));
    }
    AstPtr ast = Make(integer ? Ast::Kind::kInteger : Ast::Kind::kNumber, token.column);
    ast->integer = static_cast<int64_t>(token.integer);
    ast->number = token.number;
    ast->literal = true;
    return ast;
  }

  absl::StatusOr<AstPtr> Named() {
    const Token token = reader_.Next();
    if (token.text == "true" || token.text == "false") {
      AstPtr ast = Make(Ast::Kind::kBool, token.column);
      ast->integer = token.text == "true";
      ast->type = DType::kBool;
      return ast;
    }
    if (token.text == "inf" || token.text == "nan") {
      AstPtr ast = Make(Ast::Kind::kNumber, token.column);
      ast->number = token.text == "inf" ? std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::quiet_NaN();
      ast->literal = true;
      return ast;
    }
    if (reader_.At("(")) return Call(token);
    if (reader_.At("[")) return LoadOf(token);
    for (size_t v = 0; v < scope_.variables.size(); ++v) {
      if (scope_.variables[v] != token.text) continue;
      AstPtr ast = Make(Ast::Kind::kVariable, token.column);
      ast->id = static_cast<int>(v);
      ast->type = DType::kI64;
      return ast;
    }
    if (auto dim = scope_.dims->find(token.text); dim != scope_.dims->end()) {
      AstPtr ast = Make(Ast::Kind::kInteger, token.column);
      ast->integer = dim->second;
      ast->literal = true;
      return ast;
    }
    return Unknown(token);
  }

  absl::Status Unknown(const Token& token) const {
    if (scope_.graph != nullptr && scope_.graph->Find(token.text) >= 0) {
      return reader_.ErrorAt(token.column, absl::StrCat("tensor '", token.text,
                                                        "' needs indexes: ", token.text, "[...]"));
    }
    std::vector<std::string> known = scope_.variables;
    for (const auto& [name, value] : *scope_.dims) known.push_back(name);
    return reader_.ErrorAt(
        token.column,
        absl::StrCat("unknown name '", token.text, "'; index variables and dimensions here are ",
                     known.empty() ? "none" : absl::StrJoin(known, ", ")));
  }

  absl::StatusOr<std::vector<AstPtr>> List(const char* close) {
    reader_.Next();  // what opens it
    std::vector<AstPtr> items;
    if (reader_.Take(close)) return items;
    while (true) {
      auto item = Infix(kOrPrecedence);
      if (!item.ok()) return item.status();
      items.push_back(*std::move(item));
      if (reader_.Take(close)) return items;
      if (!reader_.Take(","))
        return reader_.ErrorHere(absl::StrCat("expected ',' or '", close, "'"));
    }
  }

  absl::StatusOr<AstPtr> LoadOf(const Token& name) {
    const int tensor = scope_.graph == nullptr ? -1 : scope_.graph->Find(name.text);
    if (tensor < 0) {
      return reader_.ErrorAt(name.column, absl::StrCat("unknown tensor '", name.text, "'"));
    }
    auto indexes = List("]");
    if (!indexes.ok()) return indexes.status();
    const size_t rank = scope_.graph->tensors[tensor].shape.size();
    if (indexes->size() != rank) {
      return reader_.ErrorAt(name.column, absl::StrCat("'", name.text, "' has rank ", rank, " but ",
                                                       indexes->size(), " indexes are given"));
    }
    AstPtr ast = Make(Ast::Kind::kLoad, name.column);
    ast->id = tensor;
    ast->type = scope_.graph->tensors[tensor].type;
    ast->args = *std::move(indexes);
    return Measured(std::move(ast));
  }

  absl::StatusOr<AstPtr> Call(const Token& name) {
    auto args = List(")");
    if (!args.ok()) return args.status();
    const auto takes = [&](size_t count) {
      return args->size() == count
                 ? absl::OkStatus()
                 : reader_.ErrorAt(name.column, absl::StrCat(name.text, "() takes ", count,
                                                             " argument", count == 1 ? "" : "s",
                                                             " but ", args->size(), " are given"));
    };
    if (const auto type = FindType(name.text)) {
      if (auto status = takes(1); !status.ok()) return status;
      AstPtr ast = Make(Ast::Kind::kCast, name.column);
      ast->type = *type;
      ast->args = *std::move(args);
      return Measured(std::move(ast));
    }
    if (name.text == "select") {
      if (auto status = takes(3); !status.ok()) return status;
      AstPtr ast = Make(Ast::Kind::kSelect, name.column);
      ast->args = *std::move(args);
      if (auto status = Common(*ast, *ast->args[1], *ast->args[2], "select"); !status.ok()) {
        return status;
      }
      return Measured(std::move(ast));
    }
    if (name.text == "clamp") {  // clamp(x, low, high)
      if (auto status = takes(3); !status.ok()) return status;
      auto low = MakeOp(Op::kMax, name.column, std::move((*args)[0]), std::move((*args)[1]));
      if (!low.ok()) return low;
      return MakeOp(Op::kMin, name.column, *std::move(low), std::move((*args)[2]));
    }
    const OpInfo* info = FindFunction(name.text);
    if (info == nullptr) {
      return reader_.ErrorAt(
          name.column, absl::StrCat("unknown function '", name.text, "'",
                                    FindCombiner(name.text)
                                        ? "; a reduce names its axes, as in sum[c: C](x[c]), and "
                                          "stands alone after the '='"
                                        : ""));
    }
    if (auto status = takes(info->args); !status.ok()) return status;
    return info->args == 1
               ? MakeOp(info->op, name.column, std::move((*args)[0]))
               : MakeOp(info->op, name.column, std::move((*args)[0]), std::move((*args)[1]));
  }

  AstPtr Make(Ast::Kind kind, int column) const {
    auto ast = std::make_unique<Ast>();
    ast->kind = kind;
    ast->column = column;
    return ast;
  }

  // A chain of operators is as deep as it is long, and everything later recurses over it.
  absl::StatusOr<AstPtr> Measured(AstPtr ast) const {
    for (const AstPtr& arg : ast->args) ast->depth = std::max(ast->depth, arg->depth + 1);
    if (ast->depth <= kMaxDepth) return ast;
    return reader_.ErrorAt(ast->column, absl::StrCat("an expression deeper than ", kMaxDepth,
                                                     "; use a map for a part of it"));
  }

  // The common type of two operands, if one of them has any.
  absl::Status Common(Ast& ast, const Ast& a, const Ast& b, const char* what) const {
    if (a.type && b.type && *a.type != *b.type) {
      return reader_.ErrorAt(
          ast.column, absl::StrCat("'", what, "' of ", NameOf(*a.type), " and ", NameOf(*b.type),
                                   "; cast one, as in ", NameOf(*a.type), "(...)"));
    }
    ast.type = a.type ? a.type : b.type;
    return absl::OkStatus();
  }

  absl::StatusOr<AstPtr> MakeOp(Op op, int column, AstPtr a, AstPtr b = nullptr) const {
    const OpInfo* info = FindOp(op);
    AstPtr ast = Make(Ast::Kind::kOp, column);
    ast->op = op;
    ast->type = a->type;
    ast->literal = a->literal && (b == nullptr || b->literal) && !info->gives_bool;
    if (b != nullptr) {
      if (auto status = Common(*ast, *a, *b, info->name); !status.ok()) return status;
    }
    if (ast->type && !Takes(info->accepts, *ast->type)) {
      return reader_.ErrorAt(
          column, absl::StrCat("'", info->name, "' takes ", NameOf(info->accepts), ", not ",
                               NameOf(*ast->type)));
    }
    if (info->gives_bool) ast->type = DType::kBool;
    ast->args.push_back(std::move(a));
    if (b != nullptr) ast->args.push_back(std::move(b));
    return Measured(std::move(ast));
  }

  TokenReader& reader_;
  const Scope& scope_;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<AstPtr> ParseExpression(TokenReader& reader, const Scope& scope) {
  return ExpressionParser(reader, scope).Parse();
}

}  // namespace warpsmith::graph
