#include "planner/board/edit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/text.h"
#include "common/rpc/text.h"
#include "planner/board/board.h"

namespace warpsmith::board {
namespace {

constexpr size_t kMaxQuoted = 200;
constexpr size_t kMaxReason = 2'000;  // bytes

constexpr char kRunHeading[] = "## Run ";
constexpr char kWorkersHeading[] = "## Workers";
constexpr char kStateColumn[] = "state";
constexpr char kHowTo[] = "write `hold`, `release` or `cancel` in its state cell";

constexpr std::pair<const char*, Verb> kVerbs[] = {
    {"hold", Verb::kHold}, {"release", Verb::kRelease}, {"cancel", Verb::kCancel}};
// What the planner writes there, up to a colon or comma (board.cc).
constexpr const char* kStates[] = {"queued", "leased",   "converged", "parked",
                                   "failed", "held",     "cancelled", "unknown",
                                   "up",     "draining", "sick",      "lost"};

using Row = std::vector<std::string>;             // its cells
using Key = std::pair<std::string, std::string>;  // section, name

// "| a | b\|c |" as "a" and "b|c"; nullopt: it is no row.
std::optional<Row> RowOf(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "|") || !absl::ConsumeSuffix(&line, "|")) return std::nullopt;
  Row row(1);
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && absl::ascii_ispunct(line[i + 1])) {
      row.back() += line[++i];
    } else if (line[i] == '|') {
      row.emplace_back();
    } else {
      row.back() += line[i];
    }
  }
  for (std::string& cell : row) cell = std::string(absl::StripAsciiWhitespace(cell));
  return row;
}

bool IsRule(const Row& row) {
  return std::all_of(row.begin(), row.end(), [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("-:") == std::string::npos;
  });
}

bool IsState(absl::string_view cell) {
  const absl::string_view word = cell.substr(0, cell.find_first_of(":,"));
  return std::find(std::begin(kStates), std::end(kStates), word) != std::end(kStates);
}

// Reads the lines of a page; `on_row` gets those of the tables of runs and workers.
class Reader {
 public:
  struct Line {
    int number = 0;
    std::string text;
    std::string section;  // a run's id, kWorkers, or "": none that has rows
    bool broken = false;  // the section has two tables: a heading is gone
    std::optional<Row> row;
    size_t state = 0;  // the column, where the row has as many cells as its table
    bool whole = false;
  };
  static constexpr char kWorkers[] = "workers of the fleet";  // no run is called so

  // Called for each line in turn.
  Line Read(int number, std::string text) {
    Line line{.number = number, .text = std::move(text)};
    if (absl::StartsWith(line.text, "## ")) {
      Begin(line.text);
      return line;
    }
    line.section = section_;
    line.row = RowOf(line.text);
    if (!line.row.has_value() || section_.empty()) return line;
    if (IsRule(*line.row)) {
      line.row.reset();
      return line;
    }
    const auto state = std::find(line.row->begin(), line.row->end(), kStateColumn);
    if (state != line.row->end()) {  // a table's head
      if (columns_ > 0) broken_ = true;
      columns_ = line.row->size();
      state_ = static_cast<size_t>(state - line.row->begin());
      line.row.reset();
      return line;
    }
    line.broken = broken_;
    line.state = state_;
    line.whole = line.row->size() == columns_ && state_ > 0;
    return line;
  }

 private:
  void Begin(absl::string_view heading) {
    columns_ = state_ = 0;
    broken_ = false;
    section_.clear();
    if (absl::StartsWith(heading, kWorkersHeading)) {
      section_ = kWorkers;
    } else if (absl::ConsumePrefix(&heading, kRunHeading)) {
      section_ = std::string(heading.substr(0, heading.find(':')));
    }
  }

  std::string section_;
  size_t columns_ = 0, state_ = 0;
  bool broken_ = false;
};

// What is on a page by itself, for what was changed on another.
struct Base {
  explicit Base(const std::string& page) {
    Reader reader;
    int number = 0;
    for (const absl::string_view text : absl::StrSplit(page, '\n')) {
      const Reader::Line line = reader.Read(++number, std::string(text));
      lines.insert(line.text);
      if (line.row.has_value() && line.whole) rows[{line.section, line.row->front()}] = *line.row;
    }
  }
  std::set<std::string> lines;
  std::map<Key, Row> rows;
};

class Pass {
 public:
  explicit Pass(const std::string& base) {
    if (!base.empty()) base_.emplace(base);
  }

  void Take(const Reader::Line& line) {
    if (!line.row.has_value()) {
      if (base_.has_value() && base_->lines.count(line.text) == 0 && !line.text.empty()) {
        Leave(line, absl::StrCat("only rows of tasks and workers are read: ", kHowTo));
      }
      return;
    }
    if (base_.has_value() && line.whole) seen_.insert({line.section, line.row->front()});
    if (base_.has_value() && base_->lines.count(line.text) > 0) return;
    const absl::StatusOr<std::optional<Edit>> edit = EditOf(line);
    if (!edit.ok()) return Leave(line, std::string(edit.status().message()));
    if (edit->has_value()) {
      edits_[{line.section, line.row->front()}].push_back(**edit);
    } else if (base_.has_value()) {
      Leave(line, absl::StrCat("the state alone is read: ", kHowTo));
    }
  }

  Edits Finish() {
    Edits all;
    for (auto& [key, edits] : edits_) {
      if (edits.size() == 1) {
        all.edits.push_back(std::move(edits.front()));
        continue;
      }
      for (const Edit& edit : edits) {
        unread_.push_back({edit.line, edit.text,
                           absl::StrCat(key.second, " stands in lines ", edits.front().line,
                                        " and ", edits.back().line, ": none of them is read")});
      }
    }
    std::sort(all.edits.begin(), all.edits.end(),
              [](const Edit& a, const Edit& b) { return a.line < b.line; });
    LeaveGone();
    std::stable_sort(unread_.begin(), unread_.end(),
                     [](const Unread& a, const Unread& b) { return a.line < b.line; });
    if (unread_.size() > kMaxUnread) {
      const size_t more = unread_.size() - kMaxUnread;
      unread_.resize(kMaxUnread);
      unread_.push_back({0, "", absl::StrCat("and ", more, " lines more were not read")});
    }
    all.unread = std::move(unread_);
    return all;
  }

 private:
  void Leave(const Reader::Line& line, std::string why) {
    unread_.push_back({line.number, line.text, std::move(why)});
  }

  // None: it says what the planner might have written. The error says why it cannot be read.
  absl::StatusOr<std::optional<Edit>> EditOf(const Reader::Line& line) const {
    const Row& row = *line.row;
    const auto wrong = [](const auto&... parts) {
      return absl::InvalidArgumentError(absl::StrCat(parts...));
    };
    if (!line.whole) {
      // A broken row of somebody's, or one of another table.
      return wrong("this is no row of a table of tasks or workers, which have as many cells as ",
                   "their heads: take the row as it was, and ", kHowTo);
    }
    const std::string& cell = row[line.state];
    const size_t colon = std::min(cell.find(':'), cell.size());
    const std::string word =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(cell.substr(0, colon)));
    const auto* const verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                          [&](const auto& one) { return word == one.first; });
    if (verb == std::end(kVerbs)) {
      if (IsState(cell)) return std::nullopt;
      return wrong("'", Quoted(cell), "' is neither a state nor a verb: ", kHowTo);
    }
    const bool worker = line.section == Reader::kWorkers;
    if (line.broken) {
      return wrong("the heading of a run or of the workers is gone, and whose row it is not clear");
    }
    if (worker && verb->second == Verb::kCancel) {
      return wrong("a worker is held or released, and not cancelled");
    }
    Edit edit{.line = line.number,
              .text = line.text,
              .verb = verb->second,
              .run_id = worker ? "" : line.section,
              .name = row.front()};
    if (colon < cell.size()) {
      edit.reason = std::string(absl::StripAsciiWhitespace(cell.substr(colon + 1)));
    }
    if (edit.name != rpc::ToUtf8(edit.name) || edit.reason != rpc::ToUtf8(edit.reason)) {
      return wrong("it is not UTF-8");
    }
    if (edit.reason.size() > kMaxReason) {
      return wrong("a reason of ", edit.reason.size(), " bytes: say it in ", kMaxReason);
    }
    if (!base_.has_value()) return edit;
    const auto before = base_->rows.find({line.section, row.front()});
    if (before == base_->rows.end()) {
      return wrong("there was no row of ", Quoted(row.front()), " on the page");
    }
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == line.state || i >= before->second.size() || row[i] == before->second[i]) continue;
      return wrong("the state alone is read, and '", Quoted(before->second[i]),
                   "' was changed to '", Quoted(row[i]), "', too: nothing of this row was done");
    }
    return edit;
  }

  void LeaveGone() {
    if (!base_.has_value()) return;
    std::vector<std::string> gone;
    for (const auto& [key, row] : base_->rows) {
      if (seen_.count(key) == 0) gone.push_back(key.second);
    }
    if (gone.empty()) return;
    unread_.push_back(
        {0, "",
         absl::StrCat("the rows of ", Quoted(absl::StrJoin(gone, ", ")),
                      " are gone, and nothing was done: `cancel` ends the work on a task")});
  }

  std::optional<Base> base_;
  std::map<Key, std::vector<Edit>> edits_;
  std::set<Key> seen_;
  std::vector<Unread> unread_;
};

}  // namespace

Edits ReadEdits(const std::string& page, const std::string& base) {
  if (EndOf(page).empty()) {
    return {{},
            {{0, "", "its last line, which says which page it was, is missing: it may be cut"}}};
  }
  Pass pass(base);
  Reader reader;
  int number = 0;
  for (const absl::string_view text : absl::StrSplit(page, '\n')) {
    const std::string line(absl::StripSuffix(text, "\r"));
    ++number;
    for (const char* mark : {"<<<<<<< ", ">>>>>>> "}) {
      if (absl::StartsWith(line, mark)) {
        return {{}, {{number, line, "a mark of a conflict: nothing of the page was read"}}};
      }
    }
    pass.Take(reader.Read(number, line));
  }
  return pass.Finish();
}

v1::TaskState StateOf(Verb verb) {
  switch (verb) {
    case Verb::kHold:
      return v1::HELD;
    case Verb::kRelease:
      return v1::QUEUED;
    case Verb::kCancel:
      return v1::CANCELLED;
  }
  return v1::HELD;
}

std::string Describe(const Edit& edit) {
  const auto* const verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                        [&](const auto& one) { return one.second == edit.verb; });
  return edit.run_id.empty() ? absl::StrCat(verb->first, " worker ", edit.name)
                             : absl::StrCat(verb->first, " ", edit.run_id, "/", edit.name);
}

std::string Quoted(const std::string& text) {
  std::string plain = rpc::ToUtf8(text);
  for (char& c : plain) {
    if (absl::ascii_iscntrl(c) || c == '`' || c == '<') c = ' ';
  }
  return base::Shortened(plain, kMaxQuoted);
}

}  // namespace warpsmith::board
