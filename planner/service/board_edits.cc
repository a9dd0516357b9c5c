#include "planner/service/board_edits.h"

#include "absl/strings/str_cat.h"
#include "common/problem/task_name.h"

namespace warpsmith::planner {
namespace {

std::string TimeOf(absl::Time at) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", at, absl::UTCTimeZone());
}

// A task's id begins with its run's.
absl::StatusOr<std::string> TaskOf(const board::Edit& edit, const board::Picture& picture) {
  const std::string prefix = absl::StrCat(edit.run_id, "/", edit.name, "@");
  const auto task = picture.tasks().lower_bound(prefix);
  if (task != picture.tasks().end() && task->first.compare(0, prefix.size(), prefix) == 0) {
    return task->first;
  }
  return absl::NotFoundError(absl::StrCat("there is no task ", edit.name, " in run ", edit.run_id,
                                          " outside the archive"));
}

}  // namespace

absl::StatusOr<Command> CommandOf(const board::Edit& edit, const board::Picture& picture) {
  if (edit.run_id.empty()) {
    if (edit.verb == board::Verb::kHold) return HoldWorker{edit.name, edit.reason};
    return ReleaseWorker{edit.name, edit.reason};
  }
  absl::StatusOr<std::string> id = TaskOf(edit, picture);
  if (!id.ok()) return id.status();
  return SetTask{*std::move(id), board::StateOf(edit.verb), edit.reason, ""};
}

absl::Status OutcomeOf(const board::Edit& edit, const absl::StatusOr<Reply>& answer) {
  if (!answer.ok()) return answer.status();
  const v1::Task* const task = std::get_if<v1::Task>(&*answer);
  if (task == nullptr || task->state() == board::StateOf(edit.verb)) return absl::OkStatus();
  return absl::FailedPreconditionError(edit.verb == board::Verb::kCancel
                                           ? "it had come to its end before"
                                           : "it is worked on, and not held");
}

std::string ReportOf(const board::Edit& edit, const absl::Status& outcome, absl::Time at) {
  const std::string what = absl::StrCat(TimeOf(at), ", line ", edit.line, ": ", Describe(edit));
  if (outcome.ok()) return absl::StrCat(what, ": done");
  return absl::StrCat("**", what, ": not done**: ", board::Quoted(std::string(outcome.message())));
}

std::string ReportOf(const board::Unread& unread, absl::Time at) {
  std::string report = absl::StrCat("**", TimeOf(at), ", ");
  if (unread.line > 0) absl::StrAppend(&report, "line ", unread.line, ": ");
  absl::StrAppend(&report, "not read**: ", unread.why);
  if (!unread.text.empty()) absl::StrAppend(&report, ": `", unread.text, "`");
  return report;
}

}  // namespace warpsmith::planner
