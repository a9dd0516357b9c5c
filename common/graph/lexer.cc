#include "common/graph/lexer.h"

#include <cctype>
#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace warpsmith::graph {
namespace {

constexpr uint64_t kLargestInteger = uint64_t{1} << 63;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool StartsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool InName(char c) { return StartsName(c) || IsDigit(c) || c == '.'; }

// The length of a number at the start: digits, a fraction, an exponent.
size_t NumberLength(std::string_view text, bool* fractional) {
  size_t i = 0;
  while (i < text.size() && IsDigit(text[i])) ++i;
  *fractional = false;
  if (i < text.size() && text[i] == '.') {
    *fractional = true;
    ++i;
    while (i < text.size() && IsDigit(text[i])) ++i;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    size_t j = i + 1;
    if (j < text.size() && (text[j] == '+' || text[j] == '-')) ++j;
    if (j < text.size() && IsDigit(text[j])) {
      *fractional = true;
      while (j < text.size() && IsDigit(text[j])) ++j;
      i = j;
    }
  }
  return i;
}

size_t SymbolLength(std::string_view text) {
  for (std::string_view symbol : {"<=", ">=", "==", "!="}) {
    if (text.substr(0, 2) == symbol) return 2;
  }
  constexpr std::string_view kSymbols = "+-*/%()[],:=~<>";
  return kSymbols.find(text[0]) != std::string_view::npos ? 1 : 0;
}

}  // namespace

absl::Status SyntaxError(int line_number, int column, const std::string& message) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line_number, ", column ", column, ": ", message));
}

absl::StatusOr<std::vector<Token>> Tokenize(const std::string& line, int line_number) {
  std::vector<Token> tokens;
  const std::string_view all(line);
  size_t at = 0;
  while (at < all.size() && all[at] != '#') {
    const std::string_view rest = all.substr(at);
    if (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r') {
      ++at;
      continue;
    }
    Token token;
    token.column = static_cast<int>(at) + 1;
    size_t length = 0;
    if (StartsName(rest[0])) {
      token.kind = Token::Kind::kName;
      while (length < rest.size() && InName(rest[length])) ++length;
    } else if (IsDigit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && IsDigit(rest[1]))) {
      bool fractional = false;
      length = NumberLength(rest, &fractional);
      const char* end = rest.data() + length;
      std::from_chars_result result;
      if (fractional) {
        token.kind = Token::Kind::kNumber;
        result = std::from_chars(rest.data(), end, token.number);
      } else {
        token.kind = Token::Kind::kInteger;
        result = std::from_chars(rest.data(), end, token.integer);
      }
      if (result.ec != std::errc() || result.ptr != end || token.integer > kLargestInteger) {
        return SyntaxError(
            line_number, token.column,
            absl::StrCat("number ", std::string(rest.substr(0, length)), " is out of range"));
      }
      if (length < rest.size() && InName(rest[length])) {
        return SyntaxError(line_number, token.column, "a name does not start with a digit");
      }
    } else {
      token.kind = Token::Kind::kSymbol;
      length = SymbolLength(rest);
      if (length == 0) {
        return SyntaxError(line_number, token.column,
                           absl::StrCat("'", std::string(1, rest[0]), "' has no meaning here"));
      }
    }
    token.text = std::string(rest.substr(0, length));
    tokens.push_back(std::move(token));
    at += length;
  }
  Token end;
  end.column = static_cast<int>(at) + 1;
  tokens.push_back(end);
  return tokens;
}

}  // namespace warpsmith::graph
