// The board: the state of the whole effort as one markdown page.
//
//   board::Picture picture;
//   picture.Take(changes);                        // as often as there are some
//   std::string page = board::Render(picture);
//
// The log is the truth and the page its projection: the same state gives the same page, which names
// the history and the revision that it was made from. Times and speedups are those of accepted
// incumbents. What people write there is read by edit.h.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "planner/core/state.h"

namespace warpsmith::board {

// Newest first; older runs get one line each.
inline constexpr int kRunsInFull = 5;
inline constexpr int kMaxLines = 50;         // of earlier runs
inline constexpr int kMaxRows = 1000;        // of a run's table
inline constexpr int kMaxLessonsShown = 8;   // of a task, newest
inline constexpr int kMaxLessonTasks = 200;  // of a run
inline constexpr size_t kMaxReports = 20;    // of edits

// A copy of the planner's records, of tasks of what is shown of them, kept up with it by what
// changes.
class Picture {
 public:
  void Take(const planner::Changes& changes);
  // The store whose history this is; "": not told.
  void BeOf(std::string store) { store_ = std::move(store); }

  // Runs by number, the others by id.
  const std::map<int64_t, v1::RunRecord>& runs() const { return runs_; }
  const std::map<std::string, v1::TaskRecord>& tasks() const { return tasks_; }
  const std::map<std::string, v1::WorkerRecord>& workers() const { return workers_; }
  int64_t revision() const { return revision_; }
  int64_t archived_runs() const { return archived_runs_; }  // not among runs()
  const std::string& store() const { return store_; }
  // Null: its history began with no backup.
  const v1::Restored* restored() const { return restored_.get(); }
  // Of a planner that follows another one: what people write there is read by nobody.
  void BeCopy(bool copy) { copy_ = copy; }
  bool copy() const { return copy_; }
  // What became of something that a person wrote: a line of the page, until kMaxReports later ones.
  void Report(std::string line);
  const std::deque<std::string>& reports() const { return reports_; }  // newest first
  // What workers say of their leases, by task.
  void Show(std::map<std::string, planner::Progress> progress) { progress_ = std::move(progress); }
  v1::Task View(const v1::TaskRecord& record) const;

 private:
  std::map<int64_t, v1::RunRecord> runs_;
  std::map<std::string, v1::TaskRecord> tasks_;
  std::map<std::string, v1::WorkerRecord> workers_;
  std::map<std::string, planner::Progress> progress_;
  int64_t revision_ = 0;
  int64_t archived_runs_ = 0;
  std::string store_;
  std::unique_ptr<const v1::Restored> restored_;
  bool copy_ = false;
  std::deque<std::string> reports_;
};

// Ends with a mark that says what the page was when it was made (IsUntouched, EndOf).
std::string Render(const Picture& picture);

// The columns of a run's table and of the workers'; the first one names, and kStateColumn says how
// it is. A run's table says whose it is in its head, "task of r1", since a heading above it may go.
inline constexpr const char* kTaskColumns[] = {
    "task of ", "state",    "worker", "device µs", "graph µs",   "speedup", "vs eager",
    "of light", "baseline", "trials", "time",      "specialist", "note"};
inline constexpr const char* kWorkerColumns[] = {"worker", "device", "arch", "state", "task"};
inline constexpr char kStateColumn[] = "state";

// Nobody has changed it since it was made; or a version made it that did not say.
bool IsUntouched(absl::string_view page);
// The last line, of each page another one; "": it is missing, and what was before it may be, too.
absl::string_view EndOf(absl::string_view page);
// Of a planner that followed another one.
bool IsCopy(absl::string_view page);

// Whose history a page is of, from its first lines; "": it does not say.
std::string StoreOf(const std::string& page);

// "1.23x"; "-" where there is none.
std::string Speedup(double speedup);

// Geometric mean over a run's tasks. Against the strongest baseline a task counts as 1 where it has
// no incumbent or a slower one: a user would run the baseline then. Against eager those with an
// incumbent count. 0 where nothing counts.
struct Score {
  double speedup = 0;
  double speedup_eager = 0;
  int with_incumbent = 0;
};
Score ScoreOf(const Picture& picture, const std::string& run_id);

}  // namespace warpsmith::board
