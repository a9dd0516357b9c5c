#include "worker/device/kernel_scan.h"

#include <algorithm>
#include <cctype>

namespace warpsmith::device {
namespace {

bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsWord(char c) { return IsWordStart(c) || std::isdigit(static_cast<unsigned char>(c)); }

// Words, string literals and single punctuation characters; no comments.
std::vector<std::string> Tokens(const std::string& text) {
  std::vector<std::string> tokens;
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    size_t end = i + 1;
    if (std::isspace(static_cast<unsigned char>(c))) {
      // skipped
    } else if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
    } else if (text.compare(i, 2, "/*") == 0) {
      const size_t close = text.find("*/", i + 2);
      end = close == std::string::npos ? text.size() : close + 2;
    } else if (c == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      tokens.push_back(text.substr(i, end - i));
    } else if (IsWord(c)) {
      while (end < text.size() && IsWord(text[end])) ++end;
      tokens.push_back(text.substr(i, end - i));
    } else {
      tokens.emplace_back(1, c);
    }
    i = end;
  }
  return tokens;
}

// The name of the function whose declaration goes on at `i`, behind __global__; empty if there is
// none. An attribute with arguments, such as __launch_bounds__(256, 2), is passed over.
std::string NameAfter(const std::vector<std::string>& tokens, size_t i) {
  std::string word;
  for (; i < tokens.size(); ++i) {
    if (tokens[i] == ";" || tokens[i] == "{") return "";
    if (tokens[i] != "(") {
      word = tokens[i];
      continue;
    }
    const bool attribute =
        word.rfind("__", 0) == 0 && word.size() > 4 && word.compare(word.size() - 2, 2, "__") == 0;
    if (!attribute) return IsWordStart(word.empty() ? ' ' : word[0]) ? word : "";
    for (int depth = 0; i < tokens.size(); ++i) {
      if (tokens[i] == "(") ++depth;
      if (tokens[i] == ")" && --depth == 0) break;
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> KernelNames(const std::string& source) {
  const std::vector<std::string> tokens = Tokens(source);
  std::vector<std::string> names;
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i] != "extern" || tokens[i + 1] != "\"C\"") continue;
    // __global__ may follow at once or after other specifiers.
    size_t at = i + 2;
    while (at < tokens.size() && at < i + 6 && tokens[at] != "__global__") ++at;
    if (at >= tokens.size() || tokens[at] != "__global__") continue;
    std::string name = NameAfter(tokens, at + 1);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace warpsmith::device
