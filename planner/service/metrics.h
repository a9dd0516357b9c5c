// What the planner counts, for Prometheus; docs/reference/metrics.md lists it.
//
// Counters come from the events that the service decides on, gauges from the picture that boards
// are drawn from, as often as they are, and from the service at each tick. All methods may be
// called from any thread, each of them from one at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/telemetry/metrics.h"
#include "planner/board/board.h"
#include "planner/core/state.h"

namespace warpsmith::planner {

absl::Span<const telemetry::Metric> PlannerMetricsTable();

// Calls, by Command's index.
inline constexpr const char* kMethods[] = {
    "Synchronize", "Submit",        "SetTask", "CancelRun", "SetPriority",
    "HoldWorker",  "ReleaseWorker", "List",    "GetTask",   "GetBoard"};

// Runs that are told each by itself: those that are not done, else the newest.
inline constexpr size_t kMaxRunsTold = 50;

class PlannerMetrics {
 public:
  explicit PlannerMetrics(const std::string& version);

  // After it was applied to `state`.
  void Decided(const v1::Event& event, const State& state);
  // A call has waited so long for its turn; and was answered.
  void TookUp(absl::Duration waited);
  void Answered(size_t method, const absl::Status& status);  // of kMethods
  // One transaction, with its tries.
  void Committed(absl::Duration took, size_t events);
  void CommitFailed();

  struct Standing {
    bool leads = false;  // and may answer
    int64_t epoch = 0;   // 0: not known
    int64_t revision = 0, checkpoint_revision = 0;
    size_t parked = 0;
    int64_t uncommitted = 0;  // writes
  };
  void Ticked(const Standing& standing);
  void Changed(const Changes& changes, base::Instant now);
  void Drawn(const board::Picture& picture);
  void StoreHas(int64_t bytes);
  telemetry::Metrics& metrics() { return metrics_; }
  std::string Text(base::Instant now);
  // Prometheus' list of targets for its HTTP service discovery: workers that are there and told
  // where their metrics are.
  std::string WorkersJson() const;

 private:
  void PublishRestored(const v1::Restored& restored);

  telemetry::Metrics metrics_;
  // What is counted some thousand times a second is looked up once.
  prometheus::Counter& granted_ = metrics_.Counter("warpsmith_leases_granted_total");
  prometheus::Counter& lease_seconds_ = metrics_.Counter("warpsmith_lease_seconds_total");
  prometheus::Counter& recorded_ = metrics_.Counter("warpsmith_trials_recorded_total");
  prometheus::Counter& judged_ = metrics_.Counter("warpsmith_trials_judged_total");
  prometheus::Counter& accepted_ = metrics_.Counter("warpsmith_incumbents_accepted_total");
  prometheus::Counter& log_speedup_ = metrics_.Counter("warpsmith_log_speedup_total");
  prometheus::Histogram& queue_seconds_ = metrics_.Histogram("warpsmith_planner_queue_seconds");
  std::vector<prometheus::Counter*> ended_;            // by cause
  std::vector<prometheus::Counter*> done_;             // calls that went well, by method
  std::map<std::string, base::Instant> queued_since_;  // by task, of those that are queued
  mutable absl::Mutex mutex_;
  base::Instant oldest_since_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfiniteFuture();
  std::string workers_json_ ABSL_GUARDED_BY(mutex_) = "[]";
};

}  // namespace warpsmith::planner
