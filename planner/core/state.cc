#include "planner/core/state.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::planner {
namespace {

const std::set<std::string>& Nothing() {
  static const std::set<std::string>* const empty = new std::set<std::string>;
  return *empty;
}

template <typename Map>
auto FindIn(const Map& map, const typename Map::key_type& key) -> const typename Map::mapped_type* {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

template <typename Repeated>
void KeepNewest(Repeated* list, int limit) {
  if (list->size() > limit) list->DeleteSubrange(0, list->size() - limit);
}

v1::TaskRecord& Need(std::map<std::string, v1::TaskRecord>& tasks, const std::string& id) {
  const auto found = tasks.find(id);
  WS_CHECK(found != tasks.end(), absl::StrCat("the log names a task that it did not make: ", id));
  return found->second;
}

void Add(const v1::SpecialistCount& from, v1::TaskRecord& task) {
  for (v1::SpecialistCount& count : *task.mutable_counts()) {
    if (count.specialist() != from.specialist()) continue;
    count.set_trials(count.trials() + from.trials());
    count.set_judged(count.judged() + from.judged());
    count.set_accepted(count.accepted() + from.accepted());
    count.set_seconds(count.seconds() + from.seconds());
    return;
  }
  *task.add_counts() = from;
}

}  // namespace

bool IsAtRest(v1::TaskState state) {
  return state == v1::CONVERGED || state == v1::PARKED || state == v1::FAILED || state == v1::HELD;
}

int64_t RunNumber(const std::string& run_id) {
  int64_t number = 0;
  if (run_id.size() < 2 || run_id[0] != 'r' || !absl::SimpleAtoi(run_id.substr(1), &number)) {
    return 0;
  }
  return number;
}

State State::FromProto(const v1::PlannerState& snapshot) {
  State state;
  state.revision_ = snapshot.revision();
  state.sessions_ = snapshot.sessions();
  for (const v1::RunRecord& run : snapshot.runs()) {
    state.runs_[RunNumber(run.run().id())] = run;
    state.runs_[RunNumber(run.run().id())].mutable_run()->set_alarms(0);  // counted below
    state.unfinished_[run.run().id()] = 0;
  }
  for (const v1::TaskRecord& task : snapshot.tasks()) {
    state.tasks_[task.task().id()] = task;
    state.Index(task, true);
  }
  for (const v1::WorkerRecord& worker : snapshot.workers()) {
    state.workers_[worker.worker().id()] = worker;
    state.lost_workers_ += worker.lost();
  }
  return state;
}

v1::PlannerState State::ToProto() const {
  v1::PlannerState snapshot;
  snapshot.set_revision(revision_);
  snapshot.set_sessions(sessions_);
  for (const auto& [number, run] : runs_) *snapshot.add_runs() = run;
  for (const auto& [id, task] : tasks_) *snapshot.add_tasks() = task;
  for (const auto& [id, worker] : workers_) *snapshot.add_workers() = worker;
  return snapshot;
}

const v1::RunRecord* State::FindRun(const std::string& run_id) const {
  const v1::RunRecord* run = FindIn(runs_, RunNumber(run_id));
  // "r01" has the number of r1 and is not its id.
  return run != nullptr && run->run().id() == run_id ? run : nullptr;
}
const v1::TaskRecord* State::FindTask(const std::string& task_id) const {
  return FindIn(tasks_, task_id);
}
const v1::WorkerRecord* State::FindWorker(const std::string& worker_id) const {
  return FindIn(workers_, worker_id);
}
const std::set<std::string>& State::Queued(const std::string& arch) const {
  const auto* found = FindIn(queued_, arch);
  return found == nullptr ? Nothing() : *found;
}
const std::set<std::string>& State::LeasedBy(const std::string& worker_id) const {
  const auto* found = FindIn(leased_by_, worker_id);
  return found == nullptr ? Nothing() : *found;
}

void State::Apply(const v1::Event& event) {
  ++revision_;
  switch (event.event_case()) {
    case v1::Event::kRunSubmitted:
      return On(event.run_submitted());
    case v1::Event::kRunBound:
      return On(event.run_bound());
    case v1::Event::kWorkerJoined:
      return On(event.worker_joined());
    case v1::Event::kWorkerLost:
      return On(event.worker_lost());
    case v1::Event::kLeaseGranted:
      return On(event.lease_granted());
    case v1::Event::kLeaseEnded:
      return On(event.lease_ended());
    case v1::Event::kResultAccepted:
      return On(event.result_accepted());
    case v1::Event::kTrialsRecorded:
      return On(event.trials_recorded());
    case v1::Event::kTaskMoved:
      return On(event.task_moved());
    case v1::Event::EVENT_NOT_SET:
      break;
  }
  base::CheckFailed(__FILE__, __LINE__, "event is known",
                    "the log holds an event of a newer Warpsmith: use that version on this folder");
}

void State::Index(const v1::TaskRecord& record, bool present) {
  const v1::Task& task = record.task();
  if (task.state() == v1::QUEUED) {
    if (present) {
      queued_[task.arch()].insert(task.id());
    } else {
      queued_[task.arch()].erase(task.id());
    }
  }
  if (record.has_lease()) {
    if (present) {
      leased_by_[record.lease().worker_id()].insert(task.id());
    } else {
      leased_by_[record.lease().worker_id()].erase(task.id());
    }
  }
  int& unfinished = unfinished_[task.run_id()];
  if (!IsAtRest(task.state())) unfinished += present ? 1 : -1;
  v1::Run& run = *runs_[RunNumber(task.run_id())].mutable_run();
  run.set_done(unfinished == 0);
  if (!task.alarm().empty()) run.set_alarms(run.alarms() + (present ? 1 : -1));
}

void State::Move(v1::TaskRecord& task, v1::TaskState state, const std::string& reason) {
  Index(task, false);
  task.mutable_task()->set_state(state);
  task.mutable_task()->set_reason(reason);
  Index(task, true);
}

void State::ClearLease(v1::TaskRecord& task) {
  Index(task, false);
  task.clear_lease();
  task.mutable_task()->clear_lease_id();
  task.mutable_task()->clear_worker_id();
  Index(task, true);
}

void State::On(const v1::RunSubmitted& event) {
  v1::RunRecord& run = runs_[RunNumber(event.run().id())];
  *run.mutable_run() = event.run();
  run.set_request_id(event.request_id());
  if (event.tasks_size() > 0) run.set_arch(event.tasks(0).arch());
  for (const v1::Task& task : event.tasks()) {
    v1::TaskRecord& record = tasks_[task.id()];
    *record.mutable_task() = task;
    record.set_policy(event.run().policy());
    Index(record, true);
  }
}

void State::On(const v1::RunBound& event) {
  const auto found = runs_.find(RunNumber(event.run_id()));
  WS_CHECK(found != runs_.end(), "the log binds a run that it did not make: " + event.run_id());
  found->second.set_arch(event.arch());
  for (const std::string& id : found->second.run().task_ids()) {
    v1::TaskRecord& task = Need(tasks_, id);
    Index(task, false);
    task.mutable_task()->set_arch(event.arch());
    Index(task, true);
  }
}

void State::On(const v1::WorkerJoined& event) {
  v1::WorkerRecord& worker = workers_[event.worker().id()];
  if (worker.session_id() != event.session_id()) ++sessions_;
  lost_workers_ -= worker.lost();
  worker.set_lost(false);
  worker.set_session_id(event.session_id());
  *worker.mutable_worker() = event.worker();
}

void State::On(const v1::WorkerLost& event) {
  const auto found = workers_.find(event.worker_id());
  if (found == workers_.end() || found->second.lost()) return;
  found->second.set_lost(true);
  found->second.mutable_worker()->set_healthy(false);
  found->second.mutable_worker()->set_health_reason(event.reason());
  if (++lost_workers_ <= kMaxLostWorkers) return;
  // Which of them is forgotten matters little: it joins again like any other.
  const auto forgotten = std::find_if(workers_.begin(), workers_.end(),
                                      [](const auto& entry) { return entry.second.lost(); });
  workers_.erase(forgotten);
  --lost_workers_;
}

void State::On(const v1::LeaseGranted& event) {
  v1::TaskRecord& record = Need(tasks_, event.task_id());
  v1::Task& task = *record.mutable_task();
  Move(record, v1::LEASED, "");
  Index(record, false);
  task.set_fence(event.fence());
  task.set_lease_id(event.lease_id());
  task.set_worker_id(event.worker_id());
  v1::LeaseRecord& lease = *record.mutable_lease();
  lease.set_id(event.lease_id());
  lease.set_fence(event.fence());
  lease.set_worker_id(event.worker_id());
  lease.set_seconds(event.seconds());
  record.set_slice_speedup(task.incumbent_blob().empty() ? 1.0 : task.speedup());
  Index(record, true);
}

void State::On(const v1::LeaseEnded& event) {
  v1::TaskRecord& record = Need(tasks_, event.task_id());
  v1::Task& task = *record.mutable_task();
  task.set_seconds_spent(task.seconds_spent() + event.seconds());
  task.set_slices(task.slices() + (event.lost() || event.failed() ? 0 : 1));
  task.set_losses(event.lost() ? task.losses() + 1 : 0);
  record.set_failures(event.failed() ? record.failures() + 1
                      : event.lost() ? record.failures()
                                     : 0);
  if (!event.specialist().empty()) task.set_specialist(event.specialist());
  v1::SliceGain& gain = *task.add_gains();
  gain.set_seconds(event.seconds());
  gain.set_speedup_before(record.slice_speedup());
  gain.set_speedup_after(task.incumbent_blob().empty() ? record.slice_speedup() : task.speedup());
  KeepNewest(task.mutable_gains(), kMaxGains);
  ClearLease(record);
  Move(record, v1::QUEUED, event.lost() || event.failed() ? event.reason() : "");
}

void State::On(const v1::ResultAccepted& event) {
  v1::TaskRecord& record = Need(tasks_, event.task_id());
  v1::Task& task = *record.mutable_task();
  // The same trial again is its incumbent measured again, not a lesson.
  if (event.trial_id() != record.incumbent_trial_id()) {
    v1::Lesson& lesson = *record.add_lessons();
    lesson.set_specialist(event.specialist());
    lesson.set_action(event.action());
    lesson.set_speedup_before(task.incumbent_blob().empty() ? 1.0 : task.speedup());
    lesson.set_speedup_after(event.speedup());
    KeepNewest(record.mutable_lessons(), kMaxLessons);
  }
  record.set_incumbent_trial_id(event.trial_id());
  *record.add_accepted_blobs() = event.incumbent_blob();
  KeepNewest(record.mutable_accepted_blobs(), kMaxAcceptedBlobs);
  task.set_incumbent_blob(event.incumbent_blob());
  task.set_speedup(event.speedup());
  task.set_speedup_eager(event.speedup_eager());
  task.set_best_us(event.best_us());
  task.set_graph_us(event.graph_us());
  task.set_light_us(event.light_us());
  task.set_baseline_us(event.baseline_us());
  task.set_baseline_name(event.baseline_name());
  task.set_peak_bytes(event.peak_bytes());
  task.set_oracle(event.oracle());
  task.set_held_by(event.held_by());
}

void State::On(const v1::TrialsRecorded& event) {
  v1::TaskRecord& record = Need(tasks_, event.task_id());
  v1::Task& task = *record.mutable_task();
  task.set_trials(task.trials() + event.trials());
  task.set_trials_judged(task.trials_judged() + event.judged());
  if (!event.specialist().empty()) task.set_specialist(event.specialist());
  *task.add_trial_blobs() = event.batch_blob();
  KeepNewest(task.mutable_trial_blobs(), kMaxTrialBlobs);
  for (const v1::SpecialistCount& count : event.counts()) Add(count, record);
}

void State::On(const v1::TaskMoved& event) {
  v1::TaskRecord& record = Need(tasks_, event.task_id());
  if (event.seconds_budget() > 0) {
    record.mutable_task()->set_seconds_budget(event.seconds_budget());
  }
  // Back in the queue by a person: the ledgers of blame start anew.
  if (event.state() == v1::QUEUED) {
    record.mutable_task()->set_losses(0);
    record.set_failures(0);
  }
  Index(record, false);
  record.mutable_task()->set_alarm(event.alarm());
  Index(record, true);
  Move(record, event.state(), event.reason());
}

}  // namespace warpsmith::planner
