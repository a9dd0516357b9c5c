#include "planner/board/edit.h"

#include <algorithm>
#include <map>
#include <optional>
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
#include "planner/core/state.h"

namespace warpsmith::board {
namespace {

constexpr size_t kMaxQuoted = 200;
constexpr size_t kMaxReason = 2'000;  // bytes
constexpr size_t kMaxName = 500;      // of a task: problem and workload

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

// Reads the lines of a page in turn, and knows whose a row is by the head of its table.
class Reader {
 public:
  struct Line {
    int number = 0;
    std::string text;
    std::string section;     // of a whole row: a run's id, or kWorkers
    bool frame = false;      // of a table, beside its rows
    std::optional<Row> row;  // a table's, or something like it
    bool whole = false;      // it stands in a table, and has its cells
    size_t state = 0;        // the column of a whole row
  };
  static constexpr char kWorkers[] = "workers of the fleet";  // no run is called so

  Line Read(int number, std::string text) {
    Line line{.number = number, .text = std::move(text)};
    line.row = RowOf(line.text);
    if (!line.row.has_value()) {
      columns_ = 0;  // a table ends with its rows
      return line;
    }
    if (const std::string section = SectionOf(*line.row); !section.empty()) {
      section_ = section;
      ++tables_[section];
      columns_ = line.row->size();
      state_ = static_cast<size_t>(std::find(line.row->begin(), line.row->end(), kStateColumn) -
                                   line.row->begin());
      line.frame = true;
    }
    line.frame |= IsRule(*line.row);
    line.whole = !line.frame && columns_ > 0 && line.row->size() == columns_;
    if (line.whole) line.section = section_;
    line.state = state_;
    if (line.frame) line.row.reset();
    return line;
  }

  // Where several tables say so, none is to be believed.
  int TablesOf(const std::string& section) const {
    const auto tables = tables_.find(section);
    return tables == tables_.end() ? 0 : tables->second;
  }

 private:
  // "": it is not the head of such a table.
  static std::string SectionOf(const Row& row) {
    if (std::equal(row.begin(), row.end(), std::begin(kWorkerColumns), std::end(kWorkerColumns))) {
      return kWorkers;
    }
    if (!std::equal(row.begin() + 1, row.end(), std::begin(kTaskColumns) + 1,
                    std::end(kTaskColumns))) {
      return "";
    }
    absl::string_view run = row.front();
    if (!absl::ConsumePrefix(&run, kTaskColumns[0])) return "";
    return planner::RunNumber(std::string(run)) > 0 ? std::string(run) : "";
  }

  std::string section_;
  size_t columns_ = 0;  // of the table that is being read; 0: none is
  size_t state_ = 0;
  std::map<std::string, int> tables_;
};

// What is on a page by itself, for what was changed on another.
struct Base {
  explicit Base(const std::string& page) {
    Reader reader;
    int number = 0;
    for (const absl::string_view text : absl::StrSplit(page, '\n')) {
      const Reader::Line line =
          reader.Read(++number, std::string(absl::StripTrailingAsciiWhitespace(text)));
      if (line.row.has_value() && line.whole) {
        rows[{line.section, line.row->front()}] = *line.row;
      } else if (!line.frame && !line.text.empty()) {
        ++lines[line.text];
      }
    }
  }
  std::map<std::string, int> lines;  // that are of no table
  std::map<Key, Row> rows;
};

class Pass {
 public:
  explicit Pass(const std::string& base) {
    if (!base.empty()) base_.emplace(base);
  }

  void Take(const Reader::Line& line) {
    if (line.frame) return;
    if (!line.row.has_value()) return TakeText(line);
    const Key key{line.section, line.row->front()};
    if (line.whole) lines_[key].push_back(line.number);
    if (base_.has_value() && line.whole) {
      const auto before = base_->rows.find(key);
      if (before != base_->rows.end() && before->second == *line.row) return;
    }
    const absl::StatusOr<std::optional<Edit>> edit = EditOf(line);
    if (!edit.ok()) return Leave(line, std::string(edit.status().message()));
    if (edit->has_value()) {
      edits_.emplace_back(key, **edit);
    } else if (base_.has_value()) {
      Leave(line, absl::StrCat("the state alone is read: ", kHowTo));
    }
  }

  Edits Finish(const Reader& reader) {
    Edits all;
    for (auto& [key, edit] : edits_) {
      if (reader.TablesOf(key.first) > 1) {
        Leave({.number = edit.line, .text = edit.text},
              "two tables have one head, and whose row it is is not clear");
        continue;
      }
      const std::vector<int>& lines = lines_[key];
      if (lines.size() == 1) {
        all.edits.push_back(std::move(edit));
        continue;
      }
      // A row that was moved here from another run's table is as good as that which was here.
      Leave({.number = edit.line, .text = edit.text},
            absl::StrCat(Quoted(key.second), " stands in lines ", lines.front(), " and ",
                         lines.back(), ": none of them is read"));
    }
    LeaveGone();
    std::stable_sort(unread_.begin(), unread_.end(),
                     [](const Unread& a, const Unread& b) { return a.line < b.line; });
    if (left_ > unread_.size()) {
      unread_.push_back(
          {0, "", absl::StrCat("and ", left_ - unread_.size(), " lines more were not read")});
    }
    all.unread = std::move(unread_);
    return all;
  }

 private:
  void Leave(const Reader::Line& line, std::string why) {
    if (++left_ > kMaxUnread) return;
    unread_.push_back({line.number, Quoted(line.text), std::move(why)});
  }

  // Of no table: what was not there is named.
  void TakeText(const Reader::Line& line) {
    if (!base_.has_value() || line.text.empty()) return;
    const auto known = base_->lines.find(line.text);
    if (known != base_->lines.end() && known->second > 0) {
      --known->second;
      return;
    }
    Leave(line, absl::StrCat("only rows of tasks and workers are read: ", kHowTo));
  }

  // None: it says what the planner might have written. The error says why it cannot be read.
  absl::StatusOr<std::optional<Edit>> EditOf(const Reader::Line& line) const {
    const Row& row = *line.row;
    const auto wrong = [](const auto&... parts) {
      return absl::InvalidArgumentError(absl::StrCat(parts...));
    };
    if (!line.whole) {
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
    if (edit.name.empty() || edit.name.size() > kMaxName) return wrong("no name is as long");
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
      if (lines_.count(key) == 0) gone.push_back(key.second);
    }
    const bool text_gone =
        std::any_of(base_->lines.begin(), base_->lines.end(), [](const auto& one) {
          return one.second > 0 && absl::EndsWith(one.first, " -->") == false;
        });
    if (text_gone) Leave({}, "lines that are of no table are gone: they are the planner's");
    if (gone.empty()) return;
    ++left_;
    unread_.push_back(
        {0, "",
         absl::StrCat("the rows of ", Quoted(absl::StrJoin(gone, ", ")),
                      " are gone, and nothing was done: `cancel` ends the work on a task")});
  }

  std::optional<Base> base_;
  std::vector<std::pair<Key, Edit>> edits_;  // by line
  std::map<Key, std::vector<int>> lines_;    // of whole rows
  std::vector<Unread> unread_;               // of the first kMaxUnread
  size_t left_ = 0;                          // lines, all of them
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
  for (absl::string_view text : absl::StrSplit(page, '\n')) {
    if (++number == 1) absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // some editors' mark of UTF-8
    const std::string line(absl::StripTrailingAsciiWhitespace(text));
    for (const char* mark : {"<<<<<<< ", ">>>>>>> "}) {
      if (absl::StartsWith(line, mark)) {
        return {{}, {{number, line, "a mark of a conflict: nothing of the page was read"}}};
      }
    }
    pass.Take(reader.Read(number, line));
  }
  return pass.Finish(reader);
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
