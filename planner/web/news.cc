#include "planner/web/news.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/text.h"
#include "planner/core/allocator.h"
#include "planner/web/rows.h"

namespace warpsmith::web {
namespace {

constexpr size_t kMaxText = 400;

std::string Times(double speedup) { return absl::StrFormat("%.2fx", speedup); }

std::string Percent(double factor) {
  return absl::StrFormat(factor < 1.1 ? "%+.1f %%" : "%+.0f %%", 100 * (factor - 1));
}

// Why a worker was given it, of a task that is queued.
std::string PromiseOf(const v1::Task& task) {
  const double slice = planner::NextSlice(task);
  const double gain = std::exp(planner::ExpectedGain(task) * slice);
  return absl::StrCat(task.gains().empty() ? "untried, " : "", "hoped for ", Percent(gain),
                      absl::StrFormat(" in the next %.0f s", slice));
}

// What the slice that ended last gave, and what comes next.
std::string EndOf(const v1::Task& task) {
  std::string text;
  if (!task.gains().empty()) {
    const v1::SliceGain& gain = *task.gains().rbegin();
    text = absl::StrFormat("%.0f s gave %s; ", gain.seconds(),
                           gain.speedup_after() != gain.speedup_before()
                               ? Times(gain.speedup_before()) + " to " + Times(gain.speedup_after())
                               : "nothing more");
  }
  absl::StrAppend(&text, WordOf(task.state()), task.reason().empty() ? "" : ": ", task.reason());
  if (task.state() == v1::QUEUED) absl::StrAppend(&text, ", ", PromiseOf(task));
  return text;
}

std::string GainOf(const v1::TaskRecord& record) {
  if (record.lessons().empty()) return "";
  const v1::Lesson& lesson = *record.lessons().rbegin();
  return absl::StrCat(Times(lesson.speedup_before()), " to ", Times(lesson.speedup_after()), ", ",
                      lesson.specialist().empty() ? "opening" : lesson.specialist(),
                      lesson.action().empty() ? "" : ": ", lesson.action());
}

std::string HowIs(const v1::WorkerRecord& record) {
  if (record.lost()) return "lost";
  if (record.quarantined()) return "quarantined";
  if (record.held()) return "held";
  return record.worker().draining() ? "draining" : "up";
}

}  // namespace

void News::Say(const Moment& moment, const char* kind, const std::string& task,
               const std::string& worker, const std::string& text) {
  if (!begun_) return;
  items_.push_back(
      {moment.at, Text(nlohmann::json::array({absl::ToUnixMillis(moment.date), kind, task, worker,
                                              base::Shortened(text, kMaxText)}))});
  if (items_.size() > kMaxNews) items_.pop_front();
}

void News::On(const v1::Run& run, const Moment& moment) {
  const auto [known, fresh] = runs_.try_emplace(run.id());
  SeenRun& seen = known->second;
  if (fresh) {
    Say(moment, "run", run.id(), "", absl::StrCat("submitted: ", run.name()));
  } else if (run.priority() != seen.priority) {
    Say(moment, "run", run.id(), "",
        absl::StrCat("priority ", run.priority(), ", was ", seen.priority));
  }
  if (!fresh && run.done() && !seen.done) Say(moment, "run", run.id(), "", "done");
  seen = {run.done(), run.priority()};
}

void News::On(const v1::TaskRecord& record, const Moment& moment) {
  const v1::Task& task = record.task();
  const std::string worker = record.has_lease() ? record.lease().worker_id() : "";
  Seen& seen = tasks_[task.id()];
  const bool other_lease = task.fence() != seen.fence;
  const bool ended = !seen.worker.empty() && (worker.empty() || other_lease);
  const bool gained = record.incumbent_trial_id() != seen.trial && !record.lessons().empty();
  if (gained) Say(moment, "gain", task.id(), seen.worker, GainOf(record));
  if (ended) Say(moment, "left", task.id(), seen.worker, EndOf(task));
  if (!worker.empty() && other_lease) Say(moment, "given", task.id(), worker, seen.promise);
  const bool known = seen.state != v1::TASK_STATE_UNSPECIFIED;
  if (known && !ended && task.state() != seen.state && worker.empty()) {
    Say(moment, "moved", task.id(), "", EndOf(task));
  }
  seen = {task.state(), worker, task.fence(), record.incumbent_trial_id(),
          task.state() == v1::QUEUED ? PromiseOf(task) : ""};
}

void News::On(const v1::WorkerRecord& record, const Moment& moment) {
  const std::string how = HowIs(record);
  std::string& was = workers_[record.worker().id()];
  if (how == was) return;
  const std::string why = how == "held" ? record.held_reason() : "";
  Say(moment, "worker", "", record.worker().id(),
      absl::StrCat(was.empty() ? "joined" : how, why.empty() ? "" : ": ", why));
  was = how;
}

void News::Take(const planner::Changes& changes, int64_t at, absl::Time date) {
  const Moment moment{at, date};
  for (const v1::RunRecord& record : changes.records.runs()) On(record.run(), moment);
  for (const v1::TaskRecord& record : changes.records.tasks()) On(record, moment);
  for (const v1::WorkerRecord& record : changes.records.workers()) On(record, moment);
  for (const std::string& id : changes.forgotten) workers_.erase(id);
  for (const v1::RunRecord& record : changes.archived.runs()) runs_.erase(record.run().id());
  for (const v1::TaskRecord& record : changes.archived.tasks()) tasks_.erase(record.task().id());
  begun_ = true;
}

}  // namespace warpsmith::web
