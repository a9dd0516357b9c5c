#include "planner/service/log.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "common/problem/cause.h"
#include "common/problem/task_name.h"

namespace warpsmith::planner {
namespace {

using problem::LeaseOf;
using problem::RunOf;
using telemetry::Log;
using telemetry::LogEvent;
using enum spdlog::level::level_enum;

constexpr LogEvent kRunSubmitted = {
    "run_submitted", info, "run {run} is submitted: {name}, {tasks} tasks[, by {submitter}]",
    "policy, seconds, priority, revision"};
constexpr LogEvent kRunBound = {"run_bound", info, "run {run} is for {arch}", "revision"};
constexpr LogEvent kRunPrioritized = {
    "run_prioritized", info, "run {run} has the priority {priority} from here on[: {reason}]",
    "revision"};
constexpr LogEvent kRunEnded = {"run_ended", info,
                                "run {run} is over: {tasks} tasks, {alarms} alarms", "revision"};
constexpr LogEvent kRunArchived = {"run_archived", debug, "run {run} goes to the archive",
                                   "revision"};
constexpr LogEvent kWorkerJoined = {
    "worker_joined", info, "worker {worker} joins: {arch}, {device}", "version, labels, revision"};
constexpr LogEvent kWorkerCameBack = {
    "worker_came_back", info,
    "worker {worker} comes back: it was answered to event {came_at} of {came_from}; this history "
    "goes on after {restored}",
    "revision"};
constexpr LogEvent kResultRefused = {
    "result_refused", info,
    "worker {worker} had the lease {lease}, of after the backup: {trials} trials[ and the kernel "
    "{trial}] are refused",
    "run, task, revision"};
constexpr LogEvent kWorkerSays = {"worker_says", info, "worker {worker} {says}[: {reason}]",
                                  "revision"};
constexpr LogEvent kWorkerLeft = {"worker_left", info, "worker {worker} left", "revision"};
constexpr LogEvent kWorkerLost = {"worker_lost", warn, "worker {worker} is lost: {reason}",
                                  "revision"};
constexpr LogEvent kWorkerQuarantined = {
    "worker_quarantined", warn,
    "worker {worker} is quarantined[, it lost or gave up: {ledger}][: {fault}]", "revision"};
constexpr LogEvent kWorkerHeld = {"worker_held", info, "worker {worker} is held[: {reason}]",
                                  "revision"};
constexpr LogEvent kWorkerReleased = {
    "worker_released", info, "worker {worker} is released[: {reason}]", "by_person, revision"};
constexpr LogEvent kLeaseGranted = {"lease_granted", info,
                                    "lease {lease} goes to {worker} for {seconds} s: {why}",
                                    "run, task, fence, revision"};
constexpr LogEvent kLeaseEnded = {
    "lease_ended", info, "lease {lease} of {worker} ended after {seconds} s, {cause}[: {reason}]",
    "run, task, fence, specialist, revision"};
constexpr LogEvent kLeaseLost = {"lease_lost", warn,
                                 "lease {lease} of {worker} is lost, {cause}[: {reason}]",
                                 "run, task, fence, seconds, specialist, revision"};
constexpr LogEvent kAccepted = {
    "incumbent_accepted", info,
    "task {task} has a better kernel, {trial}: {best_us} us, {speedup} times the baseline",
    "run, lease, worker, specialist, action, light_us, revision"};
constexpr LogEvent kTrials = {"trials_recorded", debug,
                              "task {task}: {trials} trials, {judged} judged",
                              "run, fence, batch, first, seconds, revision"};
constexpr LogEvent kTaskQueued = {"task_queued", info, "task {task} is queued[: {reason}]",
                                  "run, alarm, revision"};
constexpr LogEvent kTaskConverged = {
    "task_converged", info, "task {task} has converged[: {reason}]", "run, alarm, revision"};
constexpr LogEvent kTaskParked = {"task_parked", warn, "task {task} is parked[: {reason}]",
                                  "run, alarm, revision"};
constexpr LogEvent kTaskFailed = {"task_failed", warn, "task {task} has failed[: {reason}]",
                                  "run, alarm, revision"};
constexpr LogEvent kTaskHeld = {"task_held", info, "task {task} is held[: {reason}]",
                                "run, alarm, revision"};
constexpr LogEvent kTaskCancelled = {"task_cancelled", info, "task {task} is cancelled[: {reason}]",
                                     "run, alarm, revision"};

constexpr LogEvent kTable[] = {
    told::kListening, told::kListensHttp, told::kListensPage, told::kRestored, told::kEnding,
    told::kEnded,
    // Who leads, and the store.
    told::kLeads, told::kFollows, told::kCaughtUp, told::kDeposed, told::kResigned,
    told::kNotResigned, told::kStoreAway, told::kStoreBack, told::kCommitsStall, told::kCommitsGoOn,
    told::kCheckpoint, told::kNoCheckpoint, told::kDamaged,
    // The fleet's work.
    kRunSubmitted, kRunBound, kRunPrioritized, kRunEnded, kRunArchived, kLeaseGranted, kLeaseEnded,
    kLeaseLost, kAccepted, kTrials, kTaskQueued, kTaskConverged, kTaskParked, kTaskFailed,
    kTaskHeld, kTaskCancelled, kWorkerJoined, kWorkerCameBack, kResultRefused, kWorkerSays,
    kWorkerLeft, kWorkerLost, kWorkerQuarantined, kWorkerHeld, kWorkerReleased,
    // People's.
    told::kBoard, told::kBoardFailed};

// Null: nothing is told of it.
const LogEvent* EventOf(v1::TaskState state) {
  switch (state) {
    case v1::QUEUED:
      return &kTaskQueued;
    case v1::CONVERGED:
      return &kTaskConverged;
    case v1::PARKED:
      return &kTaskParked;
    case v1::FAILED:
      return &kTaskFailed;
    case v1::HELD:
      return &kTaskHeld;
    case v1::CANCELLED:
      return &kTaskCancelled;
    default:
      return nullptr;
  }
}

void Tell(const v1::RunSubmitted& event, int64_t revision) {
  const v1::Run& run = event.run();
  Log(kRunSubmitted, {{"run", run.id()},
                      {"name", run.name()},
                      {"tasks", event.tasks_size()},
                      {"submitter", run.submitter()},
                      {"policy", run.policy()},
                      {"seconds", run.seconds_per_task()},
                      {"priority", run.priority()},
                      {"revision", revision}});
}

void Tell(const v1::RunChanged& event, int64_t revision) {
  if (event.has_priority()) {
    return Log(kRunPrioritized, {{"run", event.run_id()},
                                 {"priority", event.priority()},
                                 {"reason", event.reason()},
                                 {"revision", revision}});
  }
  Log(kRunBound, {{"run", event.run_id()}, {"arch", event.arch()}, {"revision", revision}});
}

void Tell(const v1::WorkerJoined& event, int64_t revision, const State& state) {
  const v1::WorkerInfo& worker = event.worker();
  if (!event.came_from().empty()) {
    Log(kWorkerCameBack,
        {{"worker", worker.id()},
         {"came_at", event.came_at()},
         {"came_from", event.came_from()},
         {"restored", state.restored() == nullptr ? 0 : state.restored()->revision()},
         {"revision", revision}});
  }
  if (event.again()) {
    return Log(kWorkerSays, {{"worker", worker.id()},
                             {"says", worker.draining()  ? "is leaving"
                                      : worker.healthy() ? "is well"
                                                         : "is not well"},
                             {"reason", worker.health_reason()},
                             {"revision", revision}});
  }
  Log(kWorkerJoined, {{"worker", worker.id()},
                      {"arch", worker.arch()},
                      {"device", worker.device_name()},
                      {"version", worker.version()},
                      {"labels", absl::StrJoin(worker.labels(), ",")},
                      {"revision", revision}});
}

// One that was told to end says so before it does.
void Tell(const v1::WorkerLost& event, int64_t revision, const State& state) {
  const v1::WorkerRecord* const worker = state.FindWorker(event.worker_id());
  if (worker != nullptr && worker->worker().draining()) {
    return Log(kWorkerLeft, {{"worker", event.worker_id()}, {"revision", revision}});
  }
  Log(kWorkerLost,
      {{"worker", event.worker_id()}, {"reason", event.reason()}, {"revision", revision}});
}

void Tell(const v1::LeaseGranted& event, int64_t revision) {
  Log(kLeaseGranted, {{"lease", event.lease_id()},
                      {"worker", event.worker_id()},
                      {"seconds", event.seconds()},
                      {"why", event.why()},
                      {"run", RunOf(event.task_id())},
                      {"task", event.task_id()},
                      {"fence", event.fence()},
                      {"revision", revision}});
}

void Tell(const v1::LeaseEnded& event, int64_t revision) {
  Log(event.lost() ? kLeaseLost : kLeaseEnded, {{"lease", event.lease_id()},
                                                {"worker", event.worker_id()},
                                                {"cause", WordOf(event.cause())},
                                                {"seconds", event.seconds()},
                                                {"reason", event.reason()},
                                                {"run", RunOf(event.task_id())},
                                                {"task", event.task_id()},
                                                {"fence", event.fence()},
                                                {"specialist", event.specialist()},
                                                {"revision", revision}});
}

void Tell(const v1::ResultAccepted& event, int64_t revision) {
  Log(kAccepted, {{"task", event.task_id()},
                  {"trial", event.trial_id()},
                  {"best_us", event.best_us()},
                  {"speedup", event.speedup()},
                  {"run", RunOf(event.task_id())},
                  {"lease", LeaseOf(event.trial_id())},
                  {"worker", event.worker_id()},
                  {"specialist", event.specialist()},
                  {"action", event.action()},
                  {"light_us", event.light_us()},
                  {"revision", revision}});
}

void Tell(const v1::TrialsRecorded& event, int64_t revision) {
  Log(kTrials, {{"task", event.task_id()},
                {"trials", event.trials()},
                {"judged", event.judged()},
                {"run", RunOf(event.task_id())},
                {"fence", event.fence()},
                {"batch", event.batch()},
                {"first", event.first()},
                {"seconds", event.seconds()},
                {"revision", revision}});
}

void Tell(const v1::TaskMoved& event, int64_t revision) {
  const LogEvent* const moved = EventOf(event.state());
  if (moved == nullptr) return;
  Log(*moved, {{"task", event.task_id()},
               {"reason", event.reason()},
               {"run", RunOf(event.task_id())},
               {"alarm", event.alarm()},
               {"revision", revision}});
}

void Tell(const v1::Event& event, int64_t revision, const State& state) {
  switch (event.event_case()) {
    case v1::Event::kRunSubmitted:
      return Tell(event.run_submitted(), revision);
    case v1::Event::kRunChanged:
      return Tell(event.run_changed(), revision);
    case v1::Event::kWorkerJoined:
      return Tell(event.worker_joined(), revision, state);
    case v1::Event::kWorkerLost:
      return Tell(event.worker_lost(), revision, state);
    case v1::Event::kWorkerQuarantined: {
      const std::string& id = event.worker_quarantined().worker_id();
      const v1::WorkerRecord* const record = state.FindWorker(id);
      const v1::WorkerRecord worker = record == nullptr ? v1::WorkerRecord() : *record;
      const std::string ledger =
          worker.fault().empty() ? problem::TextOf(worker.ledger()) : std::string();
      return Log(
          kWorkerQuarantined,
          {{"worker", id}, {"ledger", ledger}, {"fault", worker.fault()}, {"revision", revision}});
    }
    case v1::Event::kWorkerHeld:
      return Log(kWorkerHeld, {{"worker", event.worker_held().worker_id()},
                               {"reason", event.worker_held().reason()},
                               {"revision", revision}});
    case v1::Event::kWorkerReleased:
      return Log(kWorkerReleased, {{"worker", event.worker_released().worker_id()},
                                   {"reason", event.worker_released().reason()},
                                   {"by_person", event.worker_released().by_person()},
                                   {"revision", revision}});
    case v1::Event::kLeaseGranted:
      return Tell(event.lease_granted(), revision);
    case v1::Event::kLeaseEnded:
      return Tell(event.lease_ended(), revision);
    case v1::Event::kResultAccepted:
      return Tell(event.result_accepted(), revision);
    case v1::Event::kTrialsRecorded:
      return Tell(event.trials_recorded(), revision);
    case v1::Event::kResultRefused: {
      const v1::ResultRefused& refused = event.result_refused();
      return Log(kResultRefused, {{"worker", refused.worker_id()},
                                  {"lease", refused.lease_id()},
                                  {"trials", refused.trials()},
                                  {"trial", refused.trial_id()},
                                  {"run", RunOf(refused.task_id())},
                                  {"task", refused.task_id()},
                                  {"revision", revision}});
    }
    case v1::Event::kTaskMoved:
      return Tell(event.task_moved(), revision);
    case v1::Event::kRunArchived:
      return Log(kRunArchived, {{"run", event.run_archived().run_id()}, {"revision", revision}});
    case v1::Event::EVENT_NOT_SET:
      return;
  }
}

}  // namespace

absl::Span<const LogEvent> PlannerLogTable() { return kTable; }

std::string WordOf(v1::Cause cause) {
  if (cause == v1::CAUSE_UNSPECIFIED) return "unknown";
  return absl::AsciiStrToLower(v1::Cause_Name(cause));
}

void TellDecided(absl::Span<const v1::Event> events, const State& state) {
  const int64_t before = state.revision() - static_cast<int64_t>(events.size());
  std::set<std::string_view> moved;  // runs
  for (size_t i = 0; i < events.size(); ++i) {
    Tell(events[i], before + 1 + static_cast<int64_t>(i), state);
    if (events[i].has_task_moved()) moved.insert(RunOf(events[i].task_moved().task_id()));
  }
  // A run is over with the last of its tasks.
  for (const std::string_view id : moved) {
    const v1::RunRecord* const run = state.FindRun(std::string(id));
    if (run == nullptr || !run->run().done()) continue;
    Log(kRunEnded, {{"run", id},
                    {"tasks", run->run().task_ids_size()},
                    {"alarms", run->run().alarms()},
                    {"revision", state.revision()}});
  }
}

}  // namespace warpsmith::planner
