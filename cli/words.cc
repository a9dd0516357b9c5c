#include "cli/words.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/table.h"
#include "common/problem/cause.h"
#include "common/problem/task_name.h"
#include "common/problem/task_state.h"

namespace warpsmith::cli {
namespace {

std::string Lower(const std::string& name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
}

// Over eager only what has a kernel counts; the fallback is the strongest baseline, not eager.
double GeomeanOverEager(const v1::ListReply& list) {
  double sum = 0;
  int counted = 0;
  for (const v1::Task& task : list.tasks()) {
    if (task.speedup_eager() <= 0) continue;
    sum += std::log(task.speedup_eager());
    ++counted;
  }
  return counted == 0 ? 0 : std::exp(sum / counted);
}

// "28 problems"; "28 problems of 59 workloads" where a task is one of several.
std::string ProblemsOf(const v1::ListReply& list) {
  std::set<std::pair<std::string, std::string>> problems;
  for (const v1::Task& task : list.tasks()) problems.insert({task.run_id(), task.problem_name()});
  const std::string counted = Counted(static_cast<int64_t>(problems.size()), "problem");
  if (list.tasks_size() == static_cast<int>(problems.size())) return counted;
  return absl::StrCat(counted, " of ", Counted(list.tasks_size(), "workload"));
}

}  // namespace

std::string Word(v1::TaskState state) { return Lower(v1::TaskState_Name(state)); }
std::string Word(v1::Verdict verdict) { return Lower(v1::Verdict_Name(verdict)); }

std::string Note(const v1::Task& task) {
  if (task.alarm().empty()) return task.reason();
  return absl::StrCat("ALARM (", task.alarm(), "): ", task.reason());
}

std::string StateOf(const v1::WorkerInfo& worker) {
  const std::string doing = worker.lost()              ? "lost: " + worker.health_reason()
                            : worker.draining()        ? "draining"
                            : !worker.healthy()        ? "unhealthy: " + worker.health_reason()
                            : worker.task_id().empty() ? "idle"
                                                       : "working";
  std::string text = doing;
  if (worker.healthy() && !worker.health_reason().empty()) {
    absl::StrAppend(&text, ", ", worker.health_reason());
  }
  if (!worker.shared().empty()) absl::StrAppend(&text, ", its card is shared: ", worker.shared());
  if (worker.held()) {
    absl::StrAppend(&text, ", held", worker.held_reason().empty() ? "" : ": ",
                    worker.held_reason());
  }
  if (worker.quarantined()) {
    absl::StrAppend(&text, ", quarantined: ", problem::WhyQuarantined(worker));
  }
  return text;
}

double Progress(const v1::Task& task) {
  if (problem::IsOver(task.state())) return 1;
  if (task.seconds_budget() <= 0) return 0;
  return std::clamp(task.seconds_spent() / task.seconds_budget(), 0.0, 1.0);
}

double GeomeanSpeedup(const v1::ListReply& list) {
  double sum = 0;
  for (const v1::Task& task : list.tasks()) sum += std::log(std::max(1.0, task.speedup()));
  return list.tasks().empty() ? 0 : std::exp(sum / list.tasks_size());
}

std::string ResultsTable(const v1::ListReply& list) {
  Table table({{"problem"},
               {"speedup", kRight},
               {"over eager", kRight},
               {"graph", kRight},
               {"strongest baseline"},
               {"device", kRight},
               {"of light", kRight},
               {"judged", kRight},
               {"state"}});
  for (const v1::Task& task : list.tasks()) {
    const std::string baseline =
        task.baseline_us() > 0
            ? absl::StrCat(Microseconds(task.baseline_us()), " ", task.baseline_name())
            : "-";
    std::string state = Word(task.state());
    if (!Note(task).empty()) absl::StrAppend(&state, ": ", Note(task));
    table.Add({problem::NameOf(task), Speedup(task.speedup()), Speedup(task.speedup_eager()),
               Microseconds(task.graph_us()), baseline, Microseconds(task.best_us()),
               Percent(task.best_us() > 0 ? task.light_us() / task.best_us() : 0),
               std::to_string(task.trials_judged()), state});
  }
  std::string text = table.Text();
  absl::StrAppend(&text, "\n", ProblemsOf(list), ", geometric mean ", Speedup(GeomeanSpeedup(list)),
                  " over the strongest baseline (1 where nothing is better), ",
                  Speedup(GeomeanOverEager(list)), " over eager\n");
  const auto alarms = std::count_if(list.tasks().begin(), list.tasks().end(),
                                    [](const v1::Task& task) { return !task.alarm().empty(); });
  if (alarms > 0) {
    absl::StrAppend(&text, Counted(alarms, "alarm"),
                    ": a search has ended, and what it found is poor\n");
  }
  return text;
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

}  // namespace warpsmith::cli
