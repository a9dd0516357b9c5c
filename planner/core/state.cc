#include "planner/core/state.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/sha256.h"
#include "common/problem/cause.h"
#include "common/problem/task_state.h"
#include "common/problem/worker_state.h"
#include "planner/core/allocator.h"
#include "planner/core/limits.h"
#include "planner/core/restored.h"

namespace warpsmith::planner {
namespace {

// An empty one, for as long as the process lives.
template <typename T>
const T& Nothing() {
  static const T* const empty = new T;
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

void AddOnce(const std::string& value, google::protobuf::RepeatedPtrField<std::string>* list) {
  if (std::find(list->begin(), list->end(), value) != list->end()) return;
  *list->Add() = value;
  KeepNewest(list, kMaxLostWith);
}

bool Names(const v1::WorkerRecord& worker, const std::string& task_id) {
  return std::any_of(worker.ledger().begin(), worker.ledger().end(),
                     [&](const v1::Blame& blame) { return blame.task_id() == task_id; });
}

void Strike(const std::string& task_id, v1::WorkerRecord& worker) {
  auto& ledger = *worker.mutable_ledger();
  ledger.erase(std::remove_if(ledger.begin(), ledger.end(),
                              [&](const v1::Blame& blame) { return blame.task_id() == task_id; }),
               ledger.end());
}

void Add(const v1::SpecialistCount& from, v1::TaskRecord& task) {
  v1::SpecialistCount& count = problem::CountOf(from.specialist(), *task.mutable_counts());
  count.set_trials(count.trials() + from.trials());
  count.set_judged(count.judged() + from.judged());
  count.set_accepted(count.accepted() + from.accepted());
  count.set_seconds(count.seconds() + from.seconds());
}

}  // namespace

v1::Task WithProgress(const v1::TaskRecord& record, const Progress* progress) {
  v1::Task task = record.task();
  if (!record.has_lease() || progress == nullptr) return task;
  task.set_seconds_spent(task.seconds_spent() + progress->seconds);
  if (!progress->specialist.empty()) task.set_specialist(progress->specialist);
  return task;
}

std::string SetDigest(const std::vector<std::string>& blobs) {
  return base::Sha256Hex(absl::StrJoin(blobs, "\n"));
}

int64_t RunNumber(const std::string& run_id) {
  int64_t number = 0;
  if (run_id.size() < 2 || run_id[0] != 'r' || !absl::SimpleAtoi(run_id.substr(1), &number)) {
    return 0;
  }
  return number;
}

const std::string& OwnerOf(const v1::Run& run) {
  return run.submitter().empty() ? run.id() : run.submitter();
}

State State::FromProto(v1::PlannerState stored) {
  State state;
  for (v1::Submitter& submitter : *stored.mutable_submitters()) {
    const std::string name = submitter.name();
    state.idle_submitters_.insert(name);  // until a run of its comes
    state.submitters_[name] = std::move(submitter);
  }
  state.revision_ = stored.revision();
  state.sessions_ = stored.sessions();
  state.last_run_ = stored.last_run();
  state.archived_runs_ = stored.archived_runs();
  state.has_restored_ = stored.has_restored();
  state.restored_.Swap(stored.mutable_restored());
  for (v1::RunRecord& run : *stored.mutable_runs()) {
    run.mutable_run()->set_alarms(0);  // counted below
    const int64_t number = RunNumber(run.run().id());
    state.AddRun(number, std::move(run));
  }
  for (v1::TaskRecord& task : *stored.mutable_tasks()) {
    const std::string id = task.task().id();
    v1::TaskRecord& record = state.tasks_[id];
    record = std::move(task);
    state.Index(record);
  }
  for (v1::WorkerRecord& worker : *stored.mutable_workers()) {
    const std::string id = worker.worker().id();
    if (worker.lost()) state.lost_.insert(id);
    if (worker.quarantined()) state.quarantined_.insert(id);
    state.workers_[id] = std::move(worker);
  }
  for (v1::ArchivedRun& run : *stored.mutable_archived()) {
    const int64_t number = RunNumber(run.run().id());
    state.Remember(number, std::move(run));
  }
  state.changed_runs_.clear();
  state.changed_archived_.clear();
  state.changed_submitters_.clear();
  return state;
}

Changes State::TakeChanges() {
  Changes changes;
  changes.records.set_revision(revision_);
  changes.records.set_sessions(sessions_);
  changes.records.set_last_run(last_run_);
  changes.records.set_archived_runs(archived_runs_);
  if (has_restored_) *changes.records.mutable_restored() = restored_;
  for (const int64_t number : changed_runs_) *changes.records.add_runs() = runs_.at(number);
  for (const std::string& id : changed_tasks_) *changes.records.add_tasks() = tasks_.at(id);
  for (const std::string& id : changed_workers_) {
    if (const v1::WorkerRecord* worker = FindWorker(id)) {
      *changes.records.add_workers() = *worker;
    } else {
      changes.forgotten.push_back(id);
    }
  }
  for (const int64_t number : changed_archived_) {
    if (const v1::ArchivedRun* run = FindIn(archived_, number)) {
      *changes.records.add_archived() = *run;
    } else {
      changes.unremembered.push_back(number);
    }
  }
  for (const std::string& name : changed_submitters_) {
    if (const v1::Submitter* submitter = FindIn(submitters_, name)) {
      *changes.records.add_submitters() = *submitter;
    } else {
      changes.gone.push_back(name);
    }
  }
  changes.archived.Swap(&leaving_);
  changed_runs_.clear();
  changed_tasks_.clear();
  changed_workers_.clear();
  changed_archived_.clear();
  changed_submitters_.clear();
  return changes;
}

v1::TaskRecord& State::Task(const std::string& id) {
  const auto found = tasks_.find(id);
  WS_CHECK(found != tasks_.end(), absl::StrCat("the log names a task that it did not make: ", id));
  changed_tasks_.insert(id);
  return found->second;
}

v1::WorkerRecord* State::Worker(const std::string& id) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return nullptr;
  changed_workers_.insert(id);
  return &found->second;
}

v1::PlannerState State::ToProto() const {
  v1::PlannerState snapshot;
  snapshot.set_revision(revision_);
  snapshot.set_sessions(sessions_);
  snapshot.set_last_run(last_run_);
  snapshot.set_archived_runs(archived_runs_);
  if (has_restored_) *snapshot.mutable_restored() = restored_;
  for (const auto& [number, run] : runs_) *snapshot.add_runs() = run;
  for (const auto& [id, task] : tasks_) *snapshot.add_tasks() = task;
  for (const auto& [id, worker] : workers_) *snapshot.add_workers() = worker;
  for (const auto& [number, run] : archived_) *snapshot.add_archived() = run;
  for (const auto& [name, submitter] : submitters_) *snapshot.add_submitters() = submitter;
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
const v1::RunRecord* State::FindRequest(const std::string& request_id) const {
  const int64_t* number = FindIn(run_by_request_, request_id);
  return number == nullptr ? nullptr : FindIn(runs_, *number);
}
std::string State::SetDigestOf(const v1::Run& run) const {
  std::vector<std::string> blobs;
  for (const std::string& id : run.task_ids()) {
    const v1::TaskRecord* task = FindTask(id);
    if (task == nullptr) continue;  // lost with the store
    const std::string& blob = task->task().problem_blob();
    if (blobs.empty() || blobs.back() != blob) blobs.push_back(blob);
  }
  return SetDigest(blobs);
}
const v1::ArchivedRun* State::FindArchivedRequest(const std::string& request_id) const {
  const int64_t* number = FindIn(archived_by_request_, request_id);
  return number == nullptr ? nullptr : FindIn(archived_, *number);
}
bool State::IsArchived(const std::string& id) const {
  const std::string run_id = id.substr(0, id.find('/'));
  const int64_t number = RunNumber(run_id);
  if (number <= 0 || run_id != absl::StrCat("r", number)) return false;
  if (archived_.count(number) > 0) return true;
  // Before those that are remembered there were others, which were archived before them.
  const bool forgotten = archived_runs_ > static_cast<int64_t>(archived_.size()) &&
                         (archived_.empty() || number < archived_.begin()->first);
  return forgotten && number <= last_run_ && runs_.count(number) == 0;
}
bool State::IsOfBefore(const std::string& lease_id) const {
  return has_restored_ && planner::IsOfBefore(lease_id, restored_);
}
const WorkQueue& State::Queued(const std::string& arch) const {
  const auto* found = FindIn(queued_, arch);
  return found == nullptr ? Nothing<WorkQueue>() : *found;
}
Needs State::NeedsOf(const v1::Task& task) const {
  return planner::NeedsOf(runs_.at(RunNumber(task.run_id())).run(), task);
}
const std::set<std::string>& State::Doubtful(const std::string& arch) const {
  const auto* found = FindIn(doubtful_, arch);
  return found == nullptr ? Nothing<std::set<std::string>>() : *found;
}
const std::set<std::string>& State::LeasedBy(const std::string& worker_id) const {
  const auto* found = FindIn(leased_by_, worker_id);
  return found == nullptr ? Nothing<std::set<std::string>>() : *found;
}

void State::Apply(const v1::Event& event) {
  ++revision_;
  switch (event.event_case()) {
    case v1::Event::kRunSubmitted:
      return On(event.run_submitted());
    case v1::Event::kRunChanged:
      return On(event.run_changed());
    case v1::Event::kWorkerJoined:
      return On(event.worker_joined());
    case v1::Event::kWorkerLost:
      return On(event.worker_lost());
    case v1::Event::kWorkerQuarantined:
      return On(event.worker_quarantined());
    case v1::Event::kWorkerHeld:
      return On(event.worker_held());
    case v1::Event::kWorkerReleased:
      return On(event.worker_released());
    case v1::Event::kLeaseGranted:
      return On(event.lease_granted(), event.at_unix_ms());
    case v1::Event::kLeaseEnded:
      return On(event.lease_ended(), event.at_unix_ms());
    case v1::Event::kResultAccepted:
      return On(event.result_accepted());
    case v1::Event::kTrialsRecorded:
      return On(event.trials_recorded());
    case v1::Event::kTaskMoved:
      return On(event.task_moved());
    case v1::Event::kRunArchived:
      return On(event.run_archived());
    case v1::Event::kResultRefused:
      return Refused(event.result_refused(), restored_);
    case v1::Event::EVENT_NOT_SET:
      break;
  }
  base::CheckFailed(__FILE__, __LINE__, "event is known",
                    "the log holds an event of a newer Warpsmith: use that version on this folder");
}

State::Place State::PlaceOf(const v1::TaskRecord& record) {
  const v1::Task& task = record.task();
  Place place;
  place.queued = task.state() == v1::QUEUED;
  place.doubtful = place.queued && record.lost_with_size() == 1 && NextSlice(task) > 0;
  place.arch = task.arch();
  if (record.has_lease()) place.worker_id = record.lease().worker_id();
  place.unfinished = !problem::IsAtRest(task.state());
  place.open = !problem::IsOver(task.state());
  place.alarm = !task.alarm().empty();
  return place;
}

void State::Index(const v1::TaskRecord& record) {
  const v1::Task& task = record.task();
  Place& place = places_[task.id()];
  const Place now = PlaceOf(record);
  IndexQueue(record, place, now);
  IndexDoubt(task.id(), place, now);
  IndexLease(task.id(), place, now);
  const int64_t number = RunNumber(task.run_id());
  Counts& counts = counts_[number];
  counts.unfinished += now.unfinished - place.unfinished;
  counts.open += now.open - place.open;
  v1::Run& run = *runs_[number].mutable_run();
  const bool done = counts.unfinished == 0;
  // Alarms alone are no change: a run's record has the ids of all its tasks, and is read without.
  if (run.done() != done) changed_runs_.insert(number);
  run.set_done(done);
  SetOver(number, run, counts.open == 0);
  run.set_alarms(run.alarms() + now.alarm - place.alarm);
  place = now;
}

void State::SetOver(int64_t number, const v1::Run& run, bool over) {
  if (over == (over_runs_.count(number) > 0)) return;
  if (over) {
    over_runs_.insert(number);
  } else {
    over_runs_.erase(number);
  }
  over_tasks_ += over ? run.task_ids_size() : -run.task_ids_size();
}

void State::Leave(const v1::TaskRecord& record) {
  const auto place = places_.find(record.task().id());
  IndexQueue(record, place->second, Place());
  IndexDoubt(record.task().id(), place->second, Place());
  IndexLease(record.task().id(), place->second, Place());
  places_.erase(place);
}

void State::IndexQueue(const v1::TaskRecord& record, const Place& old, const Place& now) {
  if (old.queued && !(now.queued && now.arch == old.arch)) {
    // Gone, if none of its tasks had a slice left.
    const auto queue = queued_.find(old.arch);
    if (queue != queued_.end()) queue->second.Remove(record.task().id());
    if (queue != queued_.end() && queue->second.empty()) queued_.erase(queue);
  }
  if (!now.queued) return;
  const v1::Run& run = runs_.at(RunNumber(record.task().run_id())).run();
  const std::string& owner = OwnerOf(run);
  queued_[now.arch].Put(record.task(), {planner::NeedsOf(run, record.task()), owner,
                                        StandingOf(submitters_.at(owner)), run.priority()});
}

void State::IndexDoubt(const std::string& task_id, const Place& old, const Place& now) {
  if (old.doubtful) {
    const auto doubtful = doubtful_.find(old.arch);
    doubtful->second.erase(task_id);
    if (doubtful->second.empty()) doubtful_.erase(doubtful);
  }
  if (now.doubtful) doubtful_[now.arch].insert(task_id);
}

void State::IndexLease(const std::string& task_id, const Place& old, const Place& now) {
  if (old.worker_id == now.worker_id) return;
  if (!old.worker_id.empty()) {
    const auto held = leased_by_.find(old.worker_id);
    held->second.erase(task_id);
    if (held->second.empty()) leased_by_.erase(held);
  }
  if (!now.worker_id.empty()) leased_by_[now.worker_id].insert(task_id);
}

void State::AddRun(int64_t number, v1::RunRecord run) {
  counts_[number] = {};
  last_run_ = std::max(last_run_, number);
  if (!run.request_id().empty()) run_by_request_.emplace(run.request_id(), number);
  if (run.arch().empty()) unbound_.insert(number);
  SubmitterOf(run.run());
  ++runs_by_submitter_[OwnerOf(run.run())];
  idle_submitters_.erase(OwnerOf(run.run()));
  runs_[number] = std::move(run);
  changed_runs_.insert(number);
}

v1::Submitter& State::SubmitterOf(const v1::Run& run) {
  const auto [found, fresh] = submitters_.try_emplace(OwnerOf(run));
  if (fresh) {
    found->second.set_name(found->first);
    found->second.set_weight(run.weight());
    found->second.set_since(RunNumber(run.id()));
    changed_submitters_.insert(found->first);
  }
  return found->second;
}

void State::Spend(const v1::Task& task, double seconds, int64_t at_unix_ms) {
  v1::Submitter& submitter = SubmitterOf(runs_.at(RunNumber(task.run_id())).run());
  Use(seconds, at_unix_ms, submitter);
  Stands(submitter);
}

void State::Stands(const v1::Submitter& submitter) {
  changed_submitters_.insert(submitter.name());
  for (auto& [arch, queue] : queued_) queue.Move(submitter.name(), StandingOf(submitter));
}

void State::LeaveSubmitter(const v1::Run& run) {
  const std::string& name = OwnerOf(run);
  const auto runs = runs_by_submitter_.find(name);
  if (--runs->second > 0) return;
  runs_by_submitter_.erase(runs);
  idle_submitters_.insert(name);
  std::string gone = name;
  if (!run.submitter().empty()) {  // else no other run will be its
    if (idle_submitters_.size() <= kMaxIdleSubmitters) return;
    gone = *std::min_element(idle_submitters_.begin(), idle_submitters_.end(),
                             [&](const std::string& a, const std::string& b) {
                               return StandingOf(submitters_.at(a)) < StandingOf(submitters_.at(b));
                             });
  }
  idle_submitters_.erase(gone);
  submitters_.erase(gone);
  changed_submitters_.insert(gone);
}

void State::On(const v1::RunSubmitted& event) {
  v1::RunRecord run;
  *run.mutable_run() = event.run();
  run.set_request_id(event.request_id());
  if (event.tasks_size() > 0) run.set_arch(event.tasks(0).arch());
  AddRun(RunNumber(event.run().id()), std::move(run));
  if (event.run().weight() > 0) {
    v1::Submitter& submitter = SubmitterOf(event.run());
    submitter.set_weight(event.run().weight());
    Stands(submitter);
  }
  for (const v1::Task& task : event.tasks()) {
    changed_tasks_.insert(task.id());
    v1::TaskRecord& record = tasks_[task.id()];
    *record.mutable_task() = task;
    record.set_policy(event.run().policy());
    Index(record);
  }
}

void State::Remember(int64_t number, v1::ArchivedRun run) {
  if (!run.request_id().empty()) archived_by_request_.emplace(run.request_id(), number);
  archived_[number] = std::move(run);
  changed_archived_.insert(number);
  if (archived_.size() <= kMaxArchivedRuns) return;
  const auto oldest = archived_.begin();
  const auto request = archived_by_request_.find(oldest->second.request_id());
  if (request != archived_by_request_.end() && request->second == oldest->first) {
    archived_by_request_.erase(request);
  }
  changed_archived_.insert(oldest->first);
  archived_.erase(oldest);
}

void State::On(const v1::RunArchived& event) {
  auto node = runs_.extract(RunNumber(event.run_id()));
  WS_CHECK(!node.empty(), "the log archives a run that it did not make: " + event.run_id());
  const int64_t number = node.key();
  v1::RunRecord& run = node.mapped();
  v1::ArchivedRun kept;
  kept.set_set_digest(SetDigestOf(run.run()));
  for (const std::string& id : run.run().task_ids()) {
    auto task = tasks_.extract(id);
    if (task.empty()) continue;  // lost with the store
    Leave(task.mapped());
    changed_tasks_.erase(id);
    *leaving_.add_tasks() = std::move(task.mapped());
  }
  *kept.mutable_run() = run.run();
  kept.mutable_run()->clear_task_ids();
  kept.set_request_id(run.request_id());
  kept.set_tasks(run.run().task_ids_size());
  const auto request = run_by_request_.find(run.request_id());
  if (request != run_by_request_.end() && request->second == number) run_by_request_.erase(request);
  SetOver(number, run.run(), false);
  LeaveSubmitter(run.run());
  counts_.erase(number);
  unbound_.erase(number);
  changed_runs_.erase(number);
  *leaving_.add_runs() = std::move(run);
  Remember(number, std::move(kept));
  ++archived_runs_;
}

void State::On(const v1::RunChanged& event) {
  const auto found = runs_.find(RunNumber(event.run_id()));
  WS_CHECK(found != runs_.end(), "the log changes a run that it did not make: " + event.run_id());
  changed_runs_.insert(found->first);
  v1::RunRecord& run = found->second;
  if (run.arch() != event.arch()) Bind(run, event.arch());
  if (event.has_priority()) Prioritize(run, event.priority());
}

void State::Bind(v1::RunRecord& run, const std::string& arch) {
  run.set_arch(arch);
  unbound_.erase(RunNumber(run.run().id()));
  for (const std::string& id : run.run().task_ids()) {
    v1::TaskRecord& task = Task(id);
    task.mutable_task()->set_arch(arch);
    Index(task);
  }
}

// The run's record alone changes: those that wait go to their new places, the others come to theirs
// when they wait again.
void State::Prioritize(v1::RunRecord& run, int priority) {
  run.mutable_run()->set_priority(priority);
  const auto queue = queued_.find(run.arch());
  if (queue == queued_.end()) return;
  for (const std::string& id : run.run().task_ids()) queue->second.Prioritize(id, priority);
}

void State::On(const v1::WorkerJoined& event) {
  if (has_restored_) CameBack(event, restored_);
  changed_workers_.insert(event.worker().id());
  v1::WorkerRecord& worker = workers_[event.worker().id()];
  if (worker.session_id() != event.session_id()) ++sessions_;
  lost_.erase(event.worker().id());
  worker.set_lost(false);
  worker.set_session_id(event.session_id());
  worker.set_instance(event.instance());
  worker.clear_owner();
  if (event.has_owner()) {
    *worker.mutable_owner() = event.owner();
    worker.mutable_owner()->set_of(event.session_id());
  }
  *worker.mutable_worker() = event.worker();
}

void State::On(const v1::WorkerLost& event) {
  v1::WorkerRecord* worker = Worker(event.worker_id());
  if (worker == nullptr || worker->lost()) return;
  worker->set_lost(true);
  worker->mutable_worker()->set_healthy(false);
  worker->mutable_worker()->set_health_reason(event.reason());
  lost_.insert(event.worker_id());
  if (lost_.size() > kMaxLostWorkers) ForgetWorker();
}

void State::ForgetWorker() {
  // Which of them matters little: it joins again like any other, unless it is set aside.
  auto worst = std::find_if(lost_.begin(), lost_.end(), [&](const std::string& id) {
    return !problem::IsSetAside(workers_.at(id));
  });
  if (worst == lost_.end()) worst = lost_.begin();
  quarantined_.erase(*worst);
  changed_workers_.insert(*worst);
  workers_.erase(*worst);
  lost_.erase(worst);
}

void State::On(const v1::WorkerQuarantined& event) {
  v1::WorkerRecord* worker = Worker(event.worker_id());
  if (worker == nullptr) return;
  worker->set_quarantined(true);
  if (!event.fault().empty()) worker->set_fault(event.fault());
  quarantined_.insert(event.worker_id());
}

void State::On(const v1::WorkerHeld& event) {
  v1::WorkerRecord* worker = Worker(event.worker_id());
  if (worker == nullptr) return;
  worker->set_held(true);
  worker->set_held_reason(event.reason());
}

void State::On(const v1::WorkerReleased& event) {
  v1::WorkerRecord* worker = Worker(event.worker_id());
  if (worker == nullptr) return;
  worker->set_quarantined(false);
  if (event.by_person()) {
    worker->clear_fault();
    worker->clear_ledger();
    worker->clear_held();
    worker->clear_held_reason();
  }
  quarantined_.erase(event.worker_id());
}

void State::On(const v1::LeaseGranted& event, int64_t at_unix_ms) {
  v1::TaskRecord& record = Task(event.task_id());
  Spend(record.task(), event.seconds(), at_unix_ms);
  v1::Task& task = *record.mutable_task();
  task.set_state(v1::LEASED);
  task.set_reason("");
  task.set_fence(event.fence());
  task.set_lease_id(event.lease_id());
  task.set_worker_id(event.worker_id());
  v1::LeaseRecord& lease = *record.mutable_lease();
  lease.set_id(event.lease_id());
  lease.set_fence(event.fence());
  lease.set_worker_id(event.worker_id());
  lease.set_seconds(event.seconds());
  lease.set_revision(revision_);
  lease.set_why(event.why());
  record.set_slice_speedup(task.incumbent_blob().empty() ? 1.0 : task.speedup());
  record.set_last_lease_id(event.lease_id());
  record.clear_last_owner();
  if (event.has_owner()) {
    *record.mutable_last_owner() = event.owner();
    record.mutable_last_owner()->set_of(event.lease_id());
  }
  record.set_heard(0);
  Index(record);
}

void State::Charge(v1::TaskRecord& record, const std::string& worker_id, v1::Blame blame) {
  AddOnce(worker_id, record.mutable_lost_with());
  if (record.lost_with_size() > 1) {
    // Two workers say so: it is the task.
    for (auto& [id, worker] : workers_) {
      if (Names(worker, blame.task_id())) Strike(blame.task_id(), *Worker(id));
    }
    return;
  }
  v1::WorkerRecord* worker = Worker(worker_id);
  if (worker == nullptr || !problem::BlamesWorker(blame.cause())) return;
  Strike(blame.task_id(), *worker);
  *worker->add_ledger() = std::move(blame);
  KeepNewest(worker->mutable_ledger(), kMaxBlames);
}

void State::On(const v1::LeaseEnded& event, int64_t at_unix_ms) {
  v1::TaskRecord& record = Task(event.task_id());
  v1::Task& task = *record.mutable_task();
  const bool badly = event.lost() || event.failed();
  task.set_seconds_spent(task.seconds_spent() + event.seconds());
  task.set_slices(task.slices() + (badly ? 0 : 1));
  if (!problem::SaysNothing(event.cause())) {
    task.set_losses(event.lost() ? task.losses() + 1 : 0);
    record.set_failures(event.failed() ? record.failures() + 1
                        : event.lost() ? record.failures()
                                       : 0);
    if (!badly) record.clear_lost_with();
  }
  if (event.card_failed()) {
    record.set_card_failures(record.card_failures() + 1);
  } else if (event.cause() == v1::FINISHED) {
    record.set_card_failures(0);
  }
  // What was charged for the lease was what it might take.
  Spend(task, event.seconds() - record.lease().seconds(), at_unix_ms);
  const std::string& worker_id = record.lease().worker_id();
  if (badly) {
    v1::Blame blame;
    blame.set_task_id(event.task_id());
    blame.set_cause(event.cause());
    blame.set_at_unix_ms(at_unix_ms);
    Charge(record, worker_id, std::move(blame));
  } else if (const v1::WorkerRecord* worker = FindWorker(worker_id);
             event.cause() == v1::FINISHED && worker != nullptr && !worker->quarantined() &&
             worker->ledger_size() > 0) {
    Worker(worker_id)->clear_ledger();
  }
  if (!event.specialist().empty()) task.set_specialist(event.specialist());
  v1::SliceGain& gain = *task.add_gains();
  gain.set_seconds(event.seconds());
  gain.set_speedup_before(record.slice_speedup());
  gain.set_speedup_after(task.incumbent_blob().empty() ? record.slice_speedup() : task.speedup());
  KeepNewest(task.mutable_gains(), kMaxGains);
  record.clear_lease();
  task.clear_lease_id();
  task.clear_worker_id();
  task.set_state(v1::QUEUED);
  task.set_reason(badly ? event.reason() : "");
  Index(record);
}

void State::On(const v1::ResultAccepted& event) {
  v1::TaskRecord& record = Task(event.task_id());
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
  if (IsOfBefore(record.last_lease_id())) {
    restored_.set_kernels_taken(restored_.kernels_taken() + 1);
  }
  Index(record);
}

void State::On(const v1::TrialsRecorded& event) {
  v1::TaskRecord& record = Task(event.task_id());
  v1::Task& task = *record.mutable_task();
  task.set_trials(task.trials() + event.trials());
  task.set_trials_judged(task.trials_judged() + event.judged());
  if (!event.specialist().empty()) task.set_specialist(event.specialist());
  if (!event.implausible().empty()) task.set_implausible(event.implausible());
  if (IsOfBefore(record.last_lease_id())) TookTrials(event, record.heard(), restored_);
  if (event.first() > 0) {
    task.set_trials_missing(task.trials_missing() + event.first() - 1 - record.heard());
    record.set_heard(event.first() - 1 + event.trials());
  } else {
    *record.add_unnumbered() = event.batch();
    KeepNewest(record.mutable_unnumbered(), kMaxUnnumbered);
  }
  for (const v1::SpecialistCount& count : event.counts()) Add(count, record);
}

void State::On(const v1::TaskMoved& event) {
  v1::TaskRecord& record = Task(event.task_id());
  v1::Task& task = *record.mutable_task();
  if (event.seconds_budget() > 0) task.set_seconds_budget(event.seconds_budget());
  // Back in the queue by a person: the ledgers of blame start anew.
  if (event.state() == v1::QUEUED) {
    task.set_losses(0);
    record.clear_lost_with();
    record.set_failures(0);
    record.set_card_failures(0);
  }
  task.set_alarm(event.alarm());
  task.set_state(event.state());
  task.set_reason(event.reason());
  Index(record);
}

}  // namespace warpsmith::planner
