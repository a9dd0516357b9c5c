// What the worker counts, for Prometheus; docs/reference/metrics.md lists it.
//
//   WorkerMetrics metrics(version, "cuda:0", device);
//   MeteredLink link(grpc_link, metrics);       // calls of the planner
//   Work work = metrics.Metered(work);          // leases, trials, and what time goes into
//   settings.on_activity = ... metrics.Do(...)  // the same, as the evaluator has it
//
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/telemetry/metrics.h"
#include "worker/agent/evaluator.h"
#include "worker/daemon/daemon.h"
#include "worker/daemon/planner_link.h"

namespace warpsmith::daemon {

absl::Span<const telemetry::Metric> WorkerMetricsTable();

class WorkerMetrics {
 public:
  // `clock` outlives this.
  WorkerMetrics(const std::string& version, const v1::WorkerInfo& worker, base::Clock* clock);

  // Does `work`, and counts what comes of it. Outlived by this.
  Work Metered(Work work);
  void Answered(const absl::Status& status, absl::Duration took);
  void OutboxHas(int64_t bytes);

  // While there is a lease: that comes next, and of the judge's time until now that is counted, or
  // still to be, the oracle took so many seconds.
  void Do(agent::Activity next, double oracle_seconds);

  // What a scrape is answered: the time split includes that of now.
  std::string Text();
  telemetry::Metrics& metrics() { return metrics_; }

 private:
  class CountingReporter;
  void Count(const v1::Trial& trial);
  // From here on time goes into that phase.
  void Enter(size_t phase);
  void CountUntil(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Clock* const clock_;
  telemetry::Metrics metrics_;
  absl::Mutex mutex_;
  std::vector<prometheus::Counter*> in_phase_, in_activity_;  // seconds
  size_t phase_ ABSL_GUARDED_BY(mutex_) = 0, activity_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the oracle, told and not counted yet: a scrape in the middle of a verdict has counted its
  // time as the judge's, which the next of the judge's makes up for.
  double owed_ ABSL_GUARDED_BY(mutex_) = 0;
  base::Instant since_ ABSL_GUARDED_BY(mutex_);
};

// Another link, whose calls are counted.
class MeteredLink : public PlannerLink {
 public:
  // Both outlive this.
  MeteredLink(PlannerLink& link, WorkerMetrics& metrics, base::Clock* clock)
      : link_(link), metrics_(metrics), clock_(clock) {}
  absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request,
                                                   absl::Duration timeout) override;
  void Cancel() override { link_.Cancel(); }

 private:
  PlannerLink& link_;
  WorkerMetrics& metrics_;
  base::Clock* const clock_;
};

}  // namespace warpsmith::daemon
