#include "planner/board/board.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/problem/cause.h"
#include "common/problem/task_name.h"
#include "common/rpc/text.h"

namespace warpsmith::board {
namespace {

using Tasks = std::vector<const v1::TaskRecord*>;

constexpr size_t kMaxCell = 160;
// A comment near the page's beginning says whose history it is of.
constexpr char kStoreMark[] = "<!-- store ";
constexpr size_t kMaxMarkOffset = 500;
// The last line says what the page was.
constexpr char kEndMark[] = "<!-- page ";
constexpr char kMarkEnd[] = " -->";
constexpr size_t kMarkDigits = 16;
constexpr char kCopyLine[] =
    "> A copy: the planner that wrote it follows another one, and reads nothing here.\n\n";
constexpr char kHint[] =
    "Write `hold`, `release` or `cancel` in place of a state, with a reason after a colon if you ";

const char* StateWord(v1::TaskState state) {
  switch (state) {
    case v1::QUEUED:
      return "queued";
    case v1::LEASED:
      return "leased";
    case v1::CONVERGED:
      return "converged";
    case v1::PARKED:
      return "parked";
    case v1::FAILED:
      return "failed";
    case v1::HELD:
      return "held";
    case v1::CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

// Text of others in a table cell or a line: no line breaks, no cell borders, no markup.
std::string Plain(const std::string& text) {
  std::string plain;
  for (const char c : base::Shortened(rpc::ToUtf8(text), kMaxCell)) {
    if (c == '\n' || c == '\r' || c == '\t') {
      plain += ' ';
    } else if (c == '|' || c == '*' || c == '`' || c == '<' || c == '[' || c == '\\') {
      plain += '\\';
      plain += c;
    } else {
      plain += c;
    }
  }
  return plain;
}

// Of a bounded length and read again (edit.cc): whole.
std::string Name(const std::string& name) {
  return absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"|", "\\|"}});
}

std::string OrDash(std::string text) { return text.empty() ? "-" : text; }

std::string Microseconds(double us) {
  if (us <= 0) return "-";
  return us < 100 ? absl::StrFormat("%.2f", us) : absl::StrFormat("%.1f", us);
}

std::string Percent(double part, double whole) {
  return part <= 0 || whole <= 0 ? "-" : absl::StrFormat("%.0f %%", 100 * part / whole);
}

// What of a record the board shows; the rest would be most of its memory.
v1::TaskRecord Shown(const v1::TaskRecord& record) {
  v1::TaskRecord shown;
  v1::Task& task = *shown.mutable_task();
  const v1::Task& from = record.task();
  task.set_id(from.id());
  task.set_run_id(from.run_id());
  task.set_problem_name(from.problem_name());
  task.set_workload(from.workload());
  task.set_arch(from.arch());
  task.set_state(from.state());
  task.set_reason(from.reason());
  if (!from.incumbent_blob().empty()) task.set_incumbent_blob("there");
  task.set_speedup(from.speedup());
  task.set_speedup_eager(from.speedup_eager());
  task.set_best_us(from.best_us());
  task.set_graph_us(from.graph_us());
  task.set_light_us(from.light_us());
  task.set_baseline_name(from.baseline_name());
  task.set_trials(from.trials());
  task.set_seconds_spent(from.seconds_spent());
  task.set_worker_id(from.worker_id());
  task.set_specialist(from.specialist());
  task.set_alarm(from.alarm());
  if (record.has_lease()) shown.mutable_lease()->set_worker_id(record.lease().worker_id());
  *shown.mutable_lessons() = record.lessons();
  *shown.mutable_counts() = record.counts();
  return shown;
}

// A task's id begins with its run's.
Tasks TasksOf(const Picture& picture, const std::string& run_id) {
  const std::string prefix = run_id + "/";
  Tasks tasks;
  for (auto task = picture.tasks().lower_bound(prefix);
       task != picture.tasks().end() && task->first.compare(0, prefix.size(), prefix) == 0;
       ++task) {
    tasks.push_back(&task->second);
  }
  return tasks;
}

std::string EndMarkOf(absl::string_view page) {
  return absl::StrCat(kEndMark, base::Sha256Hex({page.data(), page.size()}).substr(0, kMarkDigits),
                      kMarkEnd, "\n");
}

absl::string_view LastLineOf(absl::string_view page) {
  page = absl::StripTrailingAsciiWhitespace(page);
  return page.substr(page.rfind('\n') + 1);
}

// Versions that read no edits ended their pages with the revision.
bool IsOfBefore(absl::string_view page) {
  return absl::StartsWith(LastLineOf(page), "Speedups are against");
}

std::string Edits(const Picture& picture) {
  if (picture.reports().empty()) return "";
  std::string text = "## Edits\n\n";
  for (const std::string& report : picture.reports()) absl::StrAppend(&text, "- ", report, "\n");
  return text + "\n";
}

std::string At(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMillis(unix_ms),
                          absl::UTCTimeZone());
}

std::string Some(int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// Where the history begins, and what of the time after the backup has come back.
std::string FromBackup(const v1::Restored& restored) {
  std::string text =
      absl::StrCat("Restored on ", At(restored.at_unix_ms()), " from a backup of ",
                   At(restored.taken_at_unix_ms()), ", after event ", restored.revision(), ".");
  if (restored.workers() > 0) {
    absl::StrAppend(&text, " Of the history before, ", Some(restored.workers(), "worker"),
                    " came back");
    if (restored.ahead() > 0) {
      absl::StrAppend(&text, ", ", restored.ahead(), " answered to event ",
                      restored.last_revision(), ": at least ",
                      Some(restored.last_revision() - restored.revision(), "event"),
                      " are not in the backup");
    }
    absl::StrAppend(
        &text, ". Of its leases from before the backup: ", Some(restored.trials_taken(), "trial"),
        " and ", Some(restored.kernels_taken(), "kernel"), " taken, ",
        Some(restored.trials_missing(), "trial"),
        " missing. Of those from after it: ", Some(restored.leases_refused(), "lease"), ", ",
        Some(restored.trials_refused(), "trial"), " and ",
        Some(restored.kernels_refused(), "kernel"), " refused.");
  }
  return text + "\n\n";
}

Score ScoreOf(const Tasks& tasks) {
  Score score;
  double sum = 0;
  double sum_eager = 0;
  int with_eager = 0;
  for (const v1::TaskRecord* record : tasks) {
    const v1::Task& task = record->task();
    if (task.incumbent_blob().empty()) continue;
    ++score.with_incumbent;
    sum += std::log(std::max(1.0, task.speedup()));
    if (task.speedup_eager() <= 0) continue;
    ++with_eager;
    sum_eager += std::log(task.speedup_eager());
  }
  if (score.with_incumbent > 0) score.speedup = std::exp(sum / tasks.size());
  if (with_eager > 0) score.speedup_eager = std::exp(sum_eager / with_eager);
  return score;
}

std::string CountsByState(const Tasks& tasks) {
  std::map<v1::TaskState, int> counts;
  for (const v1::TaskRecord* task : tasks) ++counts[task->task().state()];
  std::vector<std::string> parts;
  for (const v1::TaskState state :
       {v1::LEASED, v1::QUEUED, v1::CONVERGED, v1::PARKED, v1::FAILED, v1::HELD, v1::CANCELLED}) {
    if (counts[state] > 0) parts.push_back(absl::StrCat(counts[state], " ", StateWord(state)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string Headline(const Picture& picture, const v1::Run& run, const Tasks& tasks) {
  const Score score = ScoreOf(tasks);
  double seconds = 0;
  int64_t trials = 0;
  int alarms = 0;  // the run's own record is not told of each
  for (const v1::TaskRecord* task : tasks) {
    seconds +=
        task->has_lease() ? picture.View(*task).seconds_spent() : task->task().seconds_spent();
    trials += task->task().trials();
    alarms += !task->task().alarm().empty();
  }
  std::string text = absl::StrCat("## Run ", run.id(), ": ", Plain(run.name()),
                                  run.done() ? " (done)" : "", "\n\n");
  if (score.with_incumbent > 0) {
    absl::StrAppend(&text, "**", Speedup(score.speedup), "** against the strongest baseline, ",
                    Speedup(score.speedup_eager), " against eager (geometric means; ",
                    score.with_incumbent, " of ", tasks.size(), " tasks have a kernel).\n");
  } else {
    absl::StrAppend(&text, "No kernel has passed the judge yet.\n");
  }
  absl::StrAppend(
      &text, tasks.size(), tasks.size() == 1 ? " task: " : " tasks: ", CountsByState(tasks), ". ",
      trials, " trials in ", absl::StrFormat("%.0f", seconds), " device seconds, budget ",
      absl::StrFormat("%.0f", run.seconds_per_task()), " s a task, policy ", Plain(run.policy()),
      run.priority() == 0 ? "" : absl::StrCat(", priority ", run.priority()), ".\n");
  if (alarms > 0) {
    absl::StrAppend(
        &text, "**", alarms, alarms == 1 ? " alarm**" : " alarms**",
        ": a search has ended, and what it found is poor or to be reviewed; the note says why.\n");
  }
  text += "\n";
  return text;
}

std::string Row(const v1::Task& task) {
  const std::vector<std::string> cells = {
      Name(problem::NameOf(task)),
      StateWord(task.state()),
      OrDash(Plain(task.worker_id())),
      Microseconds(task.best_us()),
      Microseconds(task.graph_us()),
      Speedup(task.speedup()),
      Speedup(task.speedup_eager()),
      Percent(task.light_us(), task.best_us()),
      OrDash(Plain(task.baseline_name())),
      absl::StrCat(task.trials()),
      absl::StrFormat("%.0f s", task.seconds_spent()),
      OrDash(Plain(task.specialist())),
      absl::StrCat(task.alarm().empty() ? "" : "**alarm** (" + Plain(task.alarm()) + "): ",
                   Plain(task.reason())),
  };
  return absl::StrCat("| ", absl::StrJoin(cells, " | "), " |\n");
}

std::string Table(const Picture& picture, const std::string& run_id, const Tasks& tasks) {
  std::vector<std::string> head(std::begin(kTaskColumns), std::end(kTaskColumns));
  head.front() += run_id;
  std::string text = absl::StrCat("| ", absl::StrJoin(head, " | "),
                                  " |\n|---|---|---|--:|--:|--:|--:|--:|---|--:|--:|---|---|\n");
  int rows = 0;
  for (const v1::TaskRecord* task : tasks) {
    if (++rows > kMaxRows) break;
    text += Row(picture.View(*task));
  }
  if (static_cast<int>(tasks.size()) > kMaxRows) {
    absl::StrAppend(&text, "\nand ", tasks.size() - kMaxRows, " more.\n");
  }
  return text + "\n";
}

std::string TaskLessons(const v1::TaskRecord& record) {
  std::string text = absl::StrCat("**", Plain(problem::NameOf(record.task())), "** (",
                                  record.task().arch(), ")\n\n");
  const int first = std::max(0, record.lessons_size() - kMaxLessonsShown);
  if (first > 0) absl::StrAppend(&text, "- ", first, " earlier gains\n");
  for (int i = first; i < record.lessons_size(); ++i) {
    const v1::Lesson& lesson = record.lessons(i);
    absl::StrAppend(&text, "- ", Speedup(lesson.speedup_before()), " to ",
                    Speedup(lesson.speedup_after()), ": ", OrDash(Plain(lesson.specialist())), ", ",
                    OrDash(Plain(lesson.action())), "\n");
  }
  std::vector<std::string> tried;
  for (const v1::SpecialistCount& count : record.counts()) {
    tried.push_back(absl::StrFormat("%s %d (%d paid)", OrDash(Plain(count.specialist())),
                                    count.trials(), count.accepted()));
  }
  if (!tried.empty()) absl::StrAppend(&text, "- tried: ", absl::StrJoin(tried, ", "), "\n");
  return text + "\n";
}

std::string Lessons(const Tasks& tasks) {
  std::string text;
  int shown = 0;
  for (const v1::TaskRecord* task : tasks) {
    if (task->lessons_size() == 0 && task->counts_size() == 0) continue;
    if (++shown > kMaxLessonTasks) break;
    text += TaskLessons(*task);
  }
  return text.empty() ? "" : absl::StrCat("### What was tried, and what paid\n\n", text);
}

std::string Workers(const Picture& picture) {
  if (picture.workers().empty()) {
    return "## Workers\n\nNone yet: `warpsmith up` starts some, `warpsmith-worker` one.\n\n";
  }
  std::map<std::string, std::string> working;
  for (const auto& [id, task] : picture.tasks()) {
    if (task.has_lease()) working[task.lease().worker_id()] = problem::NameOf(task.task());
  }
  std::string text = absl::StrCat("## Workers\n\n| ", absl::StrJoin(kWorkerColumns, " | "),
                                  " |\n|---|---|---|---|---|\n");
  int quarantined = 0, held = 0;
  for (const auto& [id, record] : picture.workers()) {
    const v1::WorkerInfo& worker = record.worker();
    std::string health = record.lost()       ? "lost"
                         : !worker.healthy() ? "sick"
                         : worker.draining() ? "draining"
                                             : "up";
    if (!worker.health_reason().empty()) {
      absl::StrAppend(&health, ": ", Plain(worker.health_reason()));
    }
    if (!worker.shared().empty()) {
      absl::StrAppend(&health, ", its card is shared: ", Plain(worker.shared()));
    }
    if (record.held()) {
      ++held;
      absl::StrAppend(&health, ", held", record.held_reason().empty() ? "" : ": ",
                      Plain(record.held_reason()));
    }
    if (record.quarantined()) {
      ++quarantined;
      absl::StrAppend(&health, ", **quarantined**: ", Plain(problem::WhyQuarantined(record)));
    }
    const auto task = working.find(worker.id());
    absl::StrAppend(&text, "| ", Name(worker.id()), " | ", OrDash(Plain(worker.device_name())),
                    " | ", Plain(worker.arch()), " | ", health, " | ",
                    task == working.end() ? "-" : Plain(task->second), " |\n");
  }
  if (held > 0) {
    absl::StrAppend(&text, "\n", held, " held by a person: `warpsmith release WORKER` gives ",
                    held == 1 ? "it" : "them", " work again.\n");
  }
  if (quarantined > 0) {
    absl::StrAppend(&text, "\n**", quarantined, " quarantined**: nothing is given to ",
                    quarantined == 1 ? "it" : "them", " until `warpsmith release WORKER`.\n");
  }
  return text + "\n";
}

}  // namespace

std::string Speedup(double speedup) {
  return speedup <= 0 ? "-" : absl::StrFormat("%.2fx", speedup);
}

void Picture::Take(const planner::Changes& changes) {
  revision_ = changes.records.revision();
  for (const v1::RunRecord& run : changes.records.runs()) {
    v1::RunRecord shown = run;
    shown.mutable_run()->clear_task_ids();  // they are in tasks_
    runs_[planner::RunNumber(run.run().id())] = shown;
  }
  for (const v1::TaskRecord& task : changes.records.tasks()) {
    tasks_[task.task().id()] = Shown(task);
  }
  for (const v1::WorkerRecord& worker : changes.records.workers()) {
    workers_[worker.worker().id()] = worker;
  }
  for (const std::string& id : changes.forgotten) workers_.erase(id);
  archived_runs_ = changes.records.archived_runs();
  if (changes.records.has_restored()) {
    restored_ = std::make_unique<const v1::Restored>(changes.records.restored());
  }
  for (const v1::RunRecord& run : changes.archived.runs()) {
    runs_.erase(planner::RunNumber(run.run().id()));
  }
  for (const v1::TaskRecord& task : changes.archived.tasks()) tasks_.erase(task.task().id());
}

v1::Task Picture::View(const v1::TaskRecord& record) const {
  const auto found = progress_.find(record.task().id());
  return planner::WithProgress(record, found == progress_.end() ? nullptr : &found->second);
}

Score ScoreOf(const Picture& picture, const std::string& run_id) {
  return ScoreOf(TasksOf(picture, run_id));
}

void Picture::Report(std::string line) {
  reports_.push_front(std::move(line));
  if (reports_.size() > kMaxReports) reports_.pop_back();
}

bool IsCopy(absl::string_view page) {
  // An editor may have put a mark of its own before it, and changed how lines end.
  return absl::StrContains(page.substr(0, kMaxMarkOffset),
                           absl::StripTrailingAsciiWhitespace(kCopyLine));
}

absl::string_view EndOf(absl::string_view page) {
  page = LastLineOf(page);
  return absl::StartsWith(page, kEndMark) && absl::EndsWith(page, kMarkEnd) ? page : "";
}

bool IsUntouched(absl::string_view page) {
  const size_t mark = page.rfind(kEndMark);
  if (mark == absl::string_view::npos) {
    return !absl::StrContains(page, kHint) && !IsCopy(page) && IsOfBefore(page);
  }
  return page.substr(mark) == EndMarkOf(page.substr(0, mark));
}

std::string StoreOf(const std::string& page) {
  const size_t at = page.find(kStoreMark);
  if (at == std::string::npos || at > kMaxMarkOffset) return "";
  const size_t begin = at + sizeof(kStoreMark) - 1;
  return page.substr(begin, page.find(' ', begin) - begin);
}

std::string Render(const Picture& picture) {
  std::string page = picture.copy() ? kCopyLine : "";
  page += "# Warpsmith board\n\n";
  if (!picture.store().empty()) absl::StrAppend(&page, kStoreMark, picture.store(), " -->\n\n");
  if (!picture.copy()) absl::StrAppend(&page, kHint, "like, and save: it is done.\n\n");
  page += Edits(picture);
  if (picture.restored() != nullptr) page += FromBackup(*picture.restored());
  if (picture.runs().empty() && picture.archived_runs() == 0) {
    page += "Nothing has been submitted yet: `warpsmith submit FILE` hands in a problem set.\n\n";
  }
  int place = 0;  // from the newest
  for (auto entry = picture.runs().rbegin(); entry != picture.runs().rend(); ++entry, ++place) {
    const v1::Run& run = entry->second.run();
    if (place == kRunsInFull) page += "## Earlier runs\n\n";
    if (place == kRunsInFull + kMaxLines) {
      absl::StrAppend(&page, "- and ", picture.runs().size() - place, " before\n");
      break;
    }
    const Tasks tasks = TasksOf(picture, run.id());
    if (place < kRunsInFull) {
      absl::StrAppend(&page, Headline(picture, run, tasks), Table(picture, run.id(), tasks),
                      Lessons(tasks));
    } else {
      absl::StrAppend(&page, "- ", run.id(), ", ", Plain(run.name()), ": ",
                      Speedup(ScoreOf(tasks).speedup), ", ", CountsByState(tasks), "\n");
    }
  }
  if (picture.archived_runs() > 0) {
    if (place <= kRunsInFull) page += "## Earlier runs\n\n";
    absl::StrAppend(&page, "- ", picture.archived_runs(),
                    " in the archive: `warpsmith runs --archived` lists them\n");
  }
  if (place > kRunsInFull || picture.archived_runs() > 0) page += "\n";
  absl::StrAppend(&page, Workers(picture));
  absl::StrAppend(&page,
                  "---\n\nSpeedups are against the fastest baseline of the same accuracy; a task "
                  "without a faster kernel counts as 1.00x in the mean. Light: the least time the "
                  "card's bandwidth and arithmetic allow. Revision ",
                  picture.revision(), ".\n");
  return page + EndMarkOf(page);
}

}  // namespace warpsmith::board
