// Words of one line of graph text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpsmith::graph {

struct Token {
  enum class Kind { kName, kInteger, kNumber, kSymbol, kEnd } kind = Kind::kEnd;
  std::string text;      // as written; kEnd: empty
  uint64_t integer = 0;  // kInteger, at most 2^63 (which only a minus makes a value)
  double number = 0;     // kNumber
  int column = 1;        // of its first character, from 1
};

// The tokens of a line, without its comment; the last one is kEnd. Symbols are
// + - * / % ( ) [ ] , : = ~ < <= > >= == !=.
// InvalidArgument: `line 3, column 7: ...`.
absl::StatusOr<std::vector<Token>> Tokenize(const std::string& line, int line_number);

// `line 3, column 7: message`, as an InvalidArgument.
absl::Status SyntaxError(int line_number, int column, const std::string& message);

}  // namespace warpsmith::graph
