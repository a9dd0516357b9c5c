#include "planner/simulation/checker.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace warpsmith::planner::simulation {
namespace {

// What the planner promises.
constexpr int64_t kLeaseTtlMs = 30'000;  // at least, and three calls
constexpr int64_t kCallsPerSecond = 500;
constexpr int64_t kParkMs = 30'000;      // an idle call, which counts as heard until it is answered
constexpr int64_t kFailoverMs = 60'000;  // after nobody was heard; at least, and two leases' time
constexpr int kMaxLosses = 3;
constexpr int kMaxCardFailures = 2;
constexpr int kMaxFailures = 3;
constexpr size_t kMaxBlames = 3;
constexpr double kMinSliceSeconds = 2;
// Of a large fleet's runs a look at each task with each grant would take hours.
constexpr size_t kMostLookedAt = 100;
// From the end of a time to the event that says so: a tick, and commits that are tried again.
constexpr int64_t kSlackMs = 10'000;

template <typename... Parts>
std::string Say(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace

Checker::Checker(int64_t workers)
    : most_ttl_ms_(std::max(kLeaseTtlMs, 3'000 * workers / kCallsPerSecond)) {}

void Checker::Fail(const std::string& what) { violations_.push_back(what); }

void Checker::Broken(const std::string& what) {
  if (!over_) Fail(what);
}

Checker::Task* Checker::Find(const std::string& task_id, const char* where) {
  const auto found = tasks_.find(task_id);
  if (found != tasks_.end()) return &found->second;
  Broken(Say(where, " names an unknown task ", task_id));
  return nullptr;
}

Checker::Task* Checker::FindOpen(const std::string& task_id, const char* where) {
  Task* task = Find(task_id, where);
  if (task != nullptr && task->archived) Broken(Say(where, " changes ", task_id, ", archived"));
  return task;
}

bool Checker::CanTake(const Worker& worker, const Task& task) {
  return std::all_of(task.needs.begin(), task.needs.end(),
                     [&](const std::string& label) { return worker.labels.count(label) > 0; });
}

std::string Checker::PassedOver(const Task& task, const std::string& worker_id) {
  const Run& of = runs_[task.run_id];
  const Worker& worker = workers_[worker_id];
  for (const auto& [run_id, run] : runs_) {
    if (run.submitter != of.submitter || run.priority <= of.priority) continue;
    if (run.task_ids.size() > kMostLookedAt) continue;
    for (const std::string& id : run.task_ids) {
      const Task& other = tasks_.at(id);
      const bool waits = !other.live && !other.rest && !other.archived &&
                         other.budget - other.spent >= kMinSliceSeconds;
      if (waits && other.arch == worker.arch && CanTake(worker, other) &&
          other.lost_with.count(worker_id) == 0) {
        return id;
      }
    }
  }
  return "";
}

bool Checker::HasAnother(const Task& task) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const auto& [id, worker] = entry;
    return worker.live && worker.healthy && !worker.quarantined && !worker.held &&
           !worker.draining && worker.arch == task.arch && CanTake(worker, task) &&
           task.lost_with.count(id) == 0;
  });
}

int64_t Checker::OverAt(int64_t heard_ms, int64_t ttl_ms) const {
  const int64_t failover_ms = std::max(kFailoverMs, 2 * most_ttl_ms_);
  return std::max(heard_ms + ttl_ms, deaf_until_ms_ + failover_ms) + kSlackMs;
}

void Checker::Heard(const std::string& worker_id, const std::vector<std::string>& lease_ids,
                    int64_t now_ms) {
  int64_t& heard_ms = workers_[worker_id].heard_ms;
  heard_ms = std::max(heard_ms, now_ms);
  for (const std::string& lease_id : lease_ids) {
    const auto leased = leased_.find(lease_id);
    if (leased == leased_.end()) continue;
    Task& task = leased->second->second;
    if (task.granted.at(task.fence) == worker_id) task.heard_ms = std::max(task.heard_ms, now_ms);
  }
}

void Checker::Granted(const std::string& task_id, int64_t fence, int64_t now_ms) {
  Task* task = Find(task_id, "a grant");
  if (task != nullptr && task->live && task->fence == fence) {
    task->heard_ms = std::max(task->heard_ms, now_ms);
  }
}

void Checker::Ends(const std::string& task_id, int64_t fence, bool interrupted) {
  Task* task = Find(task_id, "an end");
  if (task == nullptr) return;
  task->over.insert(fence);
  if (interrupted) task->interrupted.insert(fence);
}

void Checker::Looked(int64_t now_ms) {
  for (const auto& [lease_id, leased] : leased_) {
    const auto& [id, task] = *leased;
    if (now_ms > OverAt(task.heard_ms, most_ttl_ms_)) {
      Broken(
          Say(id, ": its lease was last heard of ", now_ms - task.heard_ms, " ms ago and lives"));
    }
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.live && now_ms > OverAt(worker.heard_ms, most_ttl_ms_ + 2 * kParkMs)) {
      Broken(Say(id, " was last heard ", now_ms - worker.heard_ms, " ms ago and is not lost"));
    }
  }
}

void Checker::Works(const std::string& process, const std::string& task_id, int64_t fence,
                    int64_t since_ms, int64_t now_ms) {
  Task* task = Find(task_id, "work");
  // A new lease may have been long on the way: half its time passes before the next call settles
  // it.
  if (task == nullptr || now_ms - since_ms <= most_ttl_ms_ / 2) return;
  const auto other = task->started.find(task->fence);
  const bool another = task->live && other != task->started.end() && other->second != process;
  if (another && task->taken_back.count(fence) == 0) {
    Broken(Say(task_id, ": ", process, " works on it under fence ", fence, " and ", other->second,
               " has it under ", task->fence));
  }
}

void Checker::Committed(const v1::Event& event) {
  now_ms_ = event.at_unix_ms();
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
      return On(event.lease_granted());
    case v1::Event::kLeaseEnded:
      return On(event.lease_ended());
    case v1::Event::kResultAccepted:
      return On(event.result_accepted());
    case v1::Event::kTrialsRecorded:
      return On(event.trials_recorded());
    case v1::Event::kTaskMoved:
      return On(event.task_moved());
    case v1::Event::kRunArchived:
      return On(event.run_archived());
    case v1::Event::kResultRefused:
      return Broken("a result is refused as of after a backup, and nothing was restored");
    case v1::Event::EVENT_NOT_SET:
      return Broken("an event of no known kind");
  }
}

void Checker::On(const v1::RunSubmitted& submitted) {
  const v1::Run& run = submitted.run();
  const bool fresh =
      runs_
          .try_emplace(run.id(), Run{run.submitter().empty() ? run.id() : run.submitter(),
                                     run.priority(),
                                     {run.task_ids().begin(), run.task_ids().end()}})
          .second;
  if (!fresh) Broken("a run's id is used twice");
  for (const v1::Task& task : submitted.tasks()) {
    if (tasks_.count(task.id()) > 0) Broken(Say("a task's id is used twice: ", task.id()));
    Task& model = tasks_[task.id()];
    model.arch = task.arch();
    model.run_id = submitted.run().id();
    model.needs.assign(submitted.run().needs().begin(), submitted.run().needs().end());
    model.budget = task.seconds_budget();
  }
}

void Checker::On(const v1::RunChanged& changed) {
  Run& run = runs_[changed.run_id()];
  for (const std::string& id : run.task_ids) {
    Task* task = FindOpen(id, "a change of its run");
    if (task == nullptr || (changed.has_priority() && task->arch == changed.arch())) continue;
    if (!task->arch.empty()) Broken(Say(id, " is bound twice"));
    task->arch = changed.arch();
  }
  if (!changed.has_priority()) return;
  if (changed.priority() == run.priority) Broken(Say(changed.run_id(), ": no other priority"));
  run.priority = changed.priority();
  ++prioritized_;
}

void Checker::On(const v1::WorkerJoined& joined) {
  Worker& worker = workers_[joined.worker().id()];
  worker.arch = joined.worker().arch();
  worker.labels = {joined.worker().labels().begin(), joined.worker().labels().end()};
  worker.live = true;
  worker.draining = joined.worker().draining();
  worker.healthy = joined.worker().healthy();
  worker.said_fault = joined.worker().fault();
  worker.heard_ms = now_ms_;
}

void Checker::On(const v1::WorkerQuarantined& quarantined) {
  ++quarantines_;
  Worker& worker = workers_[quarantined.worker_id()];
  const bool fault = !quarantined.fault().empty();
  if (worker.quarantined && (worker.fault || !fault)) {
    Broken(Say(quarantined.worker_id(), " is quarantined twice"));
  }
  if (!fault && worker.ledger.size() < kMaxBlames) {
    Broken(Say(quarantined.worker_id(), " is quarantined for ", worker.ledger.size(), " tasks"));
  }
  if (fault && quarantined.fault() != worker.said_fault) {
    Broken(Say(quarantined.worker_id(), " is quarantined for a fault that it did not tell"));
  }
  worker.quarantined = true;
  worker.fault = fault;
  faults_ += fault;
}

void Checker::On(const v1::WorkerHeld& held) { workers_[held.worker_id()].held = true; }

void Checker::On(const v1::WorkerReleased& released) {
  Worker& worker = workers_[released.worker_id()];
  if (!worker.quarantined && !(worker.held && released.by_person())) {
    Broken(Say(released.worker_id(), " is released, and was free"));
  }
  if (!released.by_person() && (worker.fault || worker.ledger.size() >= kMaxBlames)) {
    Broken(Say(released.worker_id(), " is released by nobody"));
  }
  worker.quarantined = worker.fault = false;
  if (released.by_person()) {
    worker.held = false;
    worker.ledger.clear();
  }
  lifted_ += !released.by_person();
}

void Checker::On(const v1::WorkerLost& lost) {
  ++lost_count_;
  Worker& worker = workers_[lost.worker_id()];
  worker.live = false;
  if (worker.leases > 0) Broken(Say(lost.worker_id(), " is lost, and holds a lease"));
}

void Checker::On(const v1::LeaseGranted& granted) {
  Task* task = FindOpen(granted.task_id(), "a grant");
  if (task == nullptr) return;
  if (task->live) Broken(Say(granted.task_id(), " has two live leases"));
  if (task->rest) Broken(Say(granted.task_id(), " is granted while at rest"));
  if (granted.fence() <= task->fence) Broken(Say(granted.task_id(), ": its fence does not grow"));
  if (task->spent + granted.seconds() > task->budget + 1e-6) {
    Broken(Say(granted.task_id(), ": ", task->spent, " s spent and ", granted.seconds(),
               " s granted of a budget of ", task->budget));
  }
  Worker& worker = workers_[granted.worker_id()];
  if (!worker.live) Broken(Say(granted.task_id(), " is granted to a worker that is not there"));
  if (!CanTake(worker, *task)) {
    Broken(Say(granted.task_id(), ": ", granted.worker_id(), " has not what it needs"));
  }
  if (worker.arch != task->arch) Broken(Say(granted.task_id(), ": the worker's arch is another"));
  if (task->losses >= kMaxLosses && task->lost_with.size() > 1) {
    Broken(Say(granted.task_id(), " is given to a fourth worker"));
  }
  if (task->lost_with.count(granted.worker_id()) > 0 && HasAnother(*task)) {
    Broken(Say(granted.task_id(), " is given again to ", granted.worker_id(),
               ", which was lost with it"));
  }
  if (worker.quarantined || worker.held || !worker.healthy) {
    Broken(Say(granted.task_id(), " is given to ", granted.worker_id(), ", which is set aside"));
  }
  if (worker.ledger.size() >= kMaxBlames) {
    Broken(Say(granted.worker_id(), " has lost three tasks and is given a fourth"));
  }
  if (task->card_failures >= kMaxCardFailures) {
    Broken(Say(granted.task_id(), " is given on, and ", task->card_failures, " cards failed"));
  }
  if (task->given_up && task->failures >= kMaxFailures && task->lost_with.size() > 1) {
    Broken(Say(granted.task_id(), " has failed ", task->failures, " times and is given on"));
  }
  // What another worker lost comes before all priorities.
  if (const std::string other = PassedOver(*task, granted.worker_id());
      task->lost_with.empty() && !other.empty()) {
    Broken(Say(granted.task_id(), " is granted, and ", other, " has a higher priority"));
  }
  task->live = true;
  ++worker.leases;
  task->lease_id = granted.lease_id();
  leased_[task->lease_id] = &*tasks_.find(granted.task_id());
  task->heard_ms = now_ms_;
  task->fence = granted.fence();
  task->granted[granted.fence()] = granted.worker_id();
}

void Checker::On(const v1::LeaseEnded& ended) {
  Task* task = FindOpen(ended.task_id(), "an end");
  if (task == nullptr) return;
  if (!task->live || ended.fence() != task->fence) {
    Broken(Say(ended.task_id(), ": a lease ends that is not live"));
  }
  const bool taken_back = ended.cause() == v1::TAKEN_BACK;
  const bool leaves = ended.cause() == v1::HANDED_BACK;
  if (!leaves && !taken_back && !ended.lost() && task->interrupted.count(ended.fence()) > 0) {
    Broken(Say(ended.task_id(), " is blamed for what befell a card"));
  }
  if (!ended.lost() && !taken_back && !leaves && task->over.count(ended.fence()) == 0) {
    Broken(Say(ended.task_id(), ": fence ", ended.fence(), " ends, and its worker works on it"));
  }
  lost_count_ += ended.lost();
  Blame(ended.task_id(), *task, ended);
  // Whoever starts anew, or leaves, gives up what it held; anybody else has its time.
  const bool silent = ended.reason().find("no longer speaks") != std::string::npos ||
                      ended.reason().find("fell silent") != std::string::npos;
  if (ended.lost() && silent && now_ms_ < task->heard_ms + kLeaseTtlMs) {
    Broken(Say(ended.task_id(), ": lost ", now_ms_ - task->heard_ms, " ms after it was heard of"));
  }
  if (ended.lost() && silent && task->heard_ms < forgiven_ms_ && forgiven_ms_ <= now_ms_ &&
      now_ms_ < forgiven_ms_ + kFailoverMs) {
    Broken(Say(ended.task_id(), ": lost ", now_ms_ - forgiven_ms_, " ms after nobody was heard"));
  }
  if (task->live) --workers_[task->granted.at(task->fence)].leases;
  leased_.erase(task->lease_id);
  task->live = false;
  task->spent += ended.seconds();
  task->ended.insert(ended.fence());
}

void Checker::Blame(const std::string& task_id, Task& task, const v1::LeaseEnded& ended) {
  const std::string& worker_id = task.granted.at(ended.fence());
  Worker& worker = workers_[worker_id];
  if (ended.cause() == v1::CAUSE_UNSPECIFIED) Broken(Say(task_id, ": a lease ends for no cause"));
  if (ended.cause() == v1::TAKEN_BACK) return;
  if (worker.draining && ended.lost()) Broken(Say(worker_id, " is blamed, and was leaving"));
  if (!worker.said_fault.empty() && ended.lost()) {
    Broken(Say(worker_id, " is blamed, and its card is at fault"));
  }
  if (ended.card_failed() == worker.said_fault.empty() && ended.cause() == v1::HANDED_BACK) {
    Broken(Say(task_id, ": whether ", worker_id, "'s card has failed is told wrong"));
  }
  if (ended.card_failed()) ++task.card_failures;
  if (ended.cause() == v1::FINISHED) task.card_failures = 0;
  if (ended.cause() == v1::HANDED_BACK) {
    const bool interrupted = task.interrupted.count(ended.fence()) > 0;
    if (!worker.draining && worker.said_fault.empty() && !interrupted) {
      Broken(Say(task_id, " is handed back by ", worker_id, ", which stays"));
    }
    return;
  }
  if (!ended.lost()) task.failures = ended.failed() ? task.failures + 1 : 0;
  task.losses = ended.lost() ? task.losses + 1 : 0;
  task.given_up = ended.failed();
  const auto strike = [&](Worker& from) {
    from.ledger.erase(std::remove(from.ledger.begin(), from.ledger.end(), task_id),
                      from.ledger.end());
  };
  if (!ended.lost() && !ended.failed()) {
    task.lost_with.clear();
    if (!worker.quarantined) worker.ledger.clear();
    return;
  }
  task.lost_with.insert(worker_id);
  if (task.lost_with.size() > 1) {
    for (auto& [id, each] : workers_) strike(each);
  } else if (ended.cause() != v1::IMPOSSIBLE) {
    strike(worker);
    worker.ledger.push_back(task_id);
    if (worker.ledger.size() > kMaxBlames) worker.ledger.erase(worker.ledger.begin());
  }
}

void Checker::On(const v1::ResultAccepted& result) {
  Task* task = FindOpen(result.task_id(), "a result");
  if (task == nullptr) return;
  ++accepted_count_;
  if (result.fence() != task->fence) Broken(Say(result.task_id(), ": a result with an old fence"));
  if (!task->accepted.insert(result.incumbent_blob()).second) {
    Broken(Say(result.task_id(), ": ", result.incumbent_blob(), " is accepted twice"));
  }
  if (result.trial_id() != task->trial_id && result.speedup() <= task->speedup &&
      (task->trial_id.empty() || result.beat_trial_id() != task->trial_id)) {
    Broken(Say(result.task_id(), ": the incumbent gets worse, ", task->speedup, " -> ",
               result.speedup()));
  }
  task->trial_id = result.trial_id();
  task->speedup = result.speedup();
  task->highest = std::max(task->highest, task->speedup);
}

void Checker::On(const v1::TrialsRecorded& trials) {
  Task* task = FindOpen(trials.task_id(), "a batch");
  if (task == nullptr) return;
  if (trials.fence() != task->fence) Broken(Say(trials.task_id(), ": a batch with an old fence"));
  int64_t& heard = task->heard[trials.fence()];
  if (trials.first() <= heard) {
    Broken(Say(trials.task_id(), ": trial ", trials.first(), " of fence ", trials.fence(),
               " is recorded twice"));
  }
  heard = trials.first() - 1 + trials.trials();
}

void Checker::On(const v1::TaskMoved& moved) {
  Task* task = FindOpen(moved.task_id(), "a move");
  if (task == nullptr) return;
  if (task->live) Broken(Say(moved.task_id(), " moves while it is leased"));
  task->rest = moved.state() != v1::QUEUED;
  task->state = moved.state();
  if (moved.state() == v1::HELD || moved.state() == v1::CANCELLED) {
    task->taken_back.insert(task->fence);
  }
  if (moved.state() == v1::QUEUED) {
    task->losses = task->failures = task->card_failures = 0;
    task->lost_with.clear();
  }
  const bool cards = task->card_failures >= kMaxCardFailures;
  if (moved.state() == v1::PARKED && task->losses < kMaxLosses && !cards) {
    Broken(Say(moved.task_id(), " is parked after ", task->losses, " losses"));
  }
  if (moved.state() == v1::PARKED && !cards && task->lost_with.size() < 2 && HasAnother(*task)) {
    Broken(Say(moved.task_id(), " is parked for what one worker lost, and there is another"));
  }
  if (moved.state() == v1::FAILED && task->given_up && task->failures >= kMaxFailures &&
      task->lost_with.size() < 2 && HasAnother(*task)) {
    Broken(Say(moved.task_id(), " has failed for what one worker gave up, and there is another"));
  }
  if (moved.seconds_budget() > 0) task->budget = moved.seconds_budget();
  if (moved.state() == v1::CONVERGED && task->speedup < 0) {
    Broken(Say(moved.task_id(), " converged without an incumbent"));
  }
  if (task->rest && moved.reason().empty()) Broken(Say(moved.task_id(), " rests for no reason"));
}

void Checker::On(const v1::RunArchived& archived) {
  ++archived_;
  if (runs_.count(archived.run_id()) == 0) Broken("a run is archived that is none");
  for (auto& [id, task] : tasks_) {
    if (task.run_id != archived.run_id()) continue;
    if (task.live || !task.rest || task.state == v1::HELD) {
      Broken(Say(id, " is archived, and has not come to its end"));
    }
    if (task.archived) Broken(Say(id, " is archived twice"));
    task.archived = true;
  }
}

void Checker::ToldRecorded(const std::string& task_id, const std::string& blob, double speedup,
                           const std::string& beat_trial_id) {
  Task* task = Find(task_id, "a recorded incumbent");
  if (task == nullptr) return;
  // Accepted; or not better than what was (and may since have been measured again, lower), nor the
  // winner of a race against what still is.
  const bool beat = !beat_trial_id.empty() && beat_trial_id == task->trial_id;
  if (task->accepted.count(blob) == 0 && (task->highest < speedup || beat)) {
    Broken(Say(task_id, ": a worker was told that ", blob, " is recorded, and it is not"));
  }
}

void Checker::ToldHeard(const std::string& task_id, int64_t fence, int64_t trials) {
  Task* task = Find(task_id, "recorded trials");
  if (task != nullptr && task->heard[fence] < trials) {
    Broken(Say(task_id, ": a worker was told that trials of fence ", fence, " up to ", trials,
               " are recorded, and they are up to ", task->heard[fence]));
  }
}

void Checker::ToldFinished(const std::string& task_id, int64_t fence) {
  Task* task = Find(task_id, "a finished lease");
  if (task != nullptr && task->ended.count(fence) == 0) {
    Broken(Say(task_id, ": fence ", fence, " is said to have ended, and it has not"));
  }
}

void Checker::ToldStart(const std::string& task_id, int64_t fence, const std::string& worker_id,
                        const std::string& process) {
  Task* task = Find(task_id, "a start");
  if (task == nullptr) return;
  const auto granted = task->granted.find(fence);
  if (granted == task->granted.end() || granted->second != worker_id) {
    Broken(Say(task_id, ": ", worker_id, " starts fence ", fence, ", which it was not granted"));
  }
  const std::string& first = task->started.emplace(fence, process).first->second;
  if (first != process) {
    Broken(Say(task_id, ": fence ", fence, " is started by ", first, " and by ", process));
  }
}

void Checker::ToldSubmitted(const std::string& run_id) {
  if (runs_.count(run_id) == 0) Broken(Say("run ", run_id, " was promised and is not in the log"));
}

void Checker::NobodyWasLost() {
  if (lost_count_ > 0) Broken(Say(lost_count_, " leases and workers were lost by nobody's fault"));
}

void Checker::Ended(const std::map<std::string, Final>& finals) {
  if (finals.size() != tasks_.size()) Broken("tasks were lost or invented");
  for (const auto& [id, task] : tasks_) {
    const auto found = finals.find(id);
    if (found == finals.end()) {
      Broken(Say(id, " is lost"));
      continue;
    }
    const Final& final = found->second;
    if (!task.rest || task.live) Broken(Say(id, " did not come to rest: ", final.state));
    if (final.fence != task.fence) Broken(Say(id, ": the planner's fence is not the log's"));
    if (std::fabs(final.seconds_spent - task.spent) > 1e-6) {
      Broken(Say(id, ": the planner's seconds are not the log's"));
    }
    if (task.speedup >= 0 && final.speedup != task.speedup) {
      Broken(Say(id, ": the planner's incumbent is not the log's"));
    }
  }
}

}  // namespace warpsmith::planner::simulation
