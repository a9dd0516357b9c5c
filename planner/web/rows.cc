#include "planner/web/rows.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/text.h"
#include "common/problem/cause.h"
#include "common/problem/task_name.h"
#include "planner/core/allocator.h"

namespace warpsmith::web {
namespace {

using nlohmann::json;

constexpr size_t kMaxText = 2'000;  // of a reason

// What the next slice is expected to gain: 1.2 is a fifth. 1: nothing.
double Promise(const v1::Task& task) {
  return std::exp(planner::ExpectedGain(task) * planner::NextSlice(task));
}

std::string HealthOf(const v1::WorkerRecord& record) {
  const v1::WorkerInfo& worker = record.worker();
  if (record.lost()) return "lost";
  if (!worker.healthy()) return "sick";
  return worker.draining() ? "draining" : "up";
}

}  // namespace

double Short(double value) {
  if (!std::isfinite(value)) return 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::strtod(text, nullptr);
}

std::string Text(const json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string WordOf(v1::TaskState state) { return absl::AsciiStrToLower(v1::TaskState_Name(state)); }

std::string WordOf(v1::Verdict verdict) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(v1::Verdict_Name(verdict)), {{"_", " "}});
}

const json& Columns() {
  static const auto* const columns = new json{
      {"tasks",
       {"id",      "run",      "name",    "arch",          "state",      "reason",     "worker",
        "best_us", "graph_us", "speedup", "speedup_eager", "light_us",   "base_us",    "base",
        "trials",  "judged",   "seconds", "budget",        "slices",     "specialist", "alarm",
        "promise", "bytes",    "kernel",  "held_by",       "implausible"}},
      {"runs",
       {"id", "name", "arch", "submitted", "budget", "policy", "done", "submitter", "weight",
        "priority", "needs"}},
      {"workers",
       {"id", "device", "arch", "version", "bytes", "health", "why", "held", "held_reason",
        "quarantined", "ledger", "labels"}}};
  return *columns;
}

std::string RowOf(const v1::TaskRecord& record) {
  const v1::Task& task = record.task();
  const auto text = [](const std::string& text) { return base::Shortened(text, kMaxText); };
  return Text(json::array({
      task.id(),
      task.run_id(),
      problem::NameOf(task),
      task.arch(),
      WordOf(task.state()),
      text(task.reason()),
      record.has_lease() ? record.lease().worker_id() : "",
      Short(task.best_us()),
      Short(task.graph_us()),
      Short(task.speedup()),
      Short(task.speedup_eager()),
      Short(task.light_us()),
      Short(task.baseline_us()),
      task.baseline_name(),
      task.trials(),
      task.trials_judged(),
      Short(task.seconds_spent()),
      Short(task.seconds_budget()),
      task.slices(),
      task.specialist(),
      text(task.alarm()),
      Short(Promise(task)),
      task.peak_bytes(),
      !task.incumbent_blob().empty(),
      text(task.held_by()),
      text(task.implausible()),
  }));
}

std::string RowOf(const v1::RunRecord& record) {
  const v1::Run& run = record.run();
  return Text(
      json::array({run.id(), run.name(), record.arch(), run.submitted_unix_ms(),
                   Short(run.seconds_per_task()), run.policy(), run.done(), planner::OwnerOf(run),
                   run.weight(), run.priority(), absl::StrJoin(run.needs(), ", ")}));
}

std::string RowOf(const v1::WorkerRecord& record) {
  const v1::WorkerInfo& worker = record.worker();
  return Text(json::array({worker.id(), worker.device_name(), worker.arch(), worker.version(),
                           worker.device_bytes(), HealthOf(record),
                           base::Shortened(worker.health_reason(), kMaxText), record.held(),
                           base::Shortened(record.held_reason(), kMaxText), record.quarantined(),
                           base::Shortened(problem::TextOf(record.ledger()), kMaxText),
                           absl::StrJoin(worker.labels(), ", ")}));
}

std::string RowOf(const planner::Progress& progress) {
  return Text(json::array({Short(progress.seconds), progress.specialist}));
}

}  // namespace warpsmith::web
