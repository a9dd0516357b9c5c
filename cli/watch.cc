#include "cli/watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/table.h"
#include "cli/words.h"
#include "common/base/clock.h"
#include "common/problem/task_name.h"
#include "common/problem/task_state.h"
#include "common/problem/worker_state.h"
#include "planner/core/needs.h"

namespace warpsmith::cli {
namespace {

constexpr int kNameWidth = 28;
constexpr int kLeastProblemWidth = 8;  // of it, where a name is too long
constexpr int kMinBarWidth = 6, kMaxBarWidth = 20;
// Of a line, beside its bar: what is done included.
constexpr int kLineWidth = 67;

std::string Bar(double share, int width) {
  const int full = static_cast<int>(std::lround(share * width));
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < full ? "█" : "·";
  return bar;
}

const char* ColourOf(v1::TaskState state) {
  switch (state) {
    case v1::CONVERGED:
      return "\x1b[32m";
    case v1::LEASED:
      return "\x1b[36m";
    case v1::PARKED:
    case v1::FAILED:
      return "\x1b[31m";
    default:
      return "\x1b[2m";
  }
}

int CountOver(const v1::ListReply& list) {
  return static_cast<int>(
      std::count_if(list.tasks().begin(), list.tasks().end(),
                    [](const v1::Task& task) { return problem::IsOver(task.state()); }));
}

// "2 workers"; "2 workers, 1 quarantined".
std::string WorkersOf(const v1::ListReply& list) {
  int64_t there = 0, quarantined = 0, held = 0;
  for (const v1::WorkerInfo& worker : list.workers()) {
    there += !worker.lost();
    quarantined += worker.quarantined();
    held += worker.held();
  }
  std::string text = Counted(there, "worker");
  if (quarantined > 0) absl::StrAppend(&text, ", ", quarantined, " quarantined");
  if (held > 0) absl::StrAppend(&text, ", ", held, " held");
  return text;
}

// One unit of what a task is doing, for people.
std::string Doing(const v1::Task& task) {
  if (task.state() == v1::LEASED && !task.specialist().empty()) return task.specialist();
  return task.alarm().empty() ? Word(task.state()) : Word(task.state()) + ", ALARM";
}

// As Fit; where a name is cut, its workload stays readable if it can.
std::string FitName(const v1::Task& task, int width) {
  const std::string name = problem::NameOf(task);
  const std::string workload = name.substr(task.problem_name().size());
  const int room = width - Width(workload);
  if (Width(name) <= width || room < kLeastProblemWidth) return Fit(name, width);
  return Cut(task.problem_name(), room) + workload;
}

struct Size {
  int columns = 80, lines = 24;
};
Size TerminalSize() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

// Draws over the last picture.
class Screen {
 public:
  // A line that stays, above what is drawn next.
  void Say(const std::string& line) {
    Draw("");
    std::cerr << line << std::endl;
  }
  void Draw(const std::string& picture) {
    std::string out;
    if (lines_ > 0) out = absl::StrCat("\x1b[", lines_, "A\x1b[J");
    lines_ = static_cast<int>(std::count(picture.begin(), picture.end(), '\n'));
    std::cerr << out << picture << std::flush;
  }

 private:
  int lines_ = 0;
};

}  // namespace

std::string ProgressPicture(const v1::ListReply& list, double elapsed_seconds, int columns,
                            int lines, bool colour) {
  std::string head;
  for (const v1::Run& run : list.runs()) {
    head = absl::StrCat("run ", run.id(), " ", run.name(), "  ");
  }
  absl::StrAppend(&head, CountOver(list), "/", list.tasks_size(), " done  ",
                  Speedup(GeomeanSpeedup(list)), "  ", WorkersOf(list), "  ",
                  Clock(elapsed_seconds));
  const int width = std::max(1, columns - 1);  // the last column may wrap
  const int bar_width = std::clamp(width - kLineWidth, kMinBarWidth, kMaxBarWidth);
  std::string picture = Cut(head, width) + "\n";

  // Where not all fit, what is being worked on matters most, then what waits.
  std::vector<const v1::Task*> tasks;
  for (const v1::Task& task : list.tasks()) tasks.push_back(&task);
  const int room = std::max(1, lines - 3);
  int left_out = 0;
  if (tasks.size() > room) {
    auto rank = [](const v1::Task* task) {
      return task->state() == v1::LEASED ? 0 : problem::IsOver(task->state()) ? 2 : 1;
    };
    std::stable_sort(tasks.begin(), tasks.end(),
                     [&](const v1::Task* a, const v1::Task* b) { return rank(a) < rank(b); });
    left_out = static_cast<int>(tasks.size()) - room + 1;
    tasks.resize(room - 1);
  }
  for (const v1::Task* task : tasks) {
    const std::string line =
        absl::StrFormat("%s %s %7s %10s %5d  %s", FitName(*task, kNameWidth),
                        Bar(Progress(*task), bar_width), Speedup(task->speedup()),
                        Microseconds(task->best_us()), task->trials_judged(), Doing(*task));
    std::string cut = Cut(line, width);
    if (colour) cut = absl::StrCat(ColourOf(task->state()), cut, "\x1b[0m");
    absl::StrAppend(&picture, cut, "\n");
  }
  if (left_out > 0) absl::StrAppend(&picture, "... and ", left_out, " more\n");
  return picture;
}

std::string ProgressLines(const v1::ListReply& before, const v1::ListReply& now,
                          double elapsed_seconds) {
  std::map<std::string, const v1::Task*> old;
  for (const v1::Task& task : before.tasks()) old[task.id()] = &task;
  std::string lines;
  for (const v1::Task& task : now.tasks()) {
    auto was = old.find(task.id());
    const bool better = was != old.end() && task.best_us() != was->second->best_us();
    const bool moved =
        was != old.end() && task.state() != was->second->state() && task.state() != v1::QUEUED;
    if (!better && !moved) continue;
    absl::StrAppend(
        &lines,
        absl::StrFormat("%7s  %s  %s  %s", Clock(elapsed_seconds), FitName(task, kNameWidth),
                        absl::StrFormat("%7s", Speedup(task.speedup())), Doing(task)));
    if (problem::IsOver(task.state())) {
      if (!Note(task).empty()) absl::StrAppend(&lines, ": ", Note(task));
      absl::StrAppend(&lines, "  (", CountOver(now), "/", now.tasks_size(), " done)");
    }
    lines += "\n";
  }
  return lines;
}

namespace {

planner::Needs NeedsOf(const v1::ListReply& list, const v1::Task& task) {
  for (const v1::Run& run : list.runs()) {
    if (run.id() == task.run_id()) return planner::NeedsOf(run, task);
  }
  return {};
}

// "for 'sm_90a' with rack=3 and 100 GiB "; empty: any will do.
std::string Wanted(const v1::Task& task, const planner::Needs& needs) {
  std::vector<std::string> with = needs.labels;
  if (needs.bytes > 0) with.push_back(Bytes(static_cast<double>(needs.bytes)));
  return absl::StrCat(task.arch().empty() ? "" : "for '" + task.arch() + "' ",
                      with.empty() ? "" : "with " + absl::StrJoin(with, " and ") + " ");
}

}  // namespace

std::string WaitsForWorker(const v1::ListReply& list) {
  for (const v1::Task& task : list.tasks()) {
    if (task.state() != v1::QUEUED) continue;
    const planner::Needs needs = NeedsOf(list, task);
    bool served = false;
    std::string set_aside;
    for (const v1::WorkerInfo& worker : list.workers()) {
      if (!task.arch().empty() && worker.arch() != task.arch()) continue;
      if (!planner::Meets(worker, needs)) continue;
      served = served || !problem::IsSetAside(worker);
      if (problem::IsSetAside(worker)) set_aside = worker.id();
    }
    if (served) continue;
    if (!set_aside.empty()) {
      return absl::StrCat("every worker ", Wanted(task, needs),
                          "is quarantined or held: the run waits until one is released; `warpsmith "
                          "workers` says why, `warpsmith release ",
                          set_aside, "` releases that one");
    }
    return absl::StrCat("no worker ", Wanted(task, needs),
                        "is connected: the run waits for one; `warpsmith up` or "
                        "`warpsmith-worker` starts it");
  }
  return "";
}

absl::StatusOr<int> WatchRun(const Context& context, Client& client, const std::string& run_id) {
  const base::Instant started = base::Now();
  base::Instant last_answer = started;
  Screen screen;
  v1::ListReply before;
  std::string waits;
  std::string followed = run_id;
  while (true) {
    absl::StatusOr<v1::ListReply> list = client.Run(followed);
    const base::Instant now = base::Now();
    if (!list.ok()) {
      // A planner that is being started again is waited for, wherever it listens then.
      const bool away = ExitCodeOf(list.status()) == kNoPlanner && before.runs_size() > 0;
      if (!away || now - last_answer > kWatchPatience) return list.status();
      absl::SleepFor(kWatchInterval);
      if (absl::StatusOr<Client> again = Client::Of(context); again.ok()) client = *again;
      continue;
    }
    if (before.runs_size() == 0) {
      // The last run stays the one that was the last, also if another is submitted.
      followed = list->runs(0).id();
    }
    if (const std::string now_waits = WaitsForWorker(*list); now_waits != waits) {
      waits = now_waits;
      if (!waits.empty()) screen.Say("warpsmith: " + waits);
    }
    last_answer = now;
    const double elapsed = absl::ToDoubleSeconds(now - started);
    if (context.stderr_terminal) {
      const Size size = TerminalSize();
      screen.Draw(ProgressPicture(*list, elapsed, size.columns, size.lines, context.colour));
    } else {
      std::cerr << ProgressLines(before, *list, elapsed) << std::flush;
    }
    if (list->runs(0).done()) {
      std::cout << (context.json ? Json(*list) : ResultsTable(*list)) << std::flush;
      bool whole = true;
      for (const v1::Task& task : list->tasks()) {
        whole = whole && (task.state() == v1::CONVERGED || task.state() == v1::HELD);
      }
      return whole ? kDone : kPartly;
    }
    before = *std::move(list);
    absl::SleepFor(kWatchInterval);
  }
}

}  // namespace warpsmith::cli
