#include "planner/board/edit.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "planner/board/board.h"

namespace warpsmith::board {
namespace {

using Catch::Contains;

// Two runs of the same two problems, and two workers, of which one is held.
Picture TwoRuns() {
  v1::PlannerState state;
  state.set_revision(7);
  for (const char* run_id : {"r1", "r2"}) {
    v1::Run& run = *state.add_runs()->mutable_run();
    run.set_id(run_id);
    run.set_name("starter");
    run.set_policy("rules");
    for (const char* name : {"gelu", "softmax"}) {
      v1::Task& task = *state.add_tasks()->mutable_task();
      task.set_id(absl::StrCat(run_id, "/", name, "@host"));
      task.set_run_id(run_id);
      task.set_problem_name(name);
      task.set_arch("host");
      task.set_state(v1::QUEUED);
    }
  }
  for (const char* id : {"w0", "w1"}) {
    v1::WorkerRecord& record = *state.add_workers();
    record.mutable_worker()->set_id(id);
    record.mutable_worker()->set_healthy(true);
    record.mutable_worker()->set_arch("host");
    record.mutable_worker()->set_device_name("cpu");
  }
  state.mutable_workers(1)->set_held(true);
  state.mutable_workers(1)->set_held_reason("a new fan");
  Picture picture;
  picture.Take({state, {}});
  return picture;
}
const std::string& Page() {
  static const std::string page = Render(TwoRuns());
  return page;
}

// The first `from` after `after` is `to`.
std::string With(std::string page, const std::string& after, const std::string& from,
                 const std::string& to) {
  const size_t begin = page.find(after);
  REQUIRE(begin != std::string::npos);
  const size_t at = page.find(from, begin);
  REQUIRE(at != std::string::npos);
  return page.replace(at, from.size(), to);
}

std::string Of(const Edits& edits) {
  std::vector<std::string> all;
  for (const Edit& edit : edits.edits) {
    all.push_back(absl::StrCat(Describe(edit), edit.reason.empty() ? "" : ": ", edit.reason));
  }
  for (const Unread& unread : edits.unread) {
    all.push_back(
        absl::StrCat(unread.line > 0 ? "a line" : "the page", " is not read: ", unread.why));
  }
  return absl::StrJoin(all, "; ");
}

// The line that begins so, and what comes between two.
std::string TheRow(const std::string& page, const std::string& begin) {
  const size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  return page.substr(at, page.find('\n', at) + 1 - at);
}
std::string Without(std::string page, const std::string& from, const std::string& to) {
  const size_t begin = page.find(from), end = page.find(to, begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  return page.erase(begin, end - begin);
}

const char* const kGelu = "| gelu | queued |";
const char* const kSoftmax = "| softmax | queued |";

}  // namespace

TEST_CASE("a page that nobody changed says nothing") {
  CHECK(IsUntouched(Page()));
  CHECK(Of(ReadEdits(Page(), Page())) == "");
  CHECK(Of(ReadEdits(Page(), "")) == "");
}

TEST_CASE("verbs in state cells") {
  struct Case {
    const char* after;
    const char* from;
    const char* to;
    const char* edit;
  };
  const Case cases[] = {
      {"## Run r1", kGelu, "| gelu | hold |", "hold r1/gelu"},
      {"## Run r2", kGelu, "| gelu | hold |", "hold r2/gelu"},
      {"## Run r2", kSoftmax, "|softmax|  Cancel : too slow: see \\| mail  |",
       "cancel r2/softmax: too slow: see | mail"},
      {"## Run r1", kSoftmax, "| softmax | release |", "release r1/softmax"},
      {"## Workers", "| up |", "| hold: a new fan |", "hold worker w0: a new fan"},
      {"## Workers", "| up, held: a new fan |", "| release |", "release worker w1"},
  };
  for (const Case& one : cases) {
    const std::string page = With(Page(), one.after, one.from, one.to);
    INFO(one.to);
    CHECK_FALSE(IsUntouched(page));
    CHECK(Of(ReadEdits(page, Page())) == one.edit);
    CHECK(Of(ReadEdits(page, "")) == one.edit);
    // An editor of another system, and one that has ends of lines of its own mind.
    const std::string windows = absl::StrReplaceAll(page, {{"\n", "\r\n"}});
    CHECK(Of(ReadEdits(windows, "")) == one.edit);
    CHECK(Of(ReadEdits(page.substr(0, page.size() - 1), Page())) == one.edit);
  }
}

TEST_CASE("an edit names its line") {
  const std::string page = With(Page(), "## Run r1", kGelu, "| gelu | hold |");
  const Edits edits = ReadEdits(page, Page());
  REQUIRE(edits.edits.size() == 1);
  const std::vector<std::string> lines = absl::StrSplit(page, '\n');
  CHECK_THAT(lines.at(static_cast<size_t>(edits.edits[0].line) - 1), Contains("| gelu | hold |"));
  CHECK(lines.at(static_cast<size_t>(edits.edits[0].line) - 1) == edits.edits[0].text);
}

TEST_CASE("what cannot be read is named, and nothing of it is done") {
  struct Case {
    const char* what;
    std::string page;
    const char* why;
    bool without_base = true;  // it is seen without the page that it was made from, too
  };
  const std::string& page = Page();
  const std::string held = With(page, "## Run r1", kGelu, "| gelu | hold |");
  const std::string row =
      held.substr(held.find("| gelu | hold |"),
                  held.find('\n', held.find("| gelu | hold |")) + 1 - held.find("| gelu | hold |"));
  const Case cases[] = {
      {"no verb", With(page, "## Run r1", kGelu, "| gelu | hlod |"), "'hlod' is neither"},
      {"a state of the planner's", With(page, "## Run r1", kGelu, "| gelu | held |"),
       "the state alone is read", false},
      {"a worker that is cancelled", With(page, "## Workers", "| up |", "| cancel |"),
       "not cancelled"},
      {"a row of fewer cells", With(page, "## Run r1", kGelu, "| gelu | hold"), "as many cells as"},
      {"twice", With(held, "## Run r1", row, row + row), "none of them is read"},
      {"a conflict", With(held, "## Run r1", row, "<<<<<<< mine\n" + row + ">>>>>>> theirs\n"),
       "a mark of a conflict"},
      {"cut in the middle", held.substr(0, held.size() / 2), "it may be cut"},
      {"without its end", held.substr(0, held.rfind("<!-- page")), "it may be cut"},
      {"a table's head twice", With(held, "task of r1", "task of r1", "task of r2"),
       "two tables have one head"},
      {"another cell, too", With(held, "| gelu | hold |", "| - | - |", "| w7 | - |"),
       "nothing of this row was done", false},
      {"a row that was not there", With(held, "| gelu | hold |", "| gelu |", "| relu |"),
       "there was no row of relu", false},
      {"a note", With(page, "# Warpsmith board\n", "\n", "\nall mine\n"), "only rows", false},
      {"a row less", With(page, "## Run r1", TheRow(page, "| gelu |"), ""),
       "the rows of gelu are gone", false},
      // Then r1's rows would be r2's, which has the same ones.
      {"without a run's heading and its table's head",
       Without(With(held, "## Run r1", "r1: starter", "r1: X"), "## Run r1: X", "| gelu | hold |"),
       "as many cells as"},
      {"a row in another run's table",
       With(Without(held, "| gelu | hold |", "| softmax | queued |"), "## Run r2",
            TheRow(page, "| softmax |"),
            TheRow(held, "| gelu | hold |") + TheRow(page, "| softmax |")),
       "none of them is read"},
      {"lines of no table less", With(page, "", "Speedups are", ""), "of no table", false},
      {"a reason that is no text", With(page, "## Run r1", kGelu, "| gelu | hold: \xff |"),
       "it is not UTF-8"},
      {"a long reason",
       With(page, "## Run r1", kGelu, "| gelu | hold: " + std::string(3'000, 'a') + " |"),
       "a reason of 3000 bytes"},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    for (const std::string& base : {page, std::string()}) {
      if (base.empty() && !one.without_base) continue;
      const Edits edits = ReadEdits(one.page, base);
      CHECK(edits.edits.empty());
      REQUIRE_FALSE(edits.unread.empty());
      CHECK_THAT(Of(edits), Contains(one.why));
    }
  }
}

TEST_CASE("a page that was only put in order says nothing") {
  std::string page =
      absl::StrReplaceAll(Page(), {{"\n", " \r\n"}, {" | ", "   |  "}, {"|---|", "| ---- |"}});
  CHECK_FALSE(IsUntouched(page));
  CHECK(Of(ReadEdits(page, Page())) == "");
  page = absl::StrCat("\xEF\xBB\xBF", Page(), "\n\n");
  CHECK(Of(ReadEdits(page, Page())) == "");
}

TEST_CASE("things may be called as parts of the page are") {
  v1::PlannerState state;
  v1::Run& run = *state.add_runs()->mutable_run();
  run.set_id("r1");
  run.set_name("state");
  for (const char* name : {"state", "task", "worker"}) {
    v1::Task& task = *state.add_tasks()->mutable_task();
    task.set_id(absl::StrCat("r1/", name, "@host"));
    task.set_run_id("r1");
    task.set_problem_name(name);
    task.set_state(v1::HELD);
    task.set_reason("hold: | cancel | ## Run r2: <!-- page 0 -->\n| state | release |");
    task.set_specialist("state");
  }
  Picture picture;
  picture.Take({state, {}});
  const std::string page = Render(picture);
  CHECK(Of(ReadEdits(page, page)) == "");
  CHECK(Of(ReadEdits(page, "")) == "");
  const std::string edited = With(page, "", "| state | held |", "| state | release |");
  CHECK(Of(ReadEdits(edited, page)) == "release r1/state");
  CHECK(Of(ReadEdits(edited, "")) == "release r1/state");
}

TEST_CASE("a run that was deleted with its rows is named, and nothing is done") {
  std::string page = Page();
  const size_t begin = page.find("## Run r1");
  page.erase(begin, page.find("## Workers") - begin);
  const Edits edits = ReadEdits(page, Page());
  CHECK(edits.edits.empty());
  CHECK_THAT(Of(edits), Contains("the rows of gelu, softmax are gone"));
}

TEST_CASE("one wrong row does not hold up another") {
  std::string page = With(Page(), "## Run r1", kGelu, "| gelu | hlod |");
  page = With(page, "## Run r1", kSoftmax, "| softmax | hold |");
  const Edits edits = ReadEdits(page, Page());
  CHECK(edits.edits.size() == 1);
  CHECK(edits.unread.size() == 1);
}

TEST_CASE("only so many lines are named") {
  std::string page = Page();
  for (size_t i = 0; i < 3 * kMaxUnread; ++i) page = absl::StrCat("line ", i, "\n", page);
  const Edits edits = ReadEdits(page, Page());
  CHECK(edits.unread.size() == kMaxUnread + 1);
  CHECK_THAT(Of(edits), Contains("and 200 lines more"));
}

TEST_CASE("bytes changed at random are read without harm") {
  uint64_t random = 1;
  const auto next = [&](size_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(random >> 33) % below;
  };
  const std::string held = With(Page(), "## Run r1", kGelu, "| gelu | hold |");
  for (int i = 0; i < 2'000; ++i) {
    std::string page = held;
    for (size_t changes = 1 + next(8); changes > 0; --changes) {
      const size_t at = next(page.size());
      switch (next(4)) {
        case 0:
          page[at] = static_cast<char>(next(256));
          break;
        case 1:
          page.erase(at, next(40));
          break;
        case 2:
          page.insert(at, page.substr(next(page.size()), next(80)));
          break;
        default:
          page.insert(at, 1, "|\n\\:#"[next(5)]);
      }
    }
    for (const std::string& base : {Page(), std::string()}) {
      for (const Edit& edit : ReadEdits(page, base).edits) {
        INFO(page);
        if (base.empty()) continue;  // a name that was changed may be another one's
        CHECK(Describe(edit) == "hold r1/gelu");
      }
    }
  }
}

}  // namespace warpsmith::board
