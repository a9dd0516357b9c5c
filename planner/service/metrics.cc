#include "planner/service/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/problem/task_state.h"
#include "planner/service/log.h"

namespace warpsmith::planner {
namespace {

using enum telemetry::MetricKind;
using Sample = telemetry::Metrics::Sample;

constexpr telemetry::Metric kTable[] = {
    // The fleet's work.
    {"warpsmith_runs_submitted_total", kCounter, "", "Runs that were submitted."},
    {"warpsmith_tasks_submitted_total", kCounter, "", "Tasks of these."},
    {"warpsmith_leases_granted_total", kCounter, "", "Leases of tasks to workers."},
    {"warpsmith_leases_ended_total", kCounter, "cause",
     "Leases that ended; unheard, superseded, unspoken and overdue ones were lost."},
    {"warpsmith_lease_seconds_total", kCounter, "",
     "Device seconds that leases took of tasks' budgets."},
    {"warpsmith_trials_recorded_total", kCounter, "", "Candidates that were tried."},
    {"warpsmith_trials_judged_total", kCounter, "", "Of these, distinct ones with a verdict."},
    {"warpsmith_incumbents_accepted_total", kCounter, "", "Kernels that became a task's best."},
    {"warpsmith_log_speedup_total", kCounter, "",
     "Sum over these of the natural logarithm of the best's speedup over the one before; a first "
     "one counts by its speedup over the baseline. Over device seconds it is what they gain."},
    {"warpsmith_workers_joined_total", kCounter, "", "Sessions that workers opened."},
    {"warpsmith_workers_lost_total", kCounter, "how",
     "Workers that are not there any more: silent, or left, as they were told to."},
    {"warpsmith_workers_quarantined_total", kCounter, "",
     "Workers that were given nothing more, for what they alone lost or for their cards."},
    {"warpsmith_tasks", kGauge, "arch, state",
     "Tasks outside the archive, by the architecture that they are for; any: the first worker that "
     "takes one says which; other: beyond the 31 with the most that are not over."},
    {"warpsmith_workers", kGauge, "arch, state",
     "Workers: busy, idle, draining, sick, held, quarantined, left or lost; of the latter two "
     "those that are remembered."},
    {"warpsmith_runs", kGauge, "state", "Runs outside the archive, open or done."},
    {"warpsmith_queue_oldest_seconds", kGauge, "",
     "How long the task waits that has waited longest, as far as this planner has seen; 0: none "
     "waits."},
    {"warpsmith_run_speedup_ratio", kGauge, "run",
     "Score against the strongest baseline, as on the board."},
    {"warpsmith_run_expected_ratio", kGauge, "run",
     "What that score would be with what may still be gained by the budgets that are left, as "
     "leases are given out by: an optimistic guess of each task's next slices from its last, for "
     "kernels that were found of tasks that wait or are worked on; never above the limit."},
    {"warpsmith_run_limit_ratio", kGauge, "run",
     "What that score would be with every kernel that was found at the speed of light, launched as "
     "now."},
    {"warpsmith_run_tasks", kGauge, "run, state", "Tasks of the run outside the archive."},
    {"warpsmith_run_device_seconds", kGauge, "run", "Device seconds spent on it."},
    {"warpsmith_restored_workers", kGauge, "",
     "Since a backup was restored: workers that came back from the history before."},
    {"warpsmith_restored_events_missing", kGauge, "",
     "Events of that history after the backup, as far as these workers have heard of them."},
    {"warpsmith_restored_leases_refused", kGauge, "",
     "Leases that these had and that were granted after the backup."},
    {"warpsmith_restored_trials", kGauge, "fate",
     "Trials of leases from before the backup that these brought (taken) or had told after it "
     "(missing), and of later leases (refused)."},
    {"warpsmith_restored_kernels", kGauge, "fate",
     "Kernels that these brought, of leases from before (taken) and after the backup (refused)."},
    {"warpsmith_alarms", kGauge, "", "Tasks outside the archive whose result has to be looked at."},
    // The planner itself.
    {"warpsmith_planner_leads", kGauge, "", "1: it leads; 0: it follows another one."},
    {"warpsmith_planner_epoch", kGauge, "", "The epoch in which it leads; 0: it does not."},
    {"warpsmith_planner_revision", kGauge, "", "Events applied."},
    {"warpsmith_planner_checkpoint_revision", kGauge, "",
     "Events that the last checkpoint has that was saved."},
    {"warpsmith_planner_parked_calls", kGauge, "", "Idle workers' calls that wait for work."},
    {"warpsmith_planner_uncommitted_writes", kGauge, "", "Writes that are not durable yet."},
    {"warpsmith_planner_uncommitted_writes_limit", kGauge, "",
     "From so many on calls are refused."},
    {"warpsmith_planner_workers_limit", kGauge, "",
     "Workers that it takes, each with one call that waits; fewer than 10,000 where it may have "
     "few "
     "file descriptors."},
    {"warpsmith_planner_tasks_limit", kGauge, "", "Tasks that there may be outside the archive."},
    {"warpsmith_planner_store_bytes", kGauge, "part",
     "Size of the store's files: database, blobs (problems and kernels), and trials. Where "
     "planners "
     "share a store the database is Redis' own, and 0 here."},
    {"warpsmith_planner_blob_bytes", kGauge, "use",
     "Problems and kernels as the last walk through them has found them: named by a task, or "
     "unnamed and not removed yet. 0 before the first, which begins minutes after a planner "
     "leads."},
    {"warpsmith_planner_blobs_removed_total", kCounter, "", "Blobs that nothing named any more."},
    {"warpsmith_planner_blob_bytes_removed_total", kCounter, "", "Their bytes."},
    {"warpsmith_planner_calls_total", kCounter, "method, code", "Calls that were answered."},
    {"warpsmith_planner_queue_seconds", kHistogram, "", "From a call's arrival to its turn."},
    {"warpsmith_planner_commit_seconds", kHistogram, "",
     "A transaction of the store, with its tries."},
    {"warpsmith_planner_commit_failures_total", kCounter, "",
     "Tries that the store did not answer or refused."},
    {"warpsmith_planner_events_total", kCounter, "", "Events that became durable."},
};

std::string WordOf(v1::TaskState state) { return absl::AsciiStrToLower(v1::TaskState_Name(state)); }

enum WorkerState { kBusy, kIdle, kDraining, kSick, kHeld, kQuarantined, kLeft, kLost };
constexpr const char* kWorkerStates[] = {"busy", "idle",        "draining", "sick",
                                         "held", "quarantined", "left",     "lost"};

WorkerState StateOf(const v1::WorkerRecord& record, bool busy) {
  if (record.lost()) return record.worker().draining() ? kLeft : kLost;
  if (record.quarantined()) return kQuarantined;
  if (record.held()) return kHeld;
  if (!record.worker().healthy()) return kSick;
  if (record.worker().draining()) return kDraining;
  return busy ? kBusy : kIdle;
}

// One that was told to end says so before it does.
std::string HowLost(const v1::WorkerLost& lost, const State& state) {
  const v1::WorkerRecord* const worker = state.FindWorker(lost.worker_id());
  return worker != nullptr && worker->worker().draining() ? "left" : "silent";
}

using ByTaskState = std::array<double, v1::TaskState_MAX + 1>;
using ByWorkerState = std::array<double, std::size(kWorkerStates)>;

// What there is of one architecture.
struct OfArch {
  ByTaskState tasks = {};
  ByWorkerState workers = {};

  double Workers() const { return std::accumulate(workers.begin(), workers.end(), 0.0); }
  double TasksNotOver() const {
    double sum = 0;
    for (size_t state = 0; state < tasks.size(); ++state) {
      if (!problem::IsOver(static_cast<v1::TaskState>(state))) sum += tasks[state];
    }
    return sum;
  }
  void Add(const OfArch& more) {
    for (size_t state = 0; state < tasks.size(); ++state) tasks[state] += more.tasks[state];
    for (size_t state = 0; state < workers.size(); ++state) workers[state] += more.workers[state];
  }
};

// By the names that they are told by; "" is told as "any".
std::map<std::string, OfArch> Told(const absl::flat_hash_map<std::string, OfArch>& by_arch) {
  constexpr char kAny[] = "any", kOther[] = "other";
  std::vector<std::tuple<double, double, std::string>> order;  // those that come first are less
  for (const auto& [arch, of] : by_arch) {
    if (arch.empty() || arch == kAny || arch == kOther) continue;
    order.emplace_back(-of.TasksNotOver(), -of.Workers(), arch);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kMaxArchsTold));
  // "any" is there in any case, so that who asks for all is told 0.
  std::map<std::string, OfArch> told = {{kAny, {}}};
  for (const auto& [tasks, workers, arch] : order) told[arch] = {};
  for (const auto& [arch, of] : by_arch) {
    const bool named = arch != kAny && told.count(arch) > 0;
    told[arch.empty() ? kAny : named ? arch : kOther].Add(of);
  }
  return told;
}

template <typename Tell>
void EachState(const ByTaskState& counts, const Tell& tell) {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (int state = v1::TaskState_MIN; state <= v1::TaskState_MAX; ++state) {
      all.push_back(WordOf(static_cast<v1::TaskState>(state)));
    }
    return all;
  }();
  for (size_t state = v1::TaskState_MIN + 1; state < counts.size(); ++state) {
    tell(words[state], counts[state]);
  }
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

}  // namespace

absl::Span<const telemetry::Metric> PlannerMetricsTable() { return kTable; }

PlannerMetrics::PlannerMetrics(const std::string& version) : metrics_(kTable, "planner", version) {
  Walked({});
  Collected({});
  // One that follows has no ticks.
  metrics_.Gauge("warpsmith_planner_leads").Set(0);
  metrics_.Gauge("warpsmith_planner_epoch").Set(0);
  // What never happened is 0, so that its first time is seen as growth.
  for (int cause = v1::Cause_MIN; cause <= v1::Cause_MAX; ++cause) {
    ended_.push_back(
        &metrics_.Counter("warpsmith_leases_ended_total", {WordOf(static_cast<v1::Cause>(cause))}));
  }
  for (const char* method : kMethods) {
    done_.push_back(&metrics_.Counter("warpsmith_planner_calls_total", {method, "ok"}));
    for (const char* refused : {"resource_exhausted", "unavailable"}) {
      metrics_.Counter("warpsmith_planner_calls_total", {method, refused});
    }
  }
  for (const char* how : {"silent", "left"}) {
    metrics_.Counter("warpsmith_workers_lost_total", {how});
  }
}

void PlannerMetrics::Allow(const Limits& limits) {
  const auto set = [this](const char* name, int64_t value) {
    metrics_.Gauge(name).Set(static_cast<double>(value));
  };
  set("warpsmith_planner_workers_limit", limits.workers);
  set("warpsmith_planner_tasks_limit", limits.tasks);
  set("warpsmith_planner_uncommitted_writes_limit", limits.uncommitted);
}

void PlannerMetrics::Decided(const v1::Event& event, const State& state) {
  switch (event.event_case()) {
    case v1::Event::kRunSubmitted:
      runs_.Increment();
      tasks_.Increment(event.run_submitted().tasks_size());
      break;
    case v1::Event::kLeaseGranted:
      granted_.Increment();
      break;
    case v1::Event::kLeaseEnded:
      if (v1::Cause_IsValid(event.lease_ended().cause())) {
        ended_[event.lease_ended().cause()]->Increment();
      }
      lease_seconds_.Increment(std::max(0.0, event.lease_ended().seconds()));
      break;
    case v1::Event::kTrialsRecorded:
      recorded_.Increment(static_cast<double>(event.trials_recorded().trials()));
      judged_.Increment(static_cast<double>(event.trials_recorded().judged()));
      break;
    case v1::Event::kResultAccepted: {
      accepted_.Increment();
      const auto task = state.tasks().find(event.result_accepted().task_id());
      if (task == state.tasks().end() || task->second.lessons().empty()) break;
      const v1::Lesson& lesson = *task->second.lessons().rbegin();
      const double gain = std::log(lesson.speedup_after() / lesson.speedup_before());
      if (std::isfinite(gain) && gain > 0) log_speedup_.Increment(gain);
      break;
    }
    case v1::Event::kWorkerJoined:
      if (!event.worker_joined().again()) joined_.Increment();
      break;
    case v1::Event::kWorkerLost:
      metrics_.Counter("warpsmith_workers_lost_total", {HowLost(event.worker_lost(), state)})
          .Increment();
      break;
    case v1::Event::kWorkerQuarantined:
      quarantined_.Increment();
      break;
    default:
      break;
  }
}

void PlannerMetrics::TookUp(absl::Duration waited) { queue_seconds_.Observe(Seconds(waited)); }

void PlannerMetrics::Answered(size_t method, const absl::Status& status) {
  if (status.ok()) return done_[method]->Increment();
  metrics_
      .Counter("warpsmith_planner_calls_total",
               {kMethods[method], absl::AsciiStrToLower(absl::StatusCodeToString(status.code()))})
      .Increment();
}

void PlannerMetrics::Committed(absl::Duration took, size_t events) {
  commit_seconds_.Observe(Seconds(took));
  events_.Increment(static_cast<double>(events));
}

void PlannerMetrics::CommitFailed() {
  metrics_.Counter("warpsmith_planner_commit_failures_total").Increment();
}

void PlannerMetrics::Ticked(const Standing& standing) {
  const auto set = [this](const char* name, double value) { metrics_.Gauge(name).Set(value); };
  set("warpsmith_planner_leads", standing.leads);
  set("warpsmith_planner_epoch", static_cast<double>(standing.epoch));
  set("warpsmith_planner_revision", static_cast<double>(standing.revision));
  set("warpsmith_planner_checkpoint_revision", static_cast<double>(standing.checkpoint_revision));
  set("warpsmith_planner_parked_calls", static_cast<double>(standing.parked));
  set("warpsmith_planner_uncommitted_writes", static_cast<double>(standing.uncommitted));
}

void PlannerMetrics::StoreHas(const StoreBytes& bytes) {
  metrics_.Publish("warpsmith_planner_store_bytes",
                   {{{"database"}, static_cast<double>(bytes.database)},
                    {{"blobs"}, static_cast<double>(bytes.blobs)},
                    {{"trials"}, static_cast<double>(bytes.trials)}});
}

void PlannerMetrics::Collected(const store::Swept& swept) {
  metrics_.Counter("warpsmith_planner_blobs_removed_total")
      .Increment(static_cast<double>(swept.removed));
  metrics_.Counter("warpsmith_planner_blob_bytes_removed_total")
      .Increment(static_cast<double>(swept.removed_bytes));
}

void PlannerMetrics::Walked(const store::Swept& all) {
  metrics_.Publish("warpsmith_planner_blob_bytes",
                   {{{"named"}, static_cast<double>(all.named_bytes)},
                    {{"unnamed"}, static_cast<double>(all.unnamed_bytes)}});
}

void PlannerMetrics::Count(const v1::TaskRecord& record, base::Instant now) {
  const v1::Task& task = record.task();
  Counted& counted = counted_[task.id()];
  counted.run = RunNumber(task.run_id());
  counted.arch = task.arch();
  counted.state = v1::TaskState_IsValid(task.state()) ? task.state() : v1::TASK_STATE_UNSPECIFIED;
  counted.alarm = !task.alarm().empty();
  counted.found = !task.incumbent_blob().empty();
  counted.seconds = task.seconds_spent();
  counted.outlook = OutlookOf(record);
  counted.queued_since = counted.state == v1::QUEUED ? std::min(counted.queued_since, now)
                                                     : base::Instant::InfiniteFuture();
  counted.worker = record.has_lease() ? record.lease().worker_id() : "";
}

void PlannerMetrics::Changed(const Changes& changes, base::Instant now) {
  for (const v1::TaskRecord& record : changes.records.tasks()) Count(record, now);
  for (const v1::TaskRecord& record : changes.archived.tasks()) counted_.erase(record.task().id());
  absl::MutexLock lock(&mutex_);
  for (const v1::WorkerRecord& record : changes.records.workers()) {
    const v1::WorkerInfo& worker = record.worker();
    if (record.lost() || worker.http_address().empty()) {
      targets_.erase(worker.id());
    } else {
      targets_[worker.id()] = {worker.http_address(),
                               worker.arch(),
                               worker.device_name(),
                               {worker.labels().begin(), worker.labels().end()}};
    }
  }
  for (const std::string& id : changes.forgotten) targets_.erase(id);
}

void PlannerMetrics::PublishRestored(const v1::Restored& restored) {
  const auto set = [this](const char* name, int64_t value) {
    metrics_.Gauge(name).Set(static_cast<double>(value));
  };
  set("warpsmith_restored_workers", restored.workers());
  set("warpsmith_restored_events_missing",
      restored.ahead() == 0 ? 0 : restored.last_revision() - restored.revision());
  set("warpsmith_restored_leases_refused", restored.leases_refused());
  metrics_.Publish("warpsmith_restored_trials",
                   {{{"taken"}, static_cast<double>(restored.trials_taken())},
                    {{"missing"}, static_cast<double>(restored.trials_missing())},
                    {{"refused"}, static_cast<double>(restored.trials_refused())}});
  metrics_.Publish("warpsmith_restored_kernels",
                   {{{"taken"}, static_cast<double>(restored.kernels_taken())},
                    {{"refused"}, static_cast<double>(restored.kernels_refused())}});
}

void PlannerMetrics::Drawn(const board::Picture& picture) {
  DrawArchs(picture);
  DrawTasks();
  DrawRuns(picture);
  PublishRestored(picture.restored() == nullptr ? v1::Restored() : *picture.restored());
}

void PlannerMetrics::DrawArchs(const board::Picture& picture) {
  absl::flat_hash_map<std::string, OfArch> by_arch;
  absl::flat_hash_set<absl::string_view> busy;
  for (const auto& [id, task] : counted_) {
    ++by_arch[task.arch].tasks[task.state];
    if (!task.worker.empty()) busy.insert(task.worker);
  }
  for (const auto& [id, record] : picture.workers()) {
    ++by_arch[record.worker().arch()].workers[StateOf(record, busy.contains(id))];
  }
  std::vector<Sample> tasks, workers;
  for (const auto& [name, of] : Told(by_arch)) {
    EachState(of.tasks, [&, arch = name](const std::string& state, double count) {
      tasks.push_back({{arch, state}, count});
    });
    if (of.Workers() == 0) continue;
    for (size_t state = 0; state < of.workers.size(); ++state) {
      workers.push_back({{name, kWorkerStates[state]}, of.workers[state]});
    }
  }
  metrics_.Publish("warpsmith_tasks", tasks);
  metrics_.Publish("warpsmith_workers", workers);
}

void PlannerMetrics::DrawTasks() {
  double alarms = 0;
  base::Instant oldest = base::Instant::InfiniteFuture();
  for (const auto& [id, task] : counted_) {
    alarms += task.alarm;
    oldest = std::min(oldest, task.queued_since);
  }
  metrics_.Gauge("warpsmith_alarms").Set(alarms);
  absl::MutexLock lock(&mutex_);
  oldest_since_ = oldest;
}

void PlannerMetrics::DrawRuns(const board::Picture& picture) {
  struct OfRun {
    Outlook sum;
    double seconds = 0;
    int tasks = 0, found = 0;
    ByTaskState by_state = {};
  };
  absl::flat_hash_map<int64_t, OfRun> by_run;
  for (const auto& [id, task] : counted_) {
    OfRun& run = by_run[task.run];
    ++run.tasks;
    run.found += task.found;
    ++run.by_state[task.state];
    run.seconds += task.seconds;
    run.sum.reached += task.outlook.reached;
    run.sum.expected += task.outlook.expected;
    run.sum.limit += task.outlook.limit;
  }
  std::vector<Sample> speedups, expected, limits, run_tasks, seconds;
  const auto tell = [&](int64_t number, const std::string& id) {
    const OfRun& run = by_run[number];
    const auto mean = [&](double logs) { return run.found > 0 ? std::exp(logs / run.tasks) : 1; };
    speedups.push_back({{id}, mean(run.sum.reached)});
    expected.push_back({{id}, mean(run.sum.expected)});
    limits.push_back({{id}, mean(run.sum.limit)});
    EachState(run.by_state, [&](const std::string& state, double count) {
      run_tasks.push_back({{id, state}, count});
    });
    seconds.push_back({{id}, run.seconds});
  };
  double runs[] = {0, 0};  // open, done
  for (const bool done : {false, true}) {
    for (auto run = picture.runs().rbegin(); run != picture.runs().rend(); ++run) {
      if (run->second.run().done() != done) continue;
      ++runs[done];
      if (speedups.size() < kMaxRunsTold) tell(run->first, run->second.run().id());
    }
  }
  metrics_.Publish("warpsmith_runs", {{{"open"}, runs[false]}, {{"done"}, runs[true]}});
  metrics_.Publish("warpsmith_run_speedup_ratio", speedups);
  metrics_.Publish("warpsmith_run_expected_ratio", expected);
  metrics_.Publish("warpsmith_run_limit_ratio", limits);
  metrics_.Publish("warpsmith_run_tasks", run_tasks);
  metrics_.Publish("warpsmith_run_device_seconds", seconds);
}

std::string PlannerMetrics::Text(base::Instant now) {
  {
    // It grows also where nothing happens.
    absl::MutexLock lock(&mutex_);
    metrics_.Gauge("warpsmith_queue_oldest_seconds")
        .Set(std::max(0.0, Seconds(now - std::min(now, oldest_since_))));
  }
  return metrics_.Text();
}

std::string PlannerMetrics::WorkersJson() const {
  std::map<std::string, Target> targets;
  {
    absl::MutexLock lock(&mutex_);
    targets = targets_;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [id, target] : targets) {
    nlohmann::json labels = {{"worker", id}, {"arch", target.arch}, {"device", target.device}};
    for (const std::string& label : target.labels) {
      const size_t equals = label.find('=');
      std::string name = "label_" + label.substr(0, equals);
      // What Prometheus takes as a label's name.
      for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
      labels[name] = label.substr(equals + 1);
    }
    list.push_back({{"targets", {target.address}}, {"labels", std::move(labels)}});
  }
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace warpsmith::planner
