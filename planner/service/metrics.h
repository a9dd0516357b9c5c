// What the planner counts, for Prometheus; docs/reference/metrics.md lists it.
//
// Counters come from the events that the service decides on, gauges from the changes and the
// picture that boards are drawn from, as often as they are, and from the service at each tick. All
// methods may be called from any thread, each of them from one at a time; Changed and Drawn from
// the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/store/store.h"
#include "common/telemetry/metrics.h"
#include "planner/board/board.h"
#include "planner/core/state.h"
#include "planner/service/outlook.h"

namespace warpsmith::planner {

absl::Span<const telemetry::Metric> PlannerMetricsTable();

// Calls, by Command's index.
inline constexpr const char* kMethods[] = {
    "Synchronize", "Submit",        "SetTask", "CancelRun", "SetPriority",
    "HoldWorker",  "ReleaseWorker", "List",    "GetTask",   "GetBoard"};

// Runs that are told each by itself: those that are not done, else the newest.
inline constexpr size_t kMaxRunsTold = 50;
// Architectures that are told each by itself: those with the most tasks that are not over, then
// with the most workers. What is of further ones is told as "other", and so is what somebody calls
// by one of these two words: tasks that nobody has bound to one are told as "any".
inline constexpr size_t kMaxArchsTold = 31;

class PlannerMetrics {
 public:
  explicit PlannerMetrics(const std::string& version);

  // What there may be at most.
  struct Limits {
    int64_t workers = 0, tasks = 0, uncommitted = 0;
  };
  void Allow(const Limits& limits);
  // After it was applied to `state`.
  void Decided(const v1::Event& event, const State& state);
  // A call has waited so long for its turn; and was answered.
  void TookUp(absl::Duration waited);
  void Answered(size_t method, const absl::Status& status);  // of kMethods
  // One transaction, with its tries.
  void Committed(absl::Duration took, size_t events);
  void CommitFailed();

  struct Standing {
    bool leads = false;                             // and may answer
    int64_t epoch = 0;                              // 0: not known
    int64_t revision = 0, checkpoint_revision = 0;  // the latter: of what was saved
    size_t parked = 0;
    int64_t uncommitted = 0;  // writes
  };
  void Ticked(const Standing& standing);
  void Changed(const Changes& changes, base::Instant now);
  void Drawn(const board::Picture& picture);
  // Sizes of files.
  struct StoreBytes {
    int64_t database = 0, blobs = 0, trials = 0;
  };
  void StoreHas(const StoreBytes& bytes);
  // A step of the collector; and a whole walk.
  void Collected(const store::Swept& swept);
  void Walked(const store::Swept& all);
  telemetry::Metrics& metrics() { return metrics_; }
  std::string Text(base::Instant now);
  // Prometheus' list of targets for its HTTP service discovery: workers that are there and told
  // where their metrics are.
  std::string WorkersJson() const;

 private:
  // What of a worker Prometheus has to know to ask it.
  struct Target {
    std::string address, arch, device;
    std::vector<std::string> labels;
  };
  // What of a task the gauges are made of.
  struct Counted {
    int64_t run = 0;  // its number
    std::string arch;
    v1::TaskState state = v1::TASK_STATE_UNSPECIFIED;
    bool alarm = false, found = false;  // a kernel
    double seconds = 0;
    Outlook outlook;
    base::Instant queued_since = base::Instant::InfiniteFuture();  // for ever: it is not queued
    std::string worker;                                            // that has a lease of it
  };
  void Count(const v1::TaskRecord& record, base::Instant now);
  void DrawArchs(const board::Picture& picture);
  void DrawTasks();
  void DrawRuns(const board::Picture& picture);
  void PublishRestored(const v1::Restored& restored);

  telemetry::Metrics metrics_;
  // Looked up once: some are counted thousands of times a second.
  prometheus::Counter& runs_ = metrics_.Counter("warpsmith_runs_submitted_total");
  prometheus::Counter& tasks_ = metrics_.Counter("warpsmith_tasks_submitted_total");
  prometheus::Counter& joined_ = metrics_.Counter("warpsmith_workers_joined_total");
  prometheus::Counter& quarantined_ = metrics_.Counter("warpsmith_workers_quarantined_total");
  prometheus::Counter& events_ = metrics_.Counter("warpsmith_planner_events_total");
  prometheus::Histogram& commit_seconds_ = metrics_.Histogram("warpsmith_planner_commit_seconds");
  prometheus::Counter& granted_ = metrics_.Counter("warpsmith_leases_granted_total");
  prometheus::Counter& lease_seconds_ = metrics_.Counter("warpsmith_lease_seconds_total");
  prometheus::Counter& recorded_ = metrics_.Counter("warpsmith_trials_recorded_total");
  prometheus::Counter& judged_ = metrics_.Counter("warpsmith_trials_judged_total");
  prometheus::Counter& accepted_ = metrics_.Counter("warpsmith_incumbents_accepted_total");
  prometheus::Counter& log_speedup_ = metrics_.Counter("warpsmith_log_speedup_total");
  prometheus::Histogram& queue_seconds_ = metrics_.Histogram("warpsmith_planner_queue_seconds");
  std::vector<prometheus::Counter*> ended_;  // by cause
  std::vector<prometheus::Counter*> done_;   // calls that went well, by method
  // By id, of all outside the archive: a picture's records are spread over memory, and there may be
  // 100,000.
  absl::flat_hash_map<std::string, Counted> counted_;
  mutable absl::Mutex mutex_;
  base::Instant oldest_since_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfiniteFuture();
  std::map<std::string, Target> targets_ ABSL_GUARDED_BY(mutex_);  // by worker
};

}  // namespace warpsmith::planner
