#include "cli/export/python_module.h"

#include <cctype>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace warpsmith::exporter {
namespace {

// A logical line: what stands between two ends of a statement, comments before it included.
struct Line {
  std::string text;  // with its newlines, the last one included
  int indent = 0;    // of its first character of code; -1: only blank lines and comments
  std::string code;  // from that character on, without comments
};

// Splits into logical lines: a line ends at a newline outside of brackets and strings.
class Splitter {
 public:
  explicit Splitter(std::string_view source) : source_(source) {}

  std::vector<Line> Split() {
    while (at_ < source_.size()) {
      lines_.push_back(Next());
    }
    return std::move(lines_);
  }

 private:
  Line Next() {
    Line line;
    const size_t begin = at_;
    int depth = 0, column = 0;
    bool any = false;
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '#') {
        while (at_ < source_.size() && source_[at_] != '\n') ++at_;
        continue;
      }
      if (c == '"' || c == '\'') {
        if (!any) line.indent = column;
        any = true;
        TakeString(c, line.code);
        continue;
      }
      ++at_;
      if (c == '\\' && at_ < source_.size() && source_[at_] == '\n') {
        ++at_;
        line.code += ' ';
        continue;
      }
      if (c == '\n') {
        if (depth == 0) break;
        line.code += ' ';
        continue;
      }
      if (!any && (c == ' ' || c == '\t' || c == '\r')) {
        column += c == '\t' ? 8 - column % 8 : 1;
        continue;
      }
      if (!any) line.indent = column;
      any = true;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      line.code += c;
    }
    if (!any) line.indent = -1;
    line.text = std::string(source_.substr(begin, at_ - begin));
    while (!line.code.empty() && std::isspace(static_cast<unsigned char>(line.code.back()))) {
      line.code.pop_back();
    }
    return line;
  }

  void TakeString(char quote, std::string& code) {
    const std::string triple(3, quote);
    const bool is_triple = source_.substr(at_, 3) == triple;
    const std::string_view end = is_triple ? std::string_view(triple) : std::string_view(&quote, 1);
    const size_t begin = at_;
    at_ += end.size();
    while (at_ < source_.size() && source_.substr(at_, end.size()) != end) {
      if (source_[at_] == '\\') ++at_;
      ++at_;
    }
    at_ = std::min(source_.size(), at_ + end.size());
    code += std::string(source_.substr(begin, at_ - begin));
  }

  const std::string_view source_;
  size_t at_ = 0;
  std::vector<Line> lines_;
};

// A statement with everything that is indented under it, and what stands right before it
// (decorators, comments).
struct Block {
  std::vector<Line> lines;
  std::string code;  // of its first line that is no decorator
  std::string Text() const {
    std::string text;
    for (const Line& line : lines) text += line.text;
    return text;
  }
};

// Blocks of the given indentation in lines[begin, end).
std::vector<Block> Blocks(const std::vector<Line>& lines, size_t begin, size_t end, int indent) {
  std::vector<Block> blocks;
  std::vector<Line> before;  // comments and decorators of the block that comes
  for (size_t i = begin; i < end; ++i) {
    const Line& line = lines[i];
    if (line.indent < 0) {
      before.push_back(line);
      continue;
    }
    if (line.indent > indent && !blocks.empty()) {
      auto& block = blocks.back().lines;
      block.insert(block.end(), before.begin(), before.end());
      block.push_back(line);
      before.clear();
      continue;
    }
    if (absl::StartsWith(line.code, "@")) {
      before.push_back(line);
      continue;
    }
    Block block;
    block.lines = std::move(before);
    block.lines.push_back(line);
    block.code = line.code;
    before.clear();
    blocks.push_back(std::move(block));
  }
  return blocks;
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

size_t FindWord(std::string_view text, std::string_view word, size_t from = 0) {
  for (size_t at = text.find(word, from); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !IsWordCharacter(text[at - 1]);
    const size_t behind = at + word.size();
    if (starts && (behind == text.size() || !IsWordCharacter(text[behind]))) return at;
  }
  return std::string_view::npos;
}

std::string Renamed(std::string text) {
  constexpr std::string_view kOld = "Model", kNew = "ModelNew";
  for (size_t at = FindWord(text, kOld); at != std::string::npos;
       at = FindWord(text, kOld, at + kNew.size())) {
    text.replace(at, kOld.size(), kNew);
  }
  return text;
}

bool IsDocstring(const std::string& code) {
  std::string_view text = code;
  while (!text.empty() && (text[0] == 'r' || text[0] == 'R' || text[0] == 'u' || text[0] == 'U')) {
    text.remove_prefix(1);
  }
  return !text.empty() && (text[0] == '"' || text[0] == '\'');
}

// "name" of `name = ...`, empty for anything else.
std::string AssignedName(const std::string& code) {
  size_t end = 0;
  while (end < code.size() && IsWordCharacter(code[end])) ++end;
  size_t at = end;
  while (at < code.size() && code[at] == ' ') ++at;
  if (end == 0 || at >= code.size() || code[at] != '=') return "";
  if (at + 1 < code.size() && code[at + 1] == '=') return "";
  return code.substr(0, end);
}

// "name" of `def name(...)`.
std::string DefinedName(const std::string& code) {
  std::string_view text = code;
  if (!absl::StartsWith(code, "def ")) return "";
  text.remove_prefix(4);
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  size_t end = 0;
  while (end < text.size() && IsWordCharacter(text[end])) ++end;
  return std::string(text.substr(0, end));
}

bool IsModelClass(const std::string& code) {
  return absl::StartsWith(code, "class ") && FindWord(code, "Model") == 6;
}

// Splits at commas outside of brackets and strings.
std::vector<std::string> SplitArguments(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  for (auto& part : parts) part = std::string(absl::StripAsciiWhitespace(part));
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

absl::StatusOr<std::vector<Parameter>> ReadParameters(const std::string& code) {
  const size_t open = code.find('(');
  size_t close = open;
  int depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == '(' || code[i] == '[' || code[i] == '{') ++depth;
    if (code[i] == ')' || code[i] == ']' || code[i] == '}') --depth;
    if (depth == 0) {
      close = i;
      break;
    }
  }
  if (open == std::string::npos || close == open) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read '", code, "'"));
  }
  std::vector<Parameter> parameters;
  bool first = true;
  for (const auto& text :
       SplitArguments(std::string_view(code).substr(open + 1, close - open - 1))) {
    if (first) {  // self
      first = false;
      continue;
    }
    if (absl::StartsWith(text, "*") || text == "/") {
      return absl::InvalidArgumentError(
          absl::StrCat("forward takes '", text, "'; name its arguments to export the module"));
    }
    Parameter parameter;
    parameter.text = text;
    size_t end = 0;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    parameter.name = text.substr(0, end);
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      parameter.default_value = std::string(absl::StripAsciiWhitespace(text.substr(equals + 1)));
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// A method without its docstring.
std::string WithoutDocstring(const Block& block) {
  std::string text;
  bool behind_def = false;
  for (const Line& line : block.lines) {
    if (behind_def && line.indent >= 0) {
      behind_def = false;
      if (IsDocstring(line.code)) continue;
    }
    if (line.code == block.code) behind_def = true;
    text += line.text;
  }
  return text;
}

void EndWithNewline(std::string& text) {
  if (!text.empty() && text.back() != '\n') text += '\n';
}

}  // namespace

absl::StatusOr<PythonModule> ReadModule(const std::string& source) {
  const std::vector<Line> lines = Splitter(source).Split();
  PythonModule module;
  const Block* model = nullptr;
  std::vector<Block> kept;
  const std::vector<Block> blocks = Blocks(lines, 0, lines.size(), 0);
  for (const Block& block : blocks) {
    const std::string name = DefinedName(block.code);
    if (IsModelClass(block.code)) {
      model = &block;
    } else if (name != "get_inputs" && name != "get_init_inputs" && !IsDocstring(block.code) &&
               !(absl::StartsWith(block.code, "if ") &&
                 absl::StrContains(block.code, "__name__"))) {
      kept.push_back(block);
    }
  }
  if (model == nullptr) return absl::InvalidArgumentError("the module's source has no class Model");

  // The class: its first line, then members of the indentation of the first of them.
  size_t header = 0;
  while (model->lines[header].code != model->code) ++header;
  int indent = -1;
  for (size_t i = header + 1; i < model->lines.size() && indent < 0; ++i) {
    indent = model->lines[i].indent;
  }
  bool has_forward = false;
  for (const Block& member : Blocks(model->lines, header + 1, model->lines.size(), indent)) {
    if (IsDocstring(member.code)) continue;
    if (DefinedName(member.code) == "forward") {
      auto parameters = ReadParameters(member.code);
      if (!parameters.ok()) return parameters.status();
      module.forward = *std::move(parameters);
      has_forward = true;
      continue;
    }
    module.members += Renamed(WithoutDocstring(member));
    EndWithNewline(module.members);
  }
  if (!has_forward) return absl::InvalidArgumentError("class Model has no forward");
  module.class_line = Renamed(model->code);
  module.indent = std::string(std::max(indent, 1), ' ');

  // Constants that nothing kept refers to were for the inputs.
  std::string used = module.members;
  for (const auto& parameter : module.forward) used += parameter.text + "\n";
  std::vector<std::string> texts;
  for (auto block = kept.rbegin(); block != kept.rend(); ++block) {
    const std::string name = AssignedName(block->code);
    if (!name.empty() && FindWord(used, name) == std::string::npos) continue;
    used += block->Text();
    texts.push_back(Renamed(block->Text()));
  }
  for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
    module.preamble += *text;
    EndWithNewline(module.preamble);
  }
  return module;
}

}  // namespace warpsmith::exporter
