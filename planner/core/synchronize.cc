// Core::Handle(Synchronize): the one call between worker and planner.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/problem/cause.h"
#include "common/problem/label.h"
#include "common/problem/worker_state.h"
#include "planner/core/allocator.h"
#include "planner/core/core.h"
#include "planner/core/limits.h"
#include "planner/core/owner.h"
#include "planner/core/restored.h"

namespace warpsmith::planner {
namespace {

constexpr double kMaxReportedSeconds = 1e9;
constexpr int64_t kDrainedSyncMs = 10'000;
constexpr size_t kMaxInstance = 64;

// Worker ids and architectures stand in tables and in session ids.
bool IsPlain(const std::string& text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c > ' ' && c < 127 && c != '|'; });
}

double Sane(double seconds) {
  if (!(seconds > 0)) return 0;
  return std::min(seconds, kMaxReportedSeconds);
}

bool SameWorker(const v1::WorkerInfo& a, const v1::WorkerInfo& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

// Equal for the same lease, different for different ones; the worker's search starts from it.
uint64_t SeedOf(const std::string& lease_id) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : lease_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

template <typename List>
bool Contains(const List& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Why what a search ended with is poor or has to be looked at; empty: neither. `by_itself`: not for
// its budget.
std::string AlarmOf(const v1::Task& task, double light, bool by_itself) {
  std::string alarm;
  if (task.speedup() > 0 && task.speedup() < kPoorSpeedup) {
    alarm =
        absl::StrFormat("%.2fx the strongest baseline, %s", task.speedup(), task.baseline_name());
  }
  // On the host caches make the measured bandwidth no limit, and its light no aim.
  if (by_itself && light > 0 && light < kPoorLight && task.best_us() > kShortUs &&
      task.arch() != "host") {
    absl::StrAppend(&alarm, alarm.empty() ? "" : ", ", "far from the speed of light");
  }
  if (!task.implausible().empty()) {
    absl::StrAppend(&alarm, alarm.empty() ? "" : ", ", "to be reviewed: ", task.implausible());
  }
  return alarm;
}

// Whether the process that joins comes after the one that has its name, so that that one has ended.
bool Follows(const Synchronize& command, const std::string& instance) {
  if (command.follows.empty()) return instance.empty();
  return Contains(command.follows, instance);
}

// Of what its worker says that it is through with. What is stopped may fail for that.
v1::Cause CauseOf(const v1::LeaseStatus& status, bool draining) {
  const bool failed = !status.failure().empty();
  if (status.interrupted()) return v1::HANDED_BACK;
  if (failed && status.permanent()) return v1::IMPOSSIBLE;
  if (draining) return v1::HANDED_BACK;
  return failed ? v1::GIVEN_UP : v1::FINISHED;
}

absl::Status CheckRequest(const Synchronize& command) {
  if (!IsPlain(command.worker.id()) || !IsPlain(command.worker.arch())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker id '", command.worker.id(), "' and architecture '", command.worker.arch(),
        "' must be 1 to 200 printable characters without "
        "spaces and '|'"));
  }
  const std::string& http = command.worker.http_address();
  if (!http.empty() && !IsPlain(http)) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", command.worker.id(), ": an address of its metrics has at most ",
                     kMaxNameBytes, " printable characters without spaces and '|'"));
  }
  const auto& labels = command.worker.labels();
  if (absl::Status status =
          problem::CheckLabels("worker " + command.worker.id(), {labels.begin(), labels.end()});
      !status.ok()) {
    return status;
  }
  if (command.slots < 0 || command.slots > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(command.slots, " slots: a worker may have 0 to ", kMaxSlots));
  }
  const auto is_instance = [](const std::string& text) {
    return text.size() <= kMaxInstance && (text.empty() || IsPlain(text));
  };
  if (!is_instance(command.instance) || command.follows.size() > kMaxFollowed ||
      !std::all_of(command.follows.begin(), command.follows.end(), is_instance)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", command.worker.id(), ": an instance has at most ", kMaxInstance,
        " printable characters without spaces and '|', and follows at most ", kMaxFollowed));
  }
  for (const Result& result : command.results) {
    if (result.incumbent.incumbent_blob().empty()) continue;
    const double speedup = result.incumbent.speedup();
    if (result.incumbent.trial_id().empty() || result.incumbent.trial_id().size() > kMaxNameBytes ||
        result.incumbent.beat_trial_id().size() > kMaxNameBytes || !std::isfinite(speedup) ||
        speedup < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker ", command.worker.id(), ", lease ", result.lease_id,
                       ": an incumbent needs a trial id of 1 to ", kMaxNameBytes,
                       " bytes, like the one that it beat, and a finite speedup, not '",
                       result.incumbent.trial_id(), "' and ", speedup));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Core::BeOf(const std::string& store_token, bool archives) {
  store_ = store_token;
  archives_ = archives;
  suffix_ = SuffixOf(store_token);
}

std::string Core::LeaseId(const std::string& task_id, int64_t fence) const {
  return absl::StrCat(task_id, "#", fence, suffix_);
}

bool Core::IsOfLastLease(const Result& result, const v1::TaskRecord& record) const {
  if (result.fence <= 0 || result.fence != record.task().fence()) return false;
  // Of a lease from before ids were kept, the id says no more than task and fence.
  return result.lease_id == (record.last_lease_id().empty()
                                 ? absl::StrCat(record.task().id(), "#", result.fence)
                                 : record.last_lease_id());
}

absl::Status Core::CheckHistory(const Synchronize& command) const {
  if (store_.empty() || command.store != store_ || command.revision <= state_.revision()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "worker ", command.worker.id(), " was answered from event ", command.revision,
      " of this history, and the log ends at ", state_.revision(), ": ",
      command.revision - state_.revision(),
      " events that were durable are gone: bring back a newer copy of the store, or go on "
      "without them by `warpsmith store accept-loss`"));
}

int64_t Core::BusySyncMs() const {
  const double stretched = 1000.0 * state_.LiveWorkers() / options_.sync_calls_per_second;
  return std::max(options_.busy_sync_ms, static_cast<int64_t>(stretched));
}

// Three calls fit into it.
int64_t Core::LeaseTtlMs() const { return std::max(options_.lease_ttl_ms, 3 * BusySyncMs()); }

int64_t Core::OverdueAt(const v1::TaskRecord& record, Now now) const {
  return now.monotonic_ms + kOverdueMs +
         static_cast<int64_t>(1000 * kOverdueFactor * record.lease().seconds());
}

// A session for a process that joins under a name that is free, or that it takes over.
absl::StatusOr<std::string> Core::NewSession(Context& context, const Synchronize& command) {
  const std::string& worker_id = command.worker.id();
  const v1::WorkerRecord* known = state_.FindWorker(worker_id);
  const bool live = known != nullptr && !known->lost();
  if (live && !(Follows(command, known->instance()) && Owns(OwnerOf(*known), command.owner))) {
    return absl::AlreadyExistsError(absl::StrCat(
        "another process is at work under the name '", worker_id,
        "': give this one a --name of its own, or end that one; the name is free once it has been "
        "silent for ",
        (LeaseTtlMs() + options_.park_ms) / 1000, " s"));
  }
  if (!live && state_.LiveWorkers() >= options_.max_workers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this planner has ", state_.LiveWorkers(), " workers, its limit"));
  }
  // The old process is dead. What it held goes on only if the new one lists it.
  const std::set<std::string> held = state_.LeasedBy(worker_id);
  for (const std::string& task_id : held) {
    const v1::TaskRecord& record = *state_.FindTask(task_id);
    const bool listed = std::any_of(
        command.leases.begin(), command.leases.end(), [&](const v1::LeaseStatus& status) {
          return status.lease_id() == record.lease().id() &&
                 status.fence() == record.lease().fence() && Owns(OwnerOf(record), command.owner);
        });
    if (!listed) {
      EndLease(context, record, v1::LeaseStatus(), v1::SUPERSEDED,
               absl::StrCat("worker ", worker_id, " started anew"));
    }
  }
  return absl::StrCat(worker_id, "/", state_.sessions() + 1, suffix_);
}

absl::Status Core::Join(Context& context, const Synchronize& command, SynchronizeAnswer& answer) {
  v1::WorkerInfo info = command.worker;
  info.clear_lease_id();
  info.clear_task_id();
  info.clear_quarantined();
  info.clear_ledger();
  info.clear_held();
  info.clear_held_reason();
  info.clear_lost();
  const v1::WorkerRecord* known = state_.FindWorker(info.id());
  const bool live = known != nullptr && !known->lost();
  std::string session_id = command.session_id;
  if (!session_id.empty()) {
    if (!live || known->session_id() != session_id) {
      return absl::FailedPreconditionError(
          absl::StrCat("session '", session_id, "' of worker ", info.id(),
                       " has ended: join again with an empty session id"));
    }
    if (!Owns(OwnerOf(*known), command.owner)) {
      return absl::PermissionDeniedError(absl::StrCat(
          "the session of worker ", info.id(), " is another's: it began with ",
          known->owner().certificate().empty()
              ? "another secret"
              : absl::StrCat("the certificate of '", known->owner().certificate(), "'"),
          "; give this worker a --name of its own"));
    }
  } else if (live && !command.instance.empty() && command.instance == known->instance() &&
             Owns(OwnerOf(*known), command.owner)) {
    session_id = known->session_id();
  } else {
    auto opened = NewSession(context, command);
    if (!opened.ok()) return opened.status();
    session_id = *std::move(opened);
  }
  // A session that a backup has goes on as another one: so it is known, once, who came back.
  const bool came = state_.restored() != nullptr && command.store != store_ &&
                    SameStore(command.store, store_) && command.store.size() <= kMaxNameBytes;
  if (came && !absl::EndsWith(session_id, suffix_)) {
    session_id = absl::StrCat(info.id(), "/", state_.sessions() + 1, suffix_);
  }
  const bool same = known != nullptr && known->session_id() == session_id;
  const bool fails = !info.fault().empty() && (known == nullptr || known->fault().empty()) &&
                     (known == nullptr || known->worker().fault() != info.fault());
  if (!same || !SameWorker(known->worker(), info) || !Same(OwnerOf(*known), command.owner)) {
    v1::Event event;
    v1::WorkerJoined& joined = *event.mutable_worker_joined();
    *joined.mutable_worker() = info;
    joined.set_session_id(session_id);
    const bool goes_on = same || !command.session_id.empty();
    joined.set_again(same);
    joined.set_instance(goes_on ? known->instance() : command.instance);
    if (!IsNobodys(command.owner)) *joined.mutable_owner() = command.owner;
    if (came && !same) {
      joined.set_came_from(command.store);
      joined.set_came_at(command.revision);
    }
    Emit(context, std::move(event));
  }
  // Said once: who releases it knows what it goes on saying.
  if (fails) {
    v1::Event event;
    event.mutable_worker_quarantined()->set_worker_id(info.id());
    event.mutable_worker_quarantined()->set_fault(info.fault());
    Emit(context, std::move(event));
  }
  worker_deadline_.Set(info.id(), context.now.monotonic_ms + LeaseTtlMs() + options_.park_ms);
  answer.session_id = session_id;
  return absl::OkStatus();
}

void Core::Record(Context& context, const Result& result, const Synchronize& command,
                  SynchronizeAnswer& answer) {
  const v1::TaskRecord* record = state_.FindTask(result.task_id);
  if (record == nullptr || !IsOfLastLease(result, *record) ||
      !Owns(OwnerOf(*record), command.owner)) {
    if (!Contains(answer.drop, result.lease_id)) answer.drop.push_back(result.lease_id);
    const v1::TrialsRecorded& trials = result.trials;
    const int64_t before = std::max<int64_t>(trials.first() - 1, 0);
    return Refuse(context, {result.lease_id, result.task_id, command.worker.id(), trials.trials(),
                            before + trials.trials(), result.incumbent.trial_id()});
  }
  const int64_t first = result.trials.first();
  const bool news = first > 0 ? first > record->heard()
                              : !result.trials.batch().empty() &&
                                    !Contains(record->unnumbered(), result.trials.batch());
  if (news) {
    v1::Event event;
    v1::TrialsRecorded& trials = *event.mutable_trials_recorded();
    trials = result.trials;
    trials.set_task_id(result.task_id);
    trials.set_fence(result.fence);
    Emit(context, std::move(event));
  }
  if (first > 0) answer.heard[result.lease_id] = record->heard();
  if (!Contains(answer.recorded, result.lease_id)) answer.recorded.push_back(result.lease_id);
  if (result.incumbent.incumbent_blob().empty()) return;
  const v1::ResultAccepted& incumbent = result.incumbent;
  const bool again = incumbent.trial_id() == record->incumbent_trial_id();
  const bool better = record->task().incumbent_blob().empty() ||
                      incumbent.beat_trial_id() == record->incumbent_trial_id() ||
                      incumbent.speedup() > record->task().speedup();
  if (!Contains(record->accepted_blobs(), incumbent.incumbent_blob()) && (again || better)) {
    v1::Event event;
    v1::ResultAccepted& accepted = *event.mutable_result_accepted();
    accepted = incumbent;
    accepted.set_task_id(result.task_id);
    accepted.set_fence(result.fence);
    accepted.set_worker_id(command.worker.id());
    Emit(context, std::move(event));
  }
  answer.recorded.push_back(incumbent.trial_id());
}

void Core::Update(Context& context, const v1::LeaseStatus& status, const Synchronize& command,
                  SynchronizeAnswer& answer) {
  const v1::WorkerInfo& worker = command.worker;
  const v1::TaskRecord* record = state_.FindTask(status.task_id());
  const bool over = status.finished();
  const bool own = record != nullptr && Owns(OwnerOf(*record), command.owner);
  const bool current = own && record->has_lease() && record->lease().id() == status.lease_id() &&
                       record->lease().fence() == status.fence() &&
                       record->lease().worker_id() == worker.id();
  if (current && !over) {
    const auto [progress, is_first] = progress_.try_emplace(status.task_id());
    int64_t& overdue = lease_overdue_[status.task_id()];
    if (is_first) overdue = OverdueAt(*record, context.now);
    lease_deadline_.Set(status.task_id(),
                        std::min(context.now.monotonic_ms + LeaseTtlMs(), overdue));
    progress->second = {Sane(status.seconds()), status.specialist()};
    return;
  }
  std::vector<std::string>* list = &answer.drop;
  if (current) {
    EndLease(context, *record, status, CauseOf(status, worker.draining()), status.failure());
    list = &answer.recorded;
  } else if (own && over && status.fence() == record->task().fence()) {
    // Ended already, and nobody was given it since: the answer to the first time was lost.
    list = &answer.recorded;
  }
  if (!Contains(*list, status.lease_id())) list->push_back(status.lease_id());
  if (list == &answer.drop) {
    Refuse(context, {status.lease_id(), status.task_id(), worker.id(), 0, 0, ""});
  }
}

// Counts what is of a lease that the history before has granted. Of another one it is nothing new:
// it was taken from its worker here.
void Core::Refuse(Context& context, const Brought& brought) {
  if (state_.restored() == nullptr) return;
  std::optional<v1::ResultRefused> refused = ToRefuse(brought, *state_.restored());
  if (!refused.has_value()) return;
  v1::Event event;
  *event.mutable_result_refused() = *std::move(refused);
  Emit(context, std::move(event));
}

void Core::EndLease(Context& context, const v1::TaskRecord& record, const v1::LeaseStatus& status,
                    v1::Cause cause, const std::string& reason) {
  const std::string task_id = record.task().id();
  const std::string worker_id = record.lease().worker_id();
  // Whoever was told to leave, or has a card that is at fault, may be gone before it has said all.
  const v1::WorkerRecord* worker = state_.FindWorker(worker_id);
  const bool at_fault = worker != nullptr && !worker->worker().fault().empty();
  if (problem::IsLoss(cause) && worker != nullptr && (worker->worker().draining() || at_fault)) {
    cause = v1::HANDED_BACK;
  }
  const bool lost = problem::IsLoss(cause);
  const auto progress = progress_.find(task_id);
  double seconds = Sane(status.seconds());
  std::string specialist = status.specialist();
  if (progress != progress_.end()) {
    seconds = std::max(seconds, progress->second.seconds);
    if (specialist.empty()) specialist = progress->second.specialist;
  }
  v1::Event event;
  v1::LeaseEnded& ended = *event.mutable_lease_ended();
  ended.set_task_id(task_id);
  ended.set_lease_id(record.lease().id());
  ended.set_fence(record.lease().fence());
  // What a worker gave up was its own time: the task's budget is for work. How often it may be
  // given up is limited besides.
  const bool for_nothing = cause == v1::GIVEN_UP || status.interrupted();
  ended.set_seconds(for_nothing ? 0 : std::max(seconds, kMinChargeSeconds));
  ended.set_lost(lost);
  ended.set_failed(cause == v1::GIVEN_UP || cause == v1::IMPOSSIBLE);
  ended.set_cause(cause);
  ended.set_reason(reason);
  ended.set_specialist(specialist);
  ended.set_card_failed(at_fault && cause == v1::HANDED_BACK);
  ended.set_worker_id(worker_id);
  if (lost) {
    warm_task_.erase(worker_id);
  } else {
    warm_task_[worker_id] = task_id;
  }
  progress_.erase(task_id);
  lease_deadline_.Erase(task_id);
  lease_overdue_.erase(task_id);
  Emit(context, std::move(event));
  Quarantine(context, worker_id);
  Settle(context, *state_.FindTask(task_id), status, cause);
}

// What follows for workers from the end of a lease of this one.
void Core::Quarantine(Context& context, const std::string& worker_id) {
  const v1::WorkerRecord* worker = state_.FindWorker(worker_id);
  if (worker != nullptr && !worker->quarantined() && worker->ledger_size() >= kMaxBlames) {
    v1::Event event;
    event.mutable_worker_quarantined()->set_worker_id(worker_id);
    Emit(context, std::move(event));
  }
  // Others have lost what was in their ledgers.
  const std::set<std::string> quarantined = state_.quarantined();
  for (const std::string& id : quarantined) {
    const v1::WorkerRecord& other = *state_.FindWorker(id);
    if (!other.fault().empty() || other.ledger_size() >= kMaxBlames) continue;
    v1::Event event;
    event.mutable_worker_released()->set_worker_id(id);
    event.mutable_worker_released()->set_reason("others lost what it lost");
    Emit(context, std::move(event));
  }
}

// Whether a task that was lost or given up is too bad to go on: two workers say so, or there is
// nobody else to ask, or cards fail with it.
bool Core::SetAside(Context& context, const v1::TaskRecord& record, v1::Cause cause) {
  const v1::Task& task = record.task();
  const std::string id = task.id();
  if (cause == v1::HANDED_BACK && record.card_failures() >= kMaxCardFailures) {
    Move(context, id, v1::PARKED,
         absl::StrCat("the cards of ", record.card_failures(),
                      " workers failed in a row while they had it: see what they have before it is "
                      "released"));
    return true;
  }
  const bool given_up = cause == v1::GIVEN_UP && record.failures() >= kMaxFailures;
  const bool lost = problem::IsLoss(cause) && task.losses() >= kMaxLosses;
  if (!given_up && !lost) return false;
  if (record.lost_with_size() < 2 && HasAnother(record)) return false;
  if (given_up) {
    Move(context, id, v1::FAILED,
         absl::StrCat(task.reason(), " (", record.failures(), " times in a row)"));
    return true;
  }
  const std::string doing =
      task.specialist().empty() ? "" : absl::StrCat("; last at work: ", task.specialist());
  Move(context, id, v1::PARKED,
       absl::StrCat("it lost its worker ", task.losses(), " times in a row (", task.reason(), doing,
                    ")"));
  return true;
}

// Decides whether a task whose lease just ended goes on.
void Core::Settle(Context& context, const v1::TaskRecord& record, const v1::LeaseStatus& status,
                  v1::Cause cause) {
  const v1::Task& task = record.task();
  const std::string id = task.id();
  if (cause == v1::IMPOSSIBLE) return Move(context, id, v1::FAILED, status.failure());
  if (SetAside(context, record, cause)) return;
  std::string reason;
  const double light = task.best_us() > 0 ? task.light_us() / task.best_us() : 0;
  if (light >= kAtLight) {
    reason = absl::StrFormat("at %.0f %% of the speed of light", 100 * light);
  } else if (status.converged()) {
    reason = status.reason().empty() ? "nothing left to try" : status.reason();
  } else if (NextSlice(task) <= 0) {
    reason = absl::StrFormat("budget of %.0f s spent", task.seconds_budget());
  } else {
    return;
  }
  const std::string alarm = AlarmOf(task, light, status.converged());
  if (task.incumbent_blob().empty()) {
    return Move(context, id, v1::FAILED,
                absl::StrCat(reason, ", and no candidate passed the judge"), 0, alarm);
  }
  if (light > 0 && light < kAtLight) {
    absl::StrAppendFormat(&reason, ", at %.0f %% of the speed of light", 100 * light);
    if (!task.held_by().empty()) absl::StrAppend(&reason, "; held by ", task.held_by());
  }
  Move(context, id, v1::CONVERGED, reason, 0, alarm);
}

void Core::LoseWorker(Context& context, const std::string& worker_id, const std::string& reason) {
  const std::set<std::string> held = state_.LeasedBy(worker_id);
  for (const std::string& task_id : held) {
    EndLease(context, *state_.FindTask(task_id), v1::LeaseStatus(), v1::UNHEARD,
             absl::StrCat("worker ", worker_id, ": ", reason));
  }
  worker_deadline_.Erase(worker_id);
  warm_task_.erase(worker_id);
  v1::Event event;
  event.mutable_worker_lost()->set_worker_id(worker_id);
  event.mutable_worker_lost()->set_reason(reason);
  Emit(context, std::move(event));
}

// Runs that were submitted without an architecture, when no worker was there, get the first one's.
void Core::BindRuns(Context& context, const std::string& arch) {
  if (state_.Queued("").empty()) return;
  std::vector<std::string> unbound;
  for (const int64_t number : state_.unbound()) {
    unbound.push_back(state_.runs().at(number).run().id());
  }
  for (const std::string& run_id : unbound) {
    v1::Event event;
    event.mutable_run_changed()->set_run_id(run_id);
    event.mutable_run_changed()->set_arch(arch);
    Emit(context, std::move(event));
  }
}

// A worker that may take it, and has not lost it or given it up.
bool Core::HasAnother(const v1::TaskRecord& record) const {
  const auto& workers = state_.workers();
  const Needs needs = state_.NeedsOf(record.task());
  return std::any_of(workers.begin(), workers.end(), [&](const auto& entry) {
    const v1::WorkerInfo& worker = entry.second.worker();
    return !entry.second.lost() && !problem::IsSetAside(entry.second) && worker.healthy() &&
           !worker.draining() && worker.arch() == record.task().arch() && Meets(worker, needs) &&
           !Contains(record.lost_with(), worker.id());
  });
}

bool Core::IsForAnother(const v1::TaskRecord& record, const std::string& worker_id) const {
  return Contains(record.lost_with(), worker_id) && HasAnother(record);
}

Grant Core::MakeGrant(const v1::TaskRecord& record) const {
  const v1::Task& task = record.task();
  return Grant{
      .lease_id = record.lease().id(),
      .task_id = task.id(),
      .fence = record.lease().fence(),
      .seconds = record.lease().seconds(),
      .policy = record.policy(),
      .seed = SeedOf(record.lease().id()),
      .problem_blob = task.problem_blob(),
      .workload = task.workload(),
      .incumbent_blob = task.incumbent_blob(),
      .revision = record.lease().revision(),
      .why = record.lease().why(),
  };
}

std::string Core::WhyGranted(const v1::Task& task, const v1::WorkerInfo& worker) const {
  const v1::Run& run = state_.FindRun(task.run_id())->run();
  std::string why = absl::StrFormat(
      "the turn of %s; priority %d; slice %d, of which %.3g in log speedup a second is expected",
      run.submitter().empty() ? run.id() : run.submitter(), run.priority(), task.slices() + 1,
      ExpectedGain(task));
  const auto warm = warm_task_.find(worker.id());
  if (warm != warm_task_.end() && warm->second == task.id()) why += "; it goes on with it";
  if (state_.Doubtful(worker.arch()).count(task.id()) > 0) {
    why = "another worker lost it or gave it up; " + why;
  }
  return why;
}

const std::string* Core::BestFor(const v1::WorkerInfo& worker) const {
  // What another one lost comes first: until somebody else has tried, it counts against that one.
  for (const std::string& task_id : state_.Doubtful(worker.arch())) {
    const v1::TaskRecord& record = *state_.FindTask(task_id);
    if (!Contains(record.lost_with(), worker.id()) &&
        Meets(worker, state_.NeedsOf(record.task()))) {
      return &task_id;
    }
  }
  const auto warm = warm_task_.find(worker.id());
  return state_.Queued(worker.arch())
      .Best(worker, warm == warm_task_.end() ? "" : warm->second, [&](const std::string& task_id) {
        return IsForAnother(*state_.FindTask(task_id), worker.id());
      });
}

bool Core::GrantOne(Context& context, const Synchronize& command, SynchronizeAnswer& answer) {
  const v1::WorkerInfo& worker = command.worker;
  const std::string* best = BestFor(worker);
  if (best == nullptr) return false;
  const std::string task_id = *best;
  const v1::Task& task = state_.FindTask(task_id)->task();
  v1::Event event;
  v1::LeaseGranted& granted = *event.mutable_lease_granted();
  granted.set_task_id(task_id);
  granted.set_fence(task.fence() + 1);
  granted.set_lease_id(LeaseId(task_id, granted.fence()));
  granted.set_worker_id(worker.id());
  granted.set_seconds(NextSlice(task));
  granted.set_why(WhyGranted(task, worker));
  if (!IsNobodys(command.owner)) *granted.mutable_owner() = command.owner;
  Emit(context, std::move(event));
  const v1::TaskRecord& record = *state_.FindTask(task_id);
  lease_deadline_.Set(task_id, context.now.monotonic_ms + LeaseTtlMs());
  lease_overdue_[task_id] = context.now.monotonic_ms + kUnheardTtls * LeaseTtlMs();
  answer.start.push_back(MakeGrant(record));
  return true;
}

// Whether it may be granted a lease in answer to this call.
bool Core::Takes(const Synchronize& command) const {
  return !command.worker.draining() && command.worker.healthy() && command.slots > 0 &&
         !problem::IsSetAside(*state_.FindWorker(command.worker.id()));
}

// What a worker is told of it.
std::string Core::SetAsideFor(const std::string& worker_id) const {
  const v1::WorkerRecord& worker = *state_.FindWorker(worker_id);
  std::string why;
  if (!worker.fault().empty()) {
    why = absl::StrCat("its card is at fault: ", worker.fault());
  } else if (worker.quarantined()) {
    why = absl::StrCat(kMaxBlames, " different tasks in a row were lost or given up here: ",
                       problem::TextOf(worker.ledger()));
  } else if (worker.held()) {
    why = absl::StrCat("held by a person", worker.held_reason().empty() ? "" : ": ",
                       worker.held_reason());
  } else {
    return "";
  }
  return absl::StrCat(why, "; `warpsmith release ", worker_id, "` gives it work again");
}

// `takes`: Takes(command).
void Core::GrantLeases(Context& context, const Synchronize& command, bool takes,
                       SynchronizeAnswer& answer) {
  // What it was given and does not list: the reply was lost, and is said again. The worker counts
  // the lease's time from this call, so it has that here, or is not said.
  const int64_t until = context.now.monotonic_ms + LeaseTtlMs();
  for (const std::string& task_id : state_.LeasedBy(command.worker.id())) {
    const v1::TaskRecord& record = *state_.FindTask(task_id);
    const bool listed = std::any_of(
        command.leases.begin(), command.leases.end(),
        [&](const v1::LeaseStatus& status) { return status.lease_id() == record.lease().id(); });
    if (listed || lease_overdue_[task_id] < until) continue;
    if (!Owns(OwnerOf(record), command.owner)) continue;
    lease_deadline_.Set(task_id, until);
    answer.start.push_back(MakeGrant(record));
  }
  if (command.session_id.empty() || !takes) return;
  BindRuns(context, command.worker.arch());
  while (static_cast<int>(answer.start.size()) < command.slots &&
         GrantOne(context, command, answer)) {
  }
}

Outcome<SynchronizeAnswer> Core::Handle(const Synchronize& command, Now now) {
  if (absl::Status status = CheckRequest(command); !status.ok()) return {{}, status};
  if (absl::Status status = CheckHistory(command); !status.ok()) return {{}, status};
  Context context{now, {}};
  SynchronizeAnswer answer;
  if (absl::Status status = Join(context, command, answer); !status.ok()) {
    return {std::move(context.events), status};
  }
  const std::string& worker_id = command.worker.id();
  for (const Result& result : command.results) Record(context, result, command, answer);
  for (const v1::LeaseStatus& status : command.leases) {
    Update(context, status, command, answer);
  }
  const bool takes = Takes(command);
  GrantLeases(context, command, takes, answer);

  const bool idle = state_.LeasedBy(worker_id).empty();
  answer.lease_ttl_ms = LeaseTtlMs();
  answer.next_sync_after_ms = !idle ? BusySyncMs() : takes ? 0 : kDrainedSyncMs;
  answer.park = idle && takes && !command.session_id.empty() && answer.drop.empty() &&
                answer.recorded.empty() && answer.heard.empty();
  answer.set_aside = SetAsideFor(worker_id);
  if (idle && command.worker.draining()) LoseWorker(context, worker_id, "it left");
  answer.store = store_;
  answer.revision = state_.revision();
  return {std::move(context.events), std::move(answer)};
}

}  // namespace warpsmith::planner
