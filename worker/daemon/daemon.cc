#include "worker/daemon/daemon.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/problem/task_name.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "worker/daemon/log.h"

namespace warpsmith::daemon {
namespace {

using telemetry::Log;

// As much as a time of seconds is worth in a line.
double Tenths(double seconds) { return std::round(10 * seconds) / 10; }

bool IsPermanent(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnimplemented(status);
}

// The planner answers that it does not know the worker: it has lost what it knew of it, or has
// given it up.
bool SessionIsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnauthenticated(status) || absl::IsAborted(status);
}

}  // namespace

// What the optimiser finds goes to the outbox at once; incumbents are told without delay.
class Daemon::LeaseReporter : public agent::Reporter {
 public:
  LeaseReporter(Daemon& daemon, base::Instant started) : daemon_(daemon), started_(started) {}

  void OnTrial(const v1::Trial& trial) override {
    Log(told::kTrial, {{"trial", trial.id()},
                       {"verdict", absl::AsciiStrToLower(v1::Verdict_Name(trial.verdict()))},
                       {"reason", trial.reason()},
                       {"run", problem::RunOf(trial.task_id())},
                       {"task", trial.task_id()},
                       {"lease", problem::LeaseOf(trial.id())},
                       {"parent", trial.parent_id()},
                       {"specialist", trial.specialist()},
                       {"action", trial.action()},
                       {"seconds", trial.seconds()}});
    absl::MutexLock lock(&daemon_.mutex_);
    if (daemon_.interrupted_.empty()) daemon_.session_.OnTrial(trial);
  }
  void OnIncumbent(const v1::Incumbent& incumbent) override {
    const v1::Trial& trial = incumbent.trial();
    Log(told::kBetter, {{"trial", trial.id()},
                        {"best_us", incumbent.times().device_us()},
                        {"speedup", incumbent.speedup()},
                        {"run", problem::RunOf(trial.task_id())},
                        {"task", trial.task_id()},
                        {"lease", problem::LeaseOf(trial.id())},
                        {"specialist", trial.specialist()},
                        {"action", trial.action()}});
    absl::MutexLock lock(&daemon_.mutex_);
    if (!daemon_.interrupted_.empty()) return;
    daemon_.session_.OnIncumbent(incumbent);
    daemon_.News();
  }
  void OnProgress(const std::string& specialist) override {
    absl::MutexLock lock(&daemon_.mutex_);
    daemon_.session_.Progress(specialist,
                              absl::ToDoubleSeconds(daemon_.clock_->TimeNow() - started_));
  }

 private:
  Daemon& daemon_;
  const base::Instant started_;
};

Daemon::Daemon(v1::WorkerInfo worker, Lineage& lineage, Outbox& outbox, PlannerLink& link,
               Work work, base::Clock* clock, uint64_t seed)
    : link_(link),
      work_(std::move(work)),
      clock_(clock),
      session_(std::move(worker), lineage, outbox),
      turned_(clock->TimeNow()),
      free_(turned_),
      random_(seed) {}

absl::Status Daemon::Run() {
  std::thread worker([this] { WorkOnLeases(); });
  Communicate();
  worker.join();
  absl::MutexLock lock(&mutex_);
  return result_;
}

void Daemon::Drain(absl::Duration limit) {
  {
    absl::MutexLock lock(&mutex_);
    BeginDrain(limit);
  }
  link_.Cancel();  // an idle worker's call is parked at the planner
}

bool Daemon::Well() {
  absl::MutexLock lock(&mutex_);
  const base::Instant now = clock_->TimeNow();
  if (!working_ || !stop_lease_) free_ = now;
  return now - turned_ <= kMaxTurn && now - free_ <= kMaxEnding;
}

void Daemon::SetHealth(const Health& health) {
  absl::MutexLock lock(&mutex_);
  healthy_ = health.healthy;
  session_.set_health(health);
  if (!healthy_) InterruptLease(health.reason);
  News();
}

void Daemon::Interrupt(const std::string& why) {
  absl::MutexLock lock(&mutex_);
  InterruptLease(why);
}

void Daemon::InterruptLease(const std::string& why) {
  if (!session_.holds_lease() || !interrupted_.empty()) return;
  Log(told::kInterrupting, {{"reason", why}, {"lease", session_.lease_id()}});
  interrupted_ = why;
  stop_lease_ = true;
}

void Daemon::BeginDrain(absl::Duration limit) {
  draining_ = true;
  session_.set_draining();
  stop_lease_ = true;
  drain_by_ = std::min(drain_by_, clock_->TimeNow() + limit);
  News();
}

void Daemon::Fail(const absl::Status& status) {
  result_.Update(status);
  BeginDrain(kDrainLimit);
}

// ---- the lease ----------------------------------------------------------------------------------

void Daemon::WorkOnLeases() {
  while (true) {
    v1::Lease lease;
    {
      absl::MutexLock lock(&mutex_);
      auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_ || to_start_; };
      mutex_.Await(absl::Condition(&ready));
      if (!to_start_) return;
      lease = *std::exchange(to_start_, std::nullopt);
      working_ = true;
    }
    WorkOn(lease);
  }
}

void Daemon::WorkOn(const v1::Lease& lease) {
  Log(told::kLeaseBegun, {{"lease", lease.id()},
                          {"task", lease.task_id()},
                          {"seconds", lease.seconds()},
                          {"run", problem::RunOf(lease.task_id())},
                          {"fence", lease.fence()},
                          {"revision", lease.revision()},
                          {"why", lease.why()},
                          {"start", lease.incumbent().trial().id()}});
  const base::Instant started = clock_->TimeNow();
  LeaseReporter reporter(*this, started);
  absl::StatusOr<agent::Outcome> outcome = work_(lease, reporter, stop_lease_);

  absl::MutexLock lock(&mutex_);
  working_ = false;
  Ended ended;
  ended.seconds = absl::ToDoubleSeconds(clock_->TimeNow() - started);
  if (!interrupted_.empty()) {
    ended.interrupted = true;
    ended.reason = std::exchange(interrupted_, "");
    Log(told::kLeaseInterrupted, {{"lease", lease.id()},
                                  {"seconds", Tenths(ended.seconds)},
                                  {"reason", ended.reason},
                                  {"run", problem::RunOf(lease.task_id())},
                                  {"task", lease.task_id()}});
  } else if (outcome.ok()) {
    ended.converged = outcome->converged;
    ended.reason = outcome->reason;
    failed_tasks_.clear();
    Log(told::kLeaseDone, {{"lease", lease.id()},
                           {"reason", outcome->reason},
                           {"seconds", Tenths(ended.seconds)},
                           {"trials", outcome->trials},
                           {"judged", outcome->judged},
                           {"first_plan_seconds", Tenths(outcome->first_plan_seconds)},
                           {"held_by", outcome->held_by},
                           {"run", problem::RunOf(lease.task_id())},
                           {"task", lease.task_id()},
                           {"converged", outcome->converged}});
  } else {
    ended.status = outcome.status();
    ended.permanent = IsPermanent(outcome.status());
    Log(told::kLeaseFailed, {{"lease", lease.id()},
                             {"how", ended.permanent ? "for good" : "for now"},
                             {"reason", ended.status.message()},
                             {"run", problem::RunOf(lease.task_id())},
                             {"task", lease.task_id()},
                             {"seconds", Tenths(ended.seconds)}});
    if (ended.permanent) {
      failed_tasks_.clear();
    } else {
      failed_tasks_.insert(lease.task_id());
    }
  }
  session_.End(ended);
  News();
  if (failed_tasks_.size() >= kMaxFailedTasks) {
    Fail(absl::InternalError(absl::StrCat(
        kMaxFailedTasks,
        " tasks in a row failed here, the last one with: ", std::string(ended.status.message()))));
  }
}

// ---- the planner --------------------------------------------------------------------------------

void Daemon::Communicate() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (true) {
        const base::Instant now = turned_ = clock_->TimeNow();
        if (Over(now)) {
          over_ = true;
          return;
        }
        if (now >= FenceAt()) {
          Log(told::kFenced, {{"lease", session_.lease_id()}});
          stop_lease_ = true;
        }
        if (now >= next_sync_) break;
        wake_ = false;
        clock_->AwaitWithDeadline(&mutex_, absl::Condition(&wake_),
                                  std::min({next_sync_, FenceAt(), drain_by_}));
      }
    }
    absl::Duration timeout;
    const v1::SynchronizeRequest request = NextRequest(&timeout);
    const base::Instant sent = clock_->TimeNow();
    Answered(link_.Synchronize(request, timeout), sent);
  }
}

v1::SynchronizeRequest Daemon::NextRequest(absl::Duration* timeout) {
  absl::MutexLock lock(&mutex_);
  news_ = false;
  const base::Instant now = clock_->TimeNow();
  last_sync_ = now;
  v1::SynchronizeRequest request = session_.Request();
  // Only a call without a lease is parked; any other must not outlast the lease.
  *timeout = absl::Milliseconds(rpc::kCallTimeoutMs);
  if (request.slots() > 0) *timeout += absl::Milliseconds(rpc::kParkMs);
  *timeout = std::max(std::min(*timeout, FenceAt() - now), kMinBackoff);
  if (draining_) *timeout = std::max(std::min(*timeout, drain_by_ - now), kMinBackoff);
  return request;
}

void Daemon::Answered(const absl::StatusOr<v1::SynchronizeReply>& reply, base::Instant sent) {
  absl::MutexLock lock(&mutex_);
  const base::Instant now = clock_->TimeNow();
  if (!reply.ok()) return NotAnswered(reply.status());
  if (planner_away_) Log(told::kPlannerBack, {});
  planner_away_ = false;
  backoff_ = kMinBackoff;
  told_draining_ = draining_ && !news_;

  const bool held = session_.holds_lease();
  Session::Orders orders = session_.Take(*reply, sent, now);
  next_sync_ = now + std::min(orders.next_sync, kMaxSyncInterval);
  spread_ = std::min(orders.next_sync, kMaxSpread);
  SetAside(orders.set_aside);
  if (held && orders.stop && !stop_lease_) {
    Log(told::kWantedBack, {{"lease", session_.lease_id()}});
    stop_lease_ = true;
  }
  if (orders.start) {
    stop_lease_ = draining_;
    to_start_ = std::move(orders.start);
    if (!healthy_) InterruptLease("it came as the worker fell sick");
  }
  if (news_ || session_.more_to_tell()) News();
}

void Daemon::NotAnswered(const absl::Status& status) {
  if (absl::IsCancelled(status)) return;  // by Drain, which has set next_sync_
  if (SessionIsGone(status)) session_.Forget();
  if (absl::IsDeadlineExceeded(status)) session_.Late();
  if (absl::IsInvalidArgument(status)) {
    // Said again it is as wrong. Without the results in it the worker can go on; if it is wrong
    // without any, it cannot.
    const int results = session_.Refused();
    if (results == 0) return Fail(status);
    Log(told::kResultsRefused, {{"batches", results}, {"reason", status.message()}});
  }
  Backoff(status, clock_->TimeNow());
}

void Daemon::SetAside(const std::string& why) {
  const bool set_aside = !why.empty();
  if (set_aside == set_aside_) return;
  set_aside_ = set_aside;
  if (set_aside) {
    Log(told::kSetAside, {{"reason", why}});
  } else {
    Log(told::kGivenWork, {});
  }
}

void Daemon::Backoff(const absl::Status& status, base::Instant now) {
  if (!planner_away_) {
    Log(absl::IsAlreadyExists(status) ? told::kNotTaken : told::kPlannerAway,
        {{"reason", status.message()}});
  }
  const bool was_there = !std::exchange(planner_away_, true);
  const double share = std::uniform_real_distribution<>(0.5, 1.0)(random_);
  const std::optional<absl::Duration> told = rpc::RetryAfter(status);
  absl::Duration pause = backoff_ * share;
  // A whole fleet has lost its planner in this moment: it comes back as it called before.
  if (was_there && absl::IsUnavailable(status)) {
    pause = std::max(pause, spread_ * std::uniform_real_distribution<>()(random_));
  }
  if (told) pause = std::min(*told, kMaxRetryAfter) * (0.5 + share);
  next_sync_ = now + pause;
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
}

void Daemon::News() {
  news_ = wake_ = true;
  if (!planner_away_) next_sync_ = std::min(next_sync_, last_sync_ + kMinSyncInterval);
}

bool Daemon::Over(base::Instant now) {
  if (!draining_) return false;
  if (now >= drain_by_) return true;
  // What is not told is in the outbox, for the worker that is started next.
  return !session_.holds_lease() && (planner_away_ || (told_draining_ && session_.settled()));
}

base::Instant Daemon::FenceAt() {
  return stop_lease_ ? base::Instant::InfiniteFuture() : session_.FenceAt();
}

}  // namespace warpsmith::daemon
