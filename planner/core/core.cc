#include "planner/core/core.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/problem/budget.h"
#include "common/problem/label.h"
#include "common/problem/task_name.h"
#include "common/problem/task_state.h"
#include "common/problem/worker_state.h"
#include "planner/core/allocator.h"
#include "planner/core/limits.h"

namespace warpsmith::planner {
namespace {

// Of the run that it would make.
int TasksOf(const Submit& command) {
  size_t count = 0;
  for (const Submit::Problem& problem : command.problems) count += problem.workloads.size();
  return static_cast<int>(std::min<size_t>(count, std::numeric_limits<int>::max()));
}

// Names become parts of ids, paths and table cells.
bool IsName(const std::string& text, size_t limit) {
  return !text.empty() && text.size() <= limit && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

absl::Status BadName(const std::string& what, const std::string& value) {
  return absl::InvalidArgumentError(absl::StrCat(what, " '", value, "': use 1 to ", kMaxNameBytes,
                                                 " letters, digits, '_', '.' and '-'"));
}

absl::Status CheckWorkloads(const Submit::Problem& problem) {
  if (problem.workloads.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the problem '", problem.name, "' has no workload: nothing to do"));
  }
  std::set<std::string> names;
  for (const std::string& name : problem.workloads) {
    if (!IsName(name, kMaxNameBytes)) return BadName("the workload", name);
    if (names.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("the problem '", problem.name,
                                                   "' has two workloads '", name,
                                                   "': give each a name of its own"));
  }
  return absl::OkStatus();
}

// Of what a person does.
absl::Status CheckReason(const std::string& reason) {
  if (reason.size() <= kMaxTextBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a reason of ", reason.size(), " bytes: say it in ", kMaxTextBytes));
}

// `only_of`: who may change what is its own alone; "": somebody who may change all.
absl::Status CheckWhose(const v1::Run& run, const std::string& only_of) {
  if (only_of.empty() || run.submitter() == only_of) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "run ", run.id(), " is ",
      run.submitter().empty() ? "nobody's" : absl::StrCat("of '", run.submitter(), "'"), ", and '",
      only_of, "' may change its own runs: ask an operator"));
}

absl::Status CheckPriority(int priority) {
  if (priority >= -kMaxPriority && priority <= kMaxPriority) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a priority of ", priority, ": give ", -kMaxPriority, " to ", kMaxPriority));
}

// Of how it shares the cards.
absl::Status CheckTerms(const Submit& command) {
  if (!command.submitter.empty()) {
    if (!IsName(command.submitter, kMaxNameBytes))
      return BadName("the submitter", command.submitter);
    if (RunNumber(command.submitter) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("the submitter '", command.submitter,
                                                     "' is named like a run: take another name"));
    }
  }
  const double weight = command.weight;
  if (!(weight == 0 || (weight >= kMinWeight && weight <= kMaxWeight))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a weight of ", weight, ": give ", kMinWeight, " to ", kMaxWeight));
  }
  if (absl::Status status = CheckPriority(command.priority); !status.ok()) return status;
  return problem::CheckLabels("the problem set", {command.needs.begin(), command.needs.end()});
}

// A task for each workload. The problem's blob stays whole; a task says which workload it is only
// where there are several.
void AddTasks(const Submit::Problem& problem, const std::string& arch,
              v1::RunSubmitted& submitted) {
  v1::Run& run = *submitted.mutable_run();
  for (size_t w = 0; w < problem.workloads.size(); ++w) {
    const std::string& workload = problem.workloads[w];
    v1::Task& task = *submitted.add_tasks();
    task.set_run_id(run.id());
    task.set_problem_name(problem.name);
    task.set_problem_blob(problem.blob);
    if (problem.workloads.size() > 1) task.set_workload(workload);
    task.set_arch(arch);
    // A task that is not bound yet keeps "any" in its id; Task.arch says what it was bound to.
    task.set_id(
        absl::StrCat(run.id(), "/", problem::NameOf(task), "@", arch.empty() ? "any" : arch));
    task.set_state(v1::QUEUED);
    task.set_seconds_budget(run.seconds_per_task());
    if (w < problem.bytes.size()) task.set_needs_bytes(problem.bytes[w]);
    run.add_task_ids(task.id());
  }
}

}  // namespace

absl::Status Archived(const std::string& id) {
  return absl::FailedPreconditionError(absl::StrCat(
      id, " is in the archive, and stays as it is: submit the problem again for more work on it"));
}

absl::Status NoSuchRun(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no run '", id, "': `warpsmith runs` lists them"));
}

absl::Status NoSuchTask(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no task '", id, "': `warpsmith board` lists them"));
}

absl::Status NoSuchWorker(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no worker '", id, "': `warpsmith workers` lists them"));
}

void Core::Emit(Context& context, v1::Event event) {
  event.set_at_unix_ms(context.now.unix_ms);
  state_.Apply(event);
  context.events.push_back(std::move(event));
}

void Core::Move(Context& context, const std::string& task_id, v1::TaskState state,
                std::string reason, double budget, std::string alarm) {
  v1::Event event;
  v1::TaskMoved& moved = *event.mutable_task_moved();
  moved.set_task_id(task_id);
  moved.set_state(state);
  moved.set_reason(std::move(reason));
  moved.set_seconds_budget(budget);
  moved.set_alarm(std::move(alarm));
  Emit(context, std::move(event));
}

void Core::Forgive(Now now) {
  const int64_t deadline = now.monotonic_ms + std::max(options_.failover_ttl_ms, 2 * LeaseTtlMs());
  for (const auto& [id, record] : state_.tasks()) {
    if (!record.has_lease()) continue;
    lease_deadline_.Set(id, deadline);
    lease_overdue_[id] =
        progress_.count(id) > 0 ? OverdueAt(record, now) : deadline + kUnheardTtls * LeaseTtlMs();
  }
  for (const auto& [id, record] : state_.workers()) {
    if (!record.lost()) worker_deadline_.Set(id, deadline);
  }
}

bool Core::HasWorkFor(const v1::WorkerInfo& worker) const {
  return state_.Queued(worker.arch()).HasFor(worker) || !state_.Queued("").empty();
}

v1::Task Core::View(const v1::TaskRecord& record) const {
  const auto found = progress_.find(record.task().id());
  return WithProgress(record, found == progress_.end() ? nullptr : &found->second);
}

v1::WorkerInfo Core::View(const v1::WorkerRecord& record) const {
  v1::WorkerInfo worker = record.worker();
  worker.set_quarantined(record.quarantined());
  worker.set_fault(record.fault());
  worker.set_held(record.held());
  worker.set_held_reason(record.held_reason());
  *worker.mutable_ledger() = record.ledger();
  worker.set_lost(record.lost());
  const std::set<std::string>& leased = state_.LeasedBy(worker.id());
  if (!leased.empty()) {
    worker.set_task_id(*leased.begin());
    worker.set_lease_id(state_.FindTask(*leased.begin())->lease().id());
  }
  return worker;
}

// ---- Submit ------------------------------------------------------------------------------------

absl::Status Core::CheckSubmit(const Submit& command) const {
  if (command.problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the problem set '", command.name, "' is empty: nothing to do"));
  }
  const int count = TasksOf(command);
  if (count > kMaxTasksPerRun) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the problem set '", command.name, "' makes ", count,
        " tasks, one for each workload: submit at most ", kMaxTasksPerRun, " at once"));
  }
  if (!IsName(command.name, kMaxNameBytes)) return BadName("the problem set", command.name);
  if (!command.arch.empty() && !IsName(command.arch, kMaxNameBytes)) {
    return BadName("the architecture", command.arch);
  }
  if (!IsName(command.policy, kMaxNameBytes)) return BadName("the policy", command.policy);
  std::set<std::string> names;
  for (const Submit::Problem& problem : command.problems) {
    if (!IsName(problem.name, kMaxNameBytes)) return BadName("the problem", problem.name);
    if (!names.insert(problem.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("the problem set '", command.name,
                                                     "' has two problems '", problem.name,
                                                     "': give each a name of its own"));
    }
    if (absl::Status status = CheckWorkloads(problem); !status.ok()) return status;
  }
  if (absl::Status status = CheckTerms(command); !status.ok()) return status;
  if (command.request_id.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a request id of ", command.request_id.size(),
                                                   " bytes: use at most ", kMaxNameBytes));
  }
  const double seconds = command.seconds_per_task;
  if (!(seconds == 0 ||
        (seconds >= problem::kMinBudgetSeconds && seconds <= problem::kMaxBudgetSeconds))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a budget of ", seconds, " seconds a task: give ", problem::kMinBudgetSeconds,
                     " to ", problem::kMaxBudgetSeconds));
  }
  return absl::OkStatus();
}

absl::Status Core::CheckRoom(int count) const {
  const int64_t open =
      static_cast<int64_t>(state_.tasks().size()) - (archives_ ? state_.over_tasks() : 0);
  if (open + count > kMaxTasks && !archives_ && state_.over_tasks() > 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this planner holds ", open, " tasks and takes at most ", kMaxTasks,
                     ", and may not put the ", state_.over_tasks(),
                     " that are over into the archive: `warpsmith upgrade finish` allows it"));
  }
  if (open + count <= kMaxTasks) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "this planner holds ", open, " tasks of runs that are not over, and takes at most ",
      kMaxTasks, ": submit these ", count, " when some are, or to another planner"));
}

absl::StatusOr<std::string> Core::ArchFor(const Submit& command) const {
  if (!command.arch.empty()) return command.arch;
  std::set<std::string> present;
  for (const auto& [id, record] : state_.workers()) {
    if (!record.lost()) present.insert(record.worker().arch());
  }
  if (present.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the workers present have several architectures (",
                     absl::StrJoin(present, ", "), "): say which one with --arch"));
  }
  return present.empty() ? std::string() : *present.begin();
}

absl::StatusOr<const v1::Run*> Core::RunOf(const Submit& command) const {
  const v1::Run* run = nullptr;
  std::string made;
  if (const auto* record = state_.FindRequest(command.request_id); record != nullptr) {
    run = &record->run();
    made = state_.SetDigestOf(*run);
  } else if (const auto* archived = state_.FindArchivedRequest(command.request_id);
             archived != nullptr) {
    run = &archived->run();
    made = archived->set_digest();
  }
  if (run == nullptr) return nullptr;
  std::vector<std::string> wanted;
  for (const Submit::Problem& problem : command.problems) wanted.push_back(problem.blob);
  if (run->name() == command.name && run->submitter() == command.submitter &&
      made == SetDigest(wanted)) {
    return run;
  }
  return absl::AlreadyExistsError(absl::StrCat("the request id '", command.request_id,
                                               "' was used for run ", run->id(),
                                               ", a different one: use a new id"));
}

void Core::Archive(Context& context, int64_t keep) {
  while (archives_ && state_.over_tasks() > keep) {
    v1::Event event;
    event.mutable_run_archived()->set_run_id(absl::StrCat("r", *state_.over_runs().begin()));
    Emit(context, std::move(event));
  }
}

Outcome<v1::Run> Core::Handle(const Submit& command, Now now) {
  if (absl::Status status = CheckSubmit(command); !status.ok()) return {{}, status};
  const absl::StatusOr<const v1::Run*> before = RunOf(command);
  if (!before.ok()) return {{}, before.status()};
  if (*before != nullptr) return {{}, **before};
  if (absl::Status status = CheckRoom(TasksOf(command)); !status.ok()) return {{}, status};
  absl::StatusOr<std::string> arch = ArchFor(command);
  if (!arch.ok()) return {{}, arch.status()};

  v1::Event event;
  v1::RunSubmitted& submitted = *event.mutable_run_submitted();
  submitted.set_request_id(command.request_id);
  v1::Run& run = *submitted.mutable_run();
  run.set_id(absl::StrCat("r", state_.last_run() + 1));
  run.set_name(command.name);
  run.set_submitted_unix_ms(now.unix_ms);
  run.set_seconds_per_task(command.seconds_per_task == 0 ? problem::kDefaultBudgetSeconds
                                                         : command.seconds_per_task);
  run.set_policy(command.policy);
  run.set_submitter(command.submitter);
  run.set_weight(command.weight);
  run.set_priority(command.priority);
  const std::set<std::string> needs(command.needs.begin(), command.needs.end());
  run.mutable_needs()->Add(needs.begin(), needs.end());
  for (const Submit::Problem& problem : command.problems) AddTasks(problem, *arch, submitted);
  Context context{now, {}};
  const v1::Run reply = run;
  if (const size_t bytes = event.ByteSizeLong(); bytes > kMaxRunBytes) {
    return {{},
            absl::InvalidArgumentError(absl::StrCat(
                "the tasks of the problem set '", command.name, "' and their names take ", bytes,
                " bytes, at most ", kMaxRunBytes, " at once: submit it in parts"))};
  }
  const int64_t tasks = static_cast<int64_t>(state_.tasks().size()) + run.task_ids_size();
  if (tasks > kMaxTasks) Archive(context, state_.over_tasks() - (tasks - kMaxTasks));
  Emit(context, std::move(event));
  return {std::move(context.events), reply};
}

// ---- SetTask, CancelRun, SetPriority -----------------------------------------------------------

void Core::TakeBack(Context& context, const std::string& task_id, v1::TaskState to,
                    const std::string& reason) {
  const std::string by = to == v1::HELD ? "held by a person" : "cancelled by a person";
  const v1::TaskRecord& record = *state_.FindTask(task_id);
  if (record.has_lease()) {
    EndLease(context, record, v1::LeaseStatus(), v1::TAKEN_BACK, by);
    // It may have been the last slice of its budget.
    if (to == v1::CANCELLED && problem::IsOver(record.task().state())) return;
  }
  Move(context, task_id, to, reason.empty() ? by : reason);
}

Outcome<v1::Task> Core::Handle(const SetTask& command, Now now) {
  const v1::TaskRecord* record = state_.FindTask(command.task_id);
  if (record == nullptr && state_.IsArchived(command.task_id)) {
    return {{}, Archived(command.task_id)};
  }
  if (record == nullptr) return {{}, NoSuchTask(command.task_id)};
  if (absl::Status status = CheckReason(command.reason); !status.ok()) return {{}, status};
  const v1::Run& of = state_.FindRun(record->task().run_id())->run();
  if (absl::Status status = CheckWhose(of, command.only_of); !status.ok()) return {{}, status};
  if (command.state != v1::HELD && command.state != v1::CANCELLED && command.state != v1::QUEUED) {
    return {{}, absl::InvalidArgumentError("a task can be set to HELD, CANCELLED or QUEUED only")};
  }
  const v1::TaskState state = record->task().state();
  Context context{now, {}};
  if (command.state == v1::HELD && state != v1::HELD) {
    TakeBack(context, command.task_id, v1::HELD, command.reason);
  } else if (command.state == v1::CANCELLED && !problem::IsOver(state)) {
    TakeBack(context, command.task_id, v1::CANCELLED, command.reason);
  } else if (command.state == v1::QUEUED && problem::IsAtRest(state)) {
    if (record->task().problem_blob().empty()) {
      return {{}, absl::FailedPreconditionError(absl::StrCat(command.task_id, ": ", kProblemLost))};
    }
    // Whoever wants more work on a task that has spent its budget gives it a new one.
    const v1::Task& task = record->task();
    const v1::RunRecord* run = state_.FindRun(task.run_id());
    const bool spent = NextSlice(task) <= 0;
    Move(context, command.task_id, v1::QUEUED, command.reason,
         spent ? task.seconds_spent() + run->run().seconds_per_task() : 0);
  }
  return {std::move(context.events), View(*state_.FindTask(command.task_id))};
}

absl::StatusOr<const v1::RunRecord*> Core::RunToChange(const std::string& run_id,
                                                       const std::string& reason,
                                                       const std::string& only_of) const {
  const v1::RunRecord* run = state_.FindRun(run_id);
  if (run == nullptr && state_.IsArchived(run_id)) return Archived(run_id);
  if (run == nullptr) return NoSuchRun(run_id);
  if (absl::Status status = CheckReason(reason); !status.ok()) return status;
  if (absl::Status status = CheckWhose(run->run(), only_of); !status.ok()) return status;
  return run;
}

Outcome<v1::CancelRunReply> Core::Handle(const CancelRun& command, Now now) {
  const absl::StatusOr<const v1::RunRecord*> record =
      RunToChange(command.run_id, command.reason, command.only_of);
  if (!record.ok()) return {{}, record.status()};
  const v1::RunRecord* const run = *record;
  Context context{now, {}};
  v1::CancelRunReply reply;
  for (const std::string& task_id : run->run().task_ids()) {
    const v1::Task& task = state_.FindTask(task_id)->task();
    if (problem::IsOver(task.state())) continue;
    TakeBack(context, task_id, v1::CANCELLED, command.reason);
    if (task.state() == v1::CANCELLED) reply.set_cancelled(reply.cancelled() + 1);
  }
  *reply.mutable_run() = run->run();
  return {std::move(context.events), std::move(reply)};
}

Outcome<v1::Run> Core::Handle(const SetPriority& command, Now now) {
  const absl::StatusOr<const v1::RunRecord*> run =
      RunToChange(command.run_id, command.reason, command.only_of);
  if (!run.ok()) return {{}, run.status()};
  if (!command.priority.has_value()) {
    return {
        {},
        absl::InvalidArgumentError(absl::StrCat("run ", command.run_id, ": say which priority, ",
                                                -kMaxPriority, " to ", kMaxPriority))};
  }
  if (absl::Status status = CheckPriority(*command.priority); !status.ok()) return {{}, status};
  Context context{now, {}};
  if ((*run)->run().priority() != *command.priority) {
    v1::Event event;
    v1::RunChanged& changed = *event.mutable_run_changed();
    changed.set_run_id(command.run_id);
    changed.set_arch((*run)->arch());
    changed.set_priority(*command.priority);
    changed.set_reason(command.reason);
    Emit(context, std::move(event));
  }
  return {std::move(context.events), (*run)->run()};
}

// ---- HoldWorker, ReleaseWorker -----------------------------------------------------------------

Outcome<v1::WorkerInfo> Core::Handle(const HoldWorker& command, Now now) {
  const v1::WorkerRecord* worker = state_.FindWorker(command.worker_id);
  if (worker == nullptr) return {{}, NoSuchWorker(command.worker_id)};
  if (absl::Status status = CheckReason(command.reason); !status.ok()) return {{}, status};
  Context context{now, {}};
  if (!worker->held() || worker->held_reason() != command.reason) {
    v1::Event event;
    event.mutable_worker_held()->set_worker_id(command.worker_id);
    event.mutable_worker_held()->set_reason(command.reason);
    Emit(context, std::move(event));
  }
  return {std::move(context.events), View(*state_.FindWorker(command.worker_id))};
}

Outcome<v1::WorkerInfo> Core::Handle(const ReleaseWorker& command, Now now) {
  const v1::WorkerRecord* worker = state_.FindWorker(command.worker_id);
  if (worker == nullptr) return {{}, NoSuchWorker(command.worker_id)};
  if (absl::Status status = CheckReason(command.reason); !status.ok()) return {{}, status};
  Context context{now, {}};
  if (problem::IsSetAside(*worker)) {
    v1::Event event;
    v1::WorkerReleased& released = *event.mutable_worker_released();
    released.set_worker_id(command.worker_id);
    released.set_reason(command.reason);
    released.set_by_person(true);
    Emit(context, std::move(event));
  }
  return {std::move(context.events), View(*state_.FindWorker(command.worker_id))};
}

// ---- Tick --------------------------------------------------------------------------------------

Outcome<Done> Core::Handle(const Tick&, Now now) {
  Context context{now, {}};
  for (const std::string& id : worker_deadline_.Passed(now.monotonic_ms)) {
    LoseWorker(context, id, "it fell silent");
  }
  for (const std::string& id : lease_deadline_.Passed(now.monotonic_ms)) {
    const v1::TaskRecord* record = state_.FindTask(id);
    if (record == nullptr || !record->has_lease()) {
      lease_deadline_.Erase(id);
      lease_overdue_.erase(id);
      continue;
    }
    const bool overdue = lease_overdue_[id] <= now.monotonic_ms && progress_.count(id) > 0;
    EndLease(
        context, *record, v1::LeaseStatus(), overdue ? v1::OVERDUE : v1::UNSPOKEN,
        absl::StrCat("worker ", record->lease().worker_id(),
                     overdue ? " does not come to an end with it" : " no longer speaks of it"));
  }
  Archive(context, options_.keep_over_tasks);
  return {std::move(context.events), Done{}};
}

}  // namespace warpsmith::planner
