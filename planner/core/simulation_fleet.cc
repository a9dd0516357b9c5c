#include "planner/core/simulation_fleet.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpsmith::planner::simulation {
namespace {

constexpr int64_t kFaultyMs = 400'000;    // then faults stop
constexpr int64_t kLimitMs = 20'000'000;  // by then all must be at rest
constexpr int64_t kStepMs = 250;          // of a worker's work
constexpr int64_t kCallTimeoutMs = 40'000;

// What a lease is about, by what its worker is told of it.
std::string WorkOf(const std::string& problem_blob, const std::string& workload) {
  return absl::StrCat(problem_blob, ":", workload);
}
std::string WorkOf(const Grant& grant) { return WorkOf(grant.problem_blob, grant.workload); }

}  // namespace

Simulation::Simulation(uint64_t seed) : random_(seed) {
  // Some seeds are quiet, some stormy, each in its own way.
  const auto some = [&](double most) {
    return Chance(0.3) ? 0.0 : most * std::uniform_real_distribution<>(0, 1)(random_);
  };
  faults_.planner_crash = some(0.05);
  faults_.worker_death = some(0.02);
  faults_.worker_pause = some(0.02);
  faults_.lost_message = some(0.2);
  faults_.late_message = some(0.1);
  faults_.repeated_message = some(0.1);
  const int workers = static_cast<int>(Between(1, 6));
  for (int i = 0; i < workers; ++i) {
    Worker worker;
    worker.id = absl::StrCat("w", i);
    worker.arch = i > 0 && Chance(0.3) ? "host" : "sm_90a";
    worker.next_call_ms = Between(0, 3000);
    workers_.push_back(std::move(worker));
  }
  submits_left_ = static_cast<int>(Between(1, 3));
}

void Simulation::At(int64_t at_ms, std::function<void()> action) {
  agenda_[{at_ms, ++order_}] = std::move(action);
}

void Simulation::Trace(const std::string& what) {
  if (trace_) std::fprintf(stderr, "%9.3f %s\n", now_ms_ / 1000.0, what.c_str());
}

// ---- planner -----------------------------------------------------------------------------------

void Simulation::Recover() {
  core_ = std::make_unique<Core>(options_);
  core_->Restore(snapshot_);
  for (size_t i = snapshot_.revision(); i < log_.size(); ++i) core_->Replay(log_[i]);
  clock_offset_ms_ = Between(0, 1'000'000);
  core_->Start({now_ms_ + clock_offset_ms_, now_ms_});
  Trace(absl::StrCat("planner is up at revision ", core_->state().revision()));
}

void Simulation::Crash() {
  ++crashes_;
  ++generation_;
  Trace(absl::StrCat("planner dies, ", pending_.size(), " commits with it"));
  core_ = nullptr;
  pending_.clear();
  commit_scheduled_ = false;
  for (auto& [id, parked] : parked_) {
    Deliver(parked.call, absl::UnavailableError("connection reset"));
  }
  parked_.clear();
  At(now_ms_ + Between(100, 30'000), [this] { Recover(); });
}

void Simulation::ScheduleCommit() {
  if (commit_scheduled_) return;
  commit_scheduled_ = true;
  At(now_ms_ + Between(0, 30), [this, generation = generation_] {
    if (generation != generation_) return;
    commit_scheduled_ = false;
    std::deque<Pending> batch = std::move(pending_);
    pending_.clear();
    for (const Pending& pending : batch) {
      for (const v1::Event& event : pending.events) {
        checker_.Committed(event);
        log_.push_back(event);
        Trace(absl::StrCat("  ", event.ShortDebugString()));
      }
    }
    // Written between two batches, when nothing is pending: the state is that of the log.
    if (pending_.empty() && Chance(0.05)) snapshot_ = core_->state().ToProto();
    for (const Pending& pending : batch) pending.answer();
  });
}

void Simulation::Answer(const Call& call, absl::StatusOr<SynchronizeAnswer> reply,
                        std::vector<v1::Event> events) {
  pending_.push_back({std::move(events), [this, call, reply = std::move(reply)] {
                        if (Chance(faults_.lost_message)) return;
                        At(now_ms_ + Between(0, 50), [this, call, reply] { Deliver(call, reply); });
                      }});
  ScheduleCommit();
}

void Simulation::Receive(Call call) {
  if (core_ == nullptr) return Deliver(call, absl::UnavailableError("connection refused"));
  auto outcome = core_->Handle(call.request, {now_ms_ + clock_offset_ms_, now_ms_});
  if (outcome.reply.ok() && outcome.reply->park) {
    pending_.push_back({std::move(outcome.events), [] {}});
    ScheduleCommit();
    call.request.results.clear();
    parked_[call.id] = {call, now_ms_ + Between(options_.park_ms / 2, options_.park_ms)};
  } else {
    Answer(call, std::move(outcome.reply), std::move(outcome.events));
  }
  WakeParked();
}

void Simulation::WakeParked() {
  if (core_ == nullptr) return;
  for (auto it = parked_.begin(); it != parked_.end();) {
    const bool due = it->second.until_ms <= now_ms_;
    if (!due && !core_->HasWorkFor(it->second.call.request.worker.arch())) {
      ++it;
      continue;
    }
    auto outcome = core_->Handle(it->second.call.request, {now_ms_ + clock_offset_ms_, now_ms_});
    if (!due && outcome.reply.ok() && outcome.reply->park) {
      ++it;
      continue;
    }
    Answer(it->second.call, std::move(outcome.reply), std::move(outcome.events));
    it = parked_.erase(it);
  }
}

void Simulation::TickPlanner() {
  At(now_ms_ + 1000, [this] { TickPlanner(); });
  if (core_ == nullptr) return;
  if (now_ms_ < kFaultyMs && Chance(faults_.planner_crash)) return Crash();
  auto outcome = core_->Handle(Tick{}, {now_ms_ + clock_offset_ms_, now_ms_});
  pending_.push_back({std::move(outcome.events), [] {}});
  ScheduleCommit();
  if (submits_left_ > 0 && Chance(0.1)) SubmitSet();
  // A person, now and then.
  if (now_ms_ < kFaultyMs && Chance(0.005) && !core_->state().tasks().empty()) {
    auto it = core_->state().tasks().begin();
    std::advance(it, Between(0, core_->state().tasks().size() - 1));
    SetTask command{it->first, Chance(0.3) ? v1::HELD : v1::QUEUED, "a person said so"};
    auto set = core_->Handle(command, {now_ms_ + clock_offset_ms_, now_ms_});
    pending_.push_back({std::move(set.events), [] {}});
  }
  WakeParked();
}

void Simulation::SubmitSet() {
  Submit submit;
  submit.name = "set";
  submit.policy = "rules";
  submit.seconds_per_task = static_cast<double>(Between(2, 60));
  submit.request_id = absl::StrCat("request ", submits_left_);
  if (!Chance(0.3)) submit.arch = "sm_90a";
  const int count = static_cast<int>(Between(1, 8));
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("p", submits_left_, "_", i);
    Submit::Problem& problem = submit.problems.emplace_back(Submit::Problem{name, name, {}});
    const int workloads = i % 3 == 2 ? 3 : 1;  // the same each time that it is said
    for (int w = 0; w < workloads; ++w) {
      problem.workloads.push_back(absl::StrCat("w", w));
      natures_[WorkOf(name, workloads > 1 ? problem.workloads[w] : "")] = DrawNature();
    }
  }
  auto outcome = core_->Handle(submit, {now_ms_ + clock_offset_ms_, now_ms_});
  if (!outcome.reply.ok()) return;  // several architectures: say it with one next time
  const std::string run_id = outcome.reply->id();
  pending_.push_back({std::move(outcome.events), [this, run_id] {
                        checker_.ToldSubmitted(run_id);
                        // Until it has heard of success the client says it again.
                        if (!Chance(faults_.lost_message)) --submits_left_;
                      }});
  ScheduleCommit();
}

Simulation::Nature Simulation::DrawNature() {
  Nature nature;
  nature.light_us = 10;
  nature.best_speedup = Chance(0.1) ? 0 : std::uniform_real_distribution<>(0.5, 10)(random_);
  nature.find_rate = std::uniform_real_distribution<>(0.05, 1)(random_);
  nature.kills = Chance(0.15) ? 0.5 : 0;
  nature.fails = Chance(0.15) ? 0.7 : 0;
  nature.permanent = Chance(0.5);
  return nature;
}

bool Simulation::AllAtRest() const {
  if (core_ == nullptr || submits_left_ > 0 || !pending_.empty()) return false;
  const auto& runs = core_->state().runs();
  return std::all_of(runs.begin(), runs.end(),
                     [](const auto& entry) { return entry.second.run().done(); });
}

// ---- workers -----------------------------------------------------------------------------------

void Simulation::Die(Worker& worker) {
  ++deaths_;
  Trace(worker.id + " dies");
  worker.held.clear();
  worker.session_id.clear();
  worker.call = 0;
  ++worker.incarnation;
  worker.asleep_until = now_ms_ + Between(500, 60'000);
  worker.next_call_ms = worker.asleep_until;
}

void Simulation::Work(Worker& worker, Held& held) {
  const Nature& nature = natures_.at(WorkOf(held.grant));
  const double step = kStepMs / 1000.0;
  if (held.spent == 0 && Chance(nature.fails)) {
    held.over = true;
    held.end.set_finished(true);
    held.end.set_failure("cannot work on it");
    held.end.set_permanent(nature.permanent);
    held.spent = 0.5;
    return;
  }
  held.spent += step;
  if (Chance(nature.find_rate * step) && held.speedup < nature.best_speedup) {
    // At times the one before is measured again, or something slower is sent.
    const bool again = held.speedup > 0 && Chance(0.1);
    if (!again) {
      ++trials_;
      held.speedup +=
          (nature.best_speedup - held.speedup) * std::uniform_real_distribution<>(0.1, 1)(random_);
    }
    Result result;
    result.lease_id = held.grant.lease_id;
    result.task_id = held.grant.task_id;
    result.fence = held.grant.fence;
    const double speedup = Chance(0.1) ? held.speedup / 2 : held.speedup;
    result.incumbent.set_trial_id(absl::StrCat("t", trials_));
    result.incumbent.set_speedup(speedup);
    result.incumbent.set_incumbent_blob(absl::StrCat("t", trials_, "=", speedup, "@", now_ms_));
    result.incumbent.set_best_us(100 / speedup);
    result.incumbent.set_light_us(nature.light_us);
    if (Chance(0.7)) {
      result.trials.set_batch_blob(absl::StrCat("batch ", worker.id, " ", now_ms_));
      result.trials.set_trials(3);
    }
    held.unsent.push_back(std::move(result));
  }
  if (held.spent >= held.grant.seconds) {
    held.over = true;
    held.end.set_finished(true);
  } else if (held.speedup > 0 && Chance(0.005)) {
    held.over = true;
    held.end.set_finished(true);
    held.end.set_converged(true);
  }
}

void Simulation::TickWorker(Worker& worker) {
  At(now_ms_ + kStepMs, [this, &worker] { TickWorker(worker); });
  if (now_ms_ < worker.asleep_until) return;
  const double seconds = kStepMs / 1000.0;
  const bool faulty = now_ms_ < kFaultyMs;
  if (faulty && Chance(faults_.worker_death * seconds)) return Die(worker);
  if (faulty && Chance(faults_.worker_pause * seconds)) {
    worker.asleep_until = now_ms_ + Between(1000, 150'000);
    Trace(worker.id + " pauses");
    return;
  }
  bool news = false;
  for (auto& [id, held] : worker.held) {
    if (held.over) continue;
    if (Chance(natures_.at(WorkOf(held.grant)).kills * seconds)) return Die(worker);
    Work(worker, held);
    news = news || held.over;
  }
  if (worker.call != 0 && now_ms_ >= worker.call_deadline_ms) {
    worker.call = 0;
    worker.next_call_ms = now_ms_ + Between(0, 2000);
  }
  if (worker.call == 0 && (news || now_ms_ >= worker.next_call_ms)) Send(worker);
}

void Simulation::Send(Worker& worker) {
  Call call;
  call.id = ++calls_;
  call.worker_id = worker.id;
  call.incarnation = worker.incarnation;
  Synchronize& request = call.request;
  request.worker.set_id(worker.id);
  request.worker.set_arch(worker.arch);
  request.worker.set_healthy(true);
  request.session_id = worker.session_id;
  int busy = 0;
  for (const auto& [id, held] : worker.held) {
    v1::LeaseStatus status = held.end;
    status.set_lease_id(id);
    status.set_task_id(held.grant.task_id);
    status.set_fence(held.grant.fence);
    status.set_seconds(held.spent);
    status.set_specialist("memory");
    request.leases.push_back(status);
    request.results.insert(request.results.end(), held.unsent.begin(), held.unsent.end());
    busy += !held.over;
  }
  request.slots = std::max(0, 2 - busy);
  worker.call = call.id;
  worker.call_deadline_ms = now_ms_ + kCallTimeoutMs;
  if (Chance(faults_.lost_message)) return;
  const int64_t delay = Chance(faults_.late_message) ? Between(0, 120'000) : Between(0, 50);
  At(now_ms_ + delay, [this, call] { Receive(call); });
  if (Chance(faults_.repeated_message)) {
    At(now_ms_ + Between(0, 120'000), [this, call] { Receive(call); });
  }
}

void Simulation::Deliver(const Call& call, const absl::StatusOr<SynchronizeAnswer>& reply) {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const Worker& w) { return w.id == call.worker_id; });
  Worker& worker = *found;
  // Nobody waits for it any more.
  if (worker.incarnation != call.incarnation || worker.call != call.id) return;
  if (now_ms_ < worker.asleep_until) {
    At(worker.asleep_until, [this, call, reply] { Deliver(call, reply); });
    return;
  }
  worker.call = 0;
  if (reply.ok()) return Learn(worker, call, *reply);
  if (reply.status().code() == absl::StatusCode::kFailedPrecondition) worker.session_id.clear();
  worker.next_call_ms = now_ms_ + Between(100, 3000);
}

void Simulation::Learn(Worker& worker, const Call& call, const SynchronizeAnswer& answer) {
  worker.session_id = answer.session_id;
  worker.next_call_ms = now_ms_ + answer.next_sync_after_ms;
  const auto has = [](const std::vector<std::string>& list, const std::string& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const Result& sent : call.request.results) {
    if (!has(answer.recorded, sent.lease_id)) continue;
    if (!sent.trials.batch_blob().empty()) {
      checker_.ToldBatchRecorded(sent.task_id, sent.trials.batch_blob());
    }
    if (!has(answer.recorded, sent.incumbent.trial_id())) continue;
    checker_.ToldRecorded(sent.task_id, sent.incumbent.incumbent_blob(), sent.incumbent.speedup());
    const auto held = worker.held.find(sent.lease_id);
    if (held == worker.held.end()) continue;
    std::vector<Result>& unsent = held->second.unsent;
    unsent.erase(std::remove_if(unsent.begin(), unsent.end(),
                                [&](const Result& result) {
                                  return result.incumbent.incumbent_blob() ==
                                         sent.incumbent.incumbent_blob();
                                }),
                 unsent.end());
  }
  for (const v1::LeaseStatus& sent : call.request.leases) {
    if (!sent.finished() || !has(answer.recorded, sent.lease_id())) continue;
    checker_.ToldFinished(sent.task_id(), sent.fence());
    worker.held.erase(sent.lease_id());
  }
  for (const std::string& lease_id : answer.drop) {
    refusals_ += static_cast<int>(worker.held.erase(lease_id));
  }
  for (const Grant& grant : answer.start) {
    checker_.ToldStart(grant.task_id, grant.fence, worker.id);
    if (worker.held.count(grant.lease_id) > 0) continue;
    Held& held = worker.held[grant.lease_id];
    held.grant = grant;
  }
}

std::vector<std::string> Simulation::Run() {
  Recover();
  At(0, [this] { TickPlanner(); });
  for (Worker& worker : workers_) At(0, [this, &worker] { TickWorker(worker); });
  while (checker_.violations().empty() && now_ms_ < kLimitMs) {
    const auto next = agenda_.begin();
    now_ms_ = next->first.first;
    const std::function<void()> action = std::move(next->second);
    agenda_.erase(next);
    if (now_ms_ >= kFaultyMs && (faults_.lost_message > 0 || faults_.late_message > 0)) {
      faults_ = Faults{};
    }
    action();
    if (now_ms_ >= kFaultyMs && AllAtRest()) break;
  }
  if (!checker_.violations().empty()) return checker_.violations();
  std::map<std::string, Checker::Final> finals;
  if (core_ != nullptr) {
    for (const auto& [id, record] : core_->state().tasks()) {
      const v1::Task& task = record.task();
      finals[id] = {v1::TaskState_Name(task.state()), task.speedup(), task.fence(),
                    task.seconds_spent()};
    }
  }
  checker_.Ended(finals);
  std::vector<std::string> violations = checker_.violations();
  State replayed;
  for (const v1::Event& event : log_) replayed.Apply(event);
  if (core_ != nullptr &&
      replayed.ToProto().SerializeAsString() != core_->state().ToProto().SerializeAsString()) {
    violations.push_back("the log applied to an empty state does not give the planner's state");
  }
  return violations;
}

}  // namespace warpsmith::planner::simulation
