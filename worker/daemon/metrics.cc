#include "worker/daemon/metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "worker/daemon/outbox.h"

namespace warpsmith::daemon {
namespace {

using enum telemetry::MetricKind;

constexpr telemetry::Metric kTable[] = {
    {"warpsmith_worker_info", kGauge, "arch, device", "1; its labels say what it works on."},
    {"warpsmith_worker_busy", kGauge, "", "1 while it works on a lease."},
    {"warpsmith_worker_phase_seconds_total", kCounter, "phase",
     "What its time went into: idle, opening (reference and baselines), search, finalising."},
    {"warpsmith_worker_activity_seconds_total", kCounter, "activity",
     "What its time went into, in another split, which adds up to the time that it runs as well: "
     "idle (no lease), propose (the next candidate, with nothing under way), wait (for compilers, "
     "with nothing to judge), judge (candidates are verified and timed), oracle (opening: the "
     "judge's process and that of call times, inputs, reference and baselines, by PyTorch or "
     "native; "
     "then inputs and answers for candidates). Compilers work beside all of it."},
    {"warpsmith_worker_leases_total", kCounter, "outcome",
     "Leases that it is through with: converged, ended, or failed."},
    {"warpsmith_worker_trials_total", kCounter, "verdict", "Candidates, by what became of them."},
    {"warpsmith_worker_trial_seconds", kHistogram, "",
     "From a candidate's proposal to its verdict."},
    {"warpsmith_worker_judge_seconds_total", kCounter, "", "Of that, time with the judge."},
    {"warpsmith_worker_compile_seconds_total", kCounter, "",
     "Time of compilers; several work at a time."},
    {"warpsmith_worker_incumbents_total", kCounter, "", "Times that the best plan changed."},
    {"warpsmith_worker_calls_total", kCounter, "code", "Calls of the planner."},
    {"warpsmith_worker_call_seconds", kHistogram, "",
     "Calls of the planner that it answered; an idle worker's wait for work."},
    {"warpsmith_worker_heard_timestamp_seconds", kGauge, "",
     "When the planner answered last, in seconds since 1970; 0: never."},
    {"warpsmith_worker_outbox_bytes", kGauge, "", "Results that the planner has not taken yet."},
    {"warpsmith_worker_outbox_limit_bytes", kGauge, "",
     "Where it has that much of them, it drops some."},
    {"warpsmith_worker_healthy", kGauge, "", "0 while its card keeps it from work."},
    {"warpsmith_card_info", kGauge, "uuid, driver",
     "1; its labels say which card it is. This and the following: of cards that NVML knows."},
    {"warpsmith_card_sm_clock_hertz", kGauge, "", "Clock of the multiprocessors."},
    {"warpsmith_card_memory_clock_hertz", kGauge, "", "Clock of the memory."},
    {"warpsmith_card_power_watts", kGauge, "", "What it draws."},
    {"warpsmith_card_power_limit_watts", kGauge, "", "What it may draw."},
    {"warpsmith_card_temperature_celsius", kGauge, "", "How hot it is."},
    {"warpsmith_card_throttled_seconds_total", kCounter, "cause",
     "Time that its clock was held down: by heat, by the board (power supply, machine), for "
     "reliability, by its limit of power."},
    {"warpsmith_card_xid_total", kCounter, "xid",
     "Xid errors, by NVIDIA's number; other: one that the worker's table does not have."},
    {"warpsmith_card_uncorrectable_errors", kGauge, "",
     "Of its memory, since the driver was loaded."},
    {"warpsmith_card_row_remap_pending", kGauge, "",
     "1: a row of its memory is to be replaced when it is reset."},
    {"warpsmith_card_other_processes", kGauge, "",
     "Processes on it that are not the worker's, as far as they can be seen."},
};

// By PhaseOf and ActivityOf.
constexpr const char* kPhases[] = {"idle", "opening", "search", "finalising"};
constexpr const char* kActivities[] = {"idle", "propose", "wait", "judge", "oracle"};
constexpr size_t kIdle = 0, kOpening = 1, kSearch = 2, kFinalising = 3;

size_t PhaseOf(const std::string& specialist) {
  return specialist == "opening" ? kOpening : specialist == "finalising" ? kFinalising : kSearch;
}

size_t ActivityOf(agent::Activity activity) { return static_cast<size_t>(activity) + 1; }

std::string WordOf(v1::Verdict verdict) { return absl::AsciiStrToLower(v1::Verdict_Name(verdict)); }

}  // namespace

absl::Span<const telemetry::Metric> WorkerMetricsTable() { return kTable; }

class WorkerMetrics::CountingReporter : public agent::Reporter {
 public:
  CountingReporter(agent::Reporter& reporter, WorkerMetrics& metrics)
      : reporter_(reporter), metrics_(metrics) {}
  void OnTrial(const v1::Trial& trial) override {
    metrics_.Count(trial);
    reporter_.OnTrial(trial);
  }
  void OnIncumbent(const v1::Incumbent& incumbent) override {
    metrics_.metrics_.Counter("warpsmith_worker_incumbents_total").Increment();
    reporter_.OnIncumbent(incumbent);
  }
  void OnProgress(const std::string& specialist) override {
    metrics_.Enter(PhaseOf(specialist));
    reporter_.OnProgress(specialist);
  }

 private:
  agent::Reporter& reporter_;
  WorkerMetrics& metrics_;
};

WorkerMetrics::WorkerMetrics(const std::string& version, const v1::WorkerInfo& worker,
                             base::Clock* clock)
    : clock_(clock), metrics_(kTable, "worker", version), since_(clock->TimeNow()) {
  metrics_.Gauge("warpsmith_worker_info", {worker.arch(), worker.device_name()}).Set(1);
  metrics_.Gauge("warpsmith_worker_busy").Set(0);
  metrics_.Gauge("warpsmith_worker_healthy").Set(1);
  metrics_.Gauge("warpsmith_worker_heard_timestamp_seconds").Set(0);
  // What never happened is 0, so that its first time is seen as growth.
  for (int verdict = v1::Verdict_MIN + 1; verdict <= v1::Verdict_MAX; ++verdict) {
    metrics_.Counter("warpsmith_worker_trials_total", {WordOf(static_cast<v1::Verdict>(verdict))});
  }
  for (const char* code : {"ok", "unavailable", "deadline_exceeded"}) {
    metrics_.Counter("warpsmith_worker_calls_total", {code});
  }
  for (const char* outcome : {"converged", "ended", "failed"}) {
    metrics_.Counter("warpsmith_worker_leases_total", {outcome});
  }
  for (const char* phase : kPhases) {
    in_phase_.push_back(&metrics_.Counter("warpsmith_worker_phase_seconds_total", {phase}));
  }
  for (const char* activity : kActivities) {
    in_activity_.push_back(
        &metrics_.Counter("warpsmith_worker_activity_seconds_total", {activity}));
  }
  metrics_.Gauge("warpsmith_worker_outbox_limit_bytes").Set(static_cast<double>(kMaxOutboxBytes));
}

Work WorkerMetrics::Metered(Work work) {
  return [this, work = std::move(work)](const v1::Lease& lease, agent::Reporter& reporter,
                                        const std::atomic<bool>& stop) {
    metrics_.Gauge("warpsmith_worker_busy").Set(1);
    Enter(kOpening);
    CountingReporter counting(reporter, *this);
    absl::StatusOr<agent::Outcome> outcome = work(lease, counting, stop);
    Enter(kIdle);
    metrics_.Gauge("warpsmith_worker_busy").Set(0);
    metrics_
        .Counter("warpsmith_worker_leases_total", {!outcome.ok()        ? "failed"
                                                   : outcome->converged ? "converged"
                                                                        : "ended"})
        .Increment();
    return outcome;
  };
}

void WorkerMetrics::Count(const v1::Trial& trial) {
  metrics_.Counter("warpsmith_worker_trials_total", {WordOf(trial.verdict())}).Increment();
  metrics_.Histogram("warpsmith_worker_trial_seconds").Observe(trial.seconds());
  metrics_.Counter("warpsmith_worker_judge_seconds_total").Increment(trial.judge_seconds());
  metrics_.Counter("warpsmith_worker_compile_seconds_total")
      .Increment(trial.report().compile_ms() / 1000);
}

void WorkerMetrics::Enter(size_t phase) {
  absl::MutexLock lock(&mutex_);
  CountUntil(clock_->TimeNow());
  if (phase_ == kIdle || phase == kIdle) {
    activity_ = phase == kIdle ? kIdle : ActivityOf(agent::Activity::kPropose);
    owed_ = 0;
  }
  phase_ = phase;
}

void WorkerMetrics::Do(agent::Activity next, double oracle_seconds) {
  absl::MutexLock lock(&mutex_);
  if (phase_ == kIdle) return;
  owed_ += std::max(0.0, oracle_seconds);
  CountUntil(clock_->TimeNow());
  activity_ = ActivityOf(next);
}

void WorkerMetrics::CountUntil(base::Instant now) {
  double seconds = absl::ToDoubleSeconds(now - since_);
  since_ = now;
  in_phase_[phase_]->Increment(seconds);
  if (activity_ == ActivityOf(agent::Activity::kJudge)) {
    const double of_oracle = std::min(owed_, seconds);
    in_activity_[ActivityOf(agent::Activity::kOracle)]->Increment(of_oracle);
    owed_ -= of_oracle;
    seconds -= of_oracle;
  }
  in_activity_[activity_]->Increment(seconds);
}

void WorkerMetrics::Answered(const absl::Status& status, absl::Duration took) {
  metrics_
      .Counter("warpsmith_worker_calls_total",
               {absl::AsciiStrToLower(absl::StatusCodeToString(status.code()))})
      .Increment();
  if (!status.ok()) return;
  metrics_.Histogram("warpsmith_worker_call_seconds").Observe(absl::ToDoubleSeconds(took));
  metrics_.Gauge("warpsmith_worker_heard_timestamp_seconds")
      .Set(static_cast<double>(absl::ToUnixSeconds(clock_->Date())));
}

void WorkerMetrics::OutboxHas(int64_t bytes) {
  metrics_.Gauge("warpsmith_worker_outbox_bytes").Set(static_cast<double>(bytes));
}

std::string WorkerMetrics::Text() {
  {
    absl::MutexLock lock(&mutex_);
    CountUntil(clock_->TimeNow());
  }
  return metrics_.Text();
}

absl::StatusOr<v1::SynchronizeReply> MeteredLink::Synchronize(const v1::SynchronizeRequest& request,
                                                              absl::Duration timeout) {
  const base::Instant asked = clock_->TimeNow();
  absl::StatusOr<v1::SynchronizeReply> reply = link_.Synchronize(request, timeout);
  metrics_.Answered(reply.status(), clock_->TimeNow() - asked);
  return reply;
}

}  // namespace warpsmith::daemon
