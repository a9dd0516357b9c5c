// Expressions as they are written, before literals have types.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "common/graph/lexer.h"

namespace warpsmith::graph {

// What names mean where an expression stands.
struct Scope {
  const Graph* graph = nullptr;  // loads; nullptr: only numbers
  const Dims* dims = nullptr;
  std::vector<std::string> variables;  // index variables, in order; they hide dims
};

// Reads tokens of one line. Every method that fails says where and what it expected.
class TokenReader {
 public:
  TokenReader(std::vector<Token> tokens, int line) : tokens_(std::move(tokens)), line_(line) {}

  const Token& Peek(int ahead = 0) const;
  Token Next();
  bool At(const char* symbol, int ahead = 0) const;  // a symbol or a name
  bool Take(const char* symbol);
  absl::Status Expect(const char* symbol);
  absl::Status ExpectEnd();
  absl::StatusOr<Token> ExpectName(const char* what);  // `what`: "a tensor's name"
  absl::Status ErrorHere(const std::string& message) const;
  absl::Status ErrorAt(int column, const std::string& message) const;

 private:
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int line_;
};

struct Ast;
using AstPtr = std::unique_ptr<Ast>;
struct Ast {
  enum class Kind { kInteger, kNumber, kBool, kVariable, kLoad, kOp, kSelect, kCast } kind;
  int column = 1;
  int64_t integer = 0;  // kInteger, kBool
  double number = 0;    // kNumber
  int id = -1;          // variable or tensor
  Op op = Op::kConst;
  std::vector<AstPtr> args;
  std::optional<DType> type;  // nullopt: only literals (perhaps in a select) say what it is
  int depth = 1;
  bool literal = false;  // nothing but numbers
};

// Reads an expression and finds the types that do not depend on where it stands.
absl::StatusOr<AstPtr> ParseExpression(TokenReader& reader, const Scope& scope);

// Gives it a type: literals take `type`. InvalidArgument if it has another.
absl::StatusOr<ExprPtr> Build(const TokenReader& reader, const Scope& scope, const Ast& ast,
                              DType type);

// An expression of numbers and dims alone.
absl::StatusOr<int64_t> ParseInteger(TokenReader& reader, const Dims& dims);
absl::StatusOr<double> ParseNumber(TokenReader& reader, const Dims& dims);

}  // namespace warpsmith::graph
