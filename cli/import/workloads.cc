#include "cli/import/workloads.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/graph/lexer.h"

namespace warpsmith::import {
namespace {

using graph::Token;
using Values = std::vector<int64_t>;  // of a number, one for each workload

// The number that a token is, where it is a whole one.
std::optional<int64_t> WholeNumber(const Token& token) {
  constexpr double kExact = 0x1p53;
  if (token.kind == Token::Kind::kInteger && token.integer < uint64_t{1} << 63) {
    return static_cast<int64_t>(token.integer);
  }
  // 100000 is printed as 1e+05.
  if (token.kind == Token::Kind::kNumber && std::fabs(token.number) < kExact &&
      std::trunc(token.number) == token.number) {
    return static_cast<int64_t>(token.number);
  }
  return std::nullopt;
}

class Merger {
 public:
  explicit Merger(const std::vector<WorkloadText>& texts) : texts_(texts) {
    for (const auto& [name, value] : texts[0].dims) {
      Values values;
      for (const WorkloadText& text : texts) {
        const auto found = text.dims.find(name);
        if (found != text.dims.end()) values.push_back(found->second);
      }
      if (values.size() == texts.size() && graph::IsName(name)) known_.emplace(values, name);
    }
    merged_.dims.resize(texts.size());
  }

  absl::StatusOr<MergedText> Merge() {
    for (const WorkloadText& text : texts_) {
      if (text.lines.size() != texts_[0].lines.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("workload '", text.workload, "' has a graph of ", text.lines.size(),
                         " lines, and '", texts_[0].workload, "' one of ", texts_[0].lines.size()));
      }
    }
    for (size_t line = 0; line < texts_[0].lines.size(); ++line) {
      const absl::Status read = Read(line);
      if (!read.ok()) return read;
    }
    for (size_t line = 0; line < tokens_.size(); ++line) {
      auto merged = MergeLine(line);
      if (!merged.ok()) return merged.status();
      merged_.lines.push_back(*std::move(merged));
    }
    return std::move(merged_);
  }

 private:
  // Tokens of a line in every text; their names are taken.
  absl::Status Read(size_t line) {
    std::vector<std::vector<Token>> rows;
    for (const WorkloadText& text : texts_) {
      auto tokens = graph::Tokenize(text.lines[line], static_cast<int>(line) + 1);
      if (!tokens.ok()) return tokens.status();
      for (const Token& token : *tokens) {
        if (token.kind == Token::Kind::kName) taken_.insert(token.text);
      }
      rows.push_back(*std::move(tokens));
    }
    tokens_.push_back(std::move(rows));
    return absl::OkStatus();
  }

  absl::Status Differs(size_t line, size_t text) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "workloads '", texts_[0].workload, "' and '", texts_[text].workload,
        "' give graphs that differ in more than sizes: '", texts_[0].lines[line], "' and '",
        texts_[text].lines[line], "'; make a file of each, or let them be alike"));
  }

  absl::StatusOr<std::string> MergeLine(size_t line) {
    const std::vector<std::vector<Token>>& rows = tokens_[line];
    const std::string& first = texts_[0].lines[line];
    std::string merged;
    size_t written = 0;  // of `first`
    for (size_t t = 0; t < rows[0].size(); ++t) {
      bool same = true;
      Values values;
      for (size_t text = 0; text < rows.size(); ++text) {
        if (rows[text].size() != rows[0].size()) return Differs(line, text);
        const Token& token = rows[text][t];
        if (const auto number = WholeNumber(token)) values.push_back(*number);
        if (token.text == rows[0][t].text) continue;
        same = false;
        if (values.size() != text + 1) return Differs(line, text);
      }
      if (same) continue;
      const size_t begin = rows[0][t].column - 1;
      absl::StrAppend(&merged, first.substr(written, begin - written), NameOf(values));
      written = begin + rows[0][t].text.size();
    }
    return merged + first.substr(written);
  }

  // What numbers that are these in the workloads are called.
  std::string NameOf(const Values& values) {
    const auto used = names_.find(values);
    if (used != names_.end()) return used->second;
    const auto known = known_.find(values);
    std::string name = known == known_.end() ? absl::StrCat("N", unnamed_++) : known->second;
    while (taken_.count(name) > 0) name += "_";
    taken_.insert(name);
    for (size_t text = 0; text < values.size(); ++text) merged_.dims[text][name] = values[text];
    return names_[values] = name;
  }

  const std::vector<WorkloadText>& texts_;
  std::vector<std::vector<std::vector<Token>>> tokens_;  // by line, by text
  std::map<Values, std::string> known_, names_;
  std::set<std::string> taken_;
  int unnamed_ = 0;
  MergedText merged_;
};

}  // namespace

absl::StatusOr<MergedText> MergeTexts(const std::vector<WorkloadText>& texts) {
  return Merger(texts).Merge();
}

}  // namespace warpsmith::import
