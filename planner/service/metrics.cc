#include "planner/service/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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
    {"warpsmith_tasks", kGauge, "state", "Tasks outside the archive."},
    {"warpsmith_workers", kGauge, "arch, state",
     "Workers: busy, idle, draining, sick, held, quarantined, left or lost; of the latter two "
     "those "
     "that are remembered."},
    {"warpsmith_runs", kGauge, "state", "Runs outside the archive, open or done."},
    {"warpsmith_queue_oldest_seconds", kGauge, "",
     "How long the task waits that has waited longest, as far as this planner has seen; 0: none "
     "waits."},
    {"warpsmith_run_speedup_ratio", kGauge, "run",
     "Score against the strongest baseline, as on the board."},
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
     "Events that the last checkpoint has that was asked for."},
    {"warpsmith_planner_parked_calls", kGauge, "", "Idle workers' calls that wait for work."},
    {"warpsmith_planner_uncommitted_writes", kGauge, "", "Writes that are not durable yet."},
    {"warpsmith_planner_store_bytes", kGauge, "", "Size of the folder with the store."},
    {"warpsmith_planner_calls_total", kCounter, "method, code", "Calls that were answered."},
    {"warpsmith_planner_queue_seconds", kHistogram, "", "From a call's arrival to its turn."},
    {"warpsmith_planner_commit_seconds", kHistogram, "",
     "A transaction of the store, with its tries."},
    {"warpsmith_planner_commit_failures_total", kCounter, "",
     "Tries that the store did not answer or refused."},
    {"warpsmith_planner_events_total", kCounter, "", "Events that became durable."},
};

std::string WordOf(v1::TaskState state) { return absl::AsciiStrToLower(v1::TaskState_Name(state)); }

// All that StateOf may say.
constexpr const char* kWorkerStates[] = {"busy", "idle",        "draining", "sick",
                                         "held", "quarantined", "left",     "lost"};

std::string StateOf(const v1::WorkerRecord& record, bool busy) {
  if (record.lost()) return record.worker().draining() ? "left" : "lost";
  if (record.quarantined()) return "quarantined";
  if (record.held()) return "held";
  if (!record.worker().healthy()) return "sick";
  if (record.worker().draining()) return "draining";
  return busy ? "busy" : "idle";
}

// One that was told to end says so before it does.
std::string HowLost(const v1::WorkerLost& lost, const State& state) {
  const v1::WorkerRecord* const worker = state.FindWorker(lost.worker_id());
  return worker != nullptr && worker->worker().draining() ? "left" : "silent";
}

// How much quicker it would be at the speed of light: what launching takes stays.
double Room(const v1::Task& task) {
  const double light = task.light_us(), device = task.best_us();
  if (light <= 0 || device <= light) return 1;
  const double launching = std::max(0.0, task.graph_us() - device);
  return (launching + device) / (launching + light);
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

}  // namespace

absl::Span<const telemetry::Metric> PlannerMetricsTable() { return kTable; }

PlannerMetrics::PlannerMetrics(const std::string& version) : metrics_(kTable, "planner", version) {
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

void PlannerMetrics::Decided(const v1::Event& event, const State& state) {
  const auto count = [this](const char* name, double by = 1) {
    metrics_.Counter(name).Increment(by);
  };
  switch (event.event_case()) {
    case v1::Event::kRunSubmitted:
      count("warpsmith_runs_submitted_total");
      count("warpsmith_tasks_submitted_total", event.run_submitted().tasks_size());
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
      if (!event.worker_joined().again()) count("warpsmith_workers_joined_total");
      break;
    case v1::Event::kWorkerLost:
      metrics_.Counter("warpsmith_workers_lost_total", {HowLost(event.worker_lost(), state)})
          .Increment();
      break;
    case v1::Event::kWorkerQuarantined:
      count("warpsmith_workers_quarantined_total");
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
  metrics_.Histogram("warpsmith_planner_commit_seconds").Observe(Seconds(took));
  metrics_.Counter("warpsmith_planner_events_total").Increment(static_cast<double>(events));
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

void PlannerMetrics::StoreHas(int64_t bytes) {
  metrics_.Gauge("warpsmith_planner_store_bytes").Set(static_cast<double>(bytes));
}

void PlannerMetrics::Changed(const Changes& changes, base::Instant now) {
  for (const v1::TaskRecord& record : changes.records.tasks()) {
    if (record.task().state() == v1::QUEUED) {
      queued_since_.emplace(record.task().id(), now);
    } else {
      queued_since_.erase(record.task().id());
    }
  }
  for (const v1::TaskRecord& record : changes.archived.tasks()) {
    queued_since_.erase(record.task().id());
  }
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
  std::map<std::string, double> tasks, runs = {{"open", 0}, {"done", 0}};
  using ByState = std::array<double, v1::TaskState_MAX + 1>;
  ByState by_state = {};
  struct OfRun {
    double logs = 0, limits = 0, seconds = 0;
    int tasks = 0, with_incumbent = 0;
    ByState by_state = {};
  };
  std::map<std::string, OfRun> by_run;
  std::set<absl::string_view> busy;
  const std::string* last_run = nullptr;  // a run's tasks come one after the other
  OfRun* of_run = nullptr;
  double alarms = 0;
  for (const auto& [id, record] : picture.tasks()) {
    const v1::Task& task = record.task();
    alarms += !task.alarm().empty();
    if (record.has_lease()) busy.insert(record.lease().worker_id());
    if (last_run == nullptr || *last_run != task.run_id()) {
      last_run = &task.run_id();
      of_run = &by_run[task.run_id()];
    }
    OfRun& run = *of_run;
    ++run.tasks;
    if (v1::TaskState_IsValid(task.state())) {
      ++by_state[task.state()];
      ++run.by_state[task.state()];
    }
    run.seconds += task.seconds_spent();
    if (task.incumbent_blob().empty()) continue;
    ++run.with_incumbent;
    run.logs += std::log(std::max(1.0, task.speedup()));
    run.limits += std::log(std::max(1.0, task.speedup() * Room(task)));
  }
  const auto each_state = [](const ByState& counts, const auto& tell) {
    for (int state = v1::TaskState_MIN + 1; state <= v1::TaskState_MAX; ++state) {
      tell(WordOf(static_cast<v1::TaskState>(state)), counts[state]);
    }
  };
  each_state(by_state, [&](const std::string& state, double count) { tasks[state] = count; });
  const auto samples_of = [](const std::map<std::string, double>& counts) {
    std::vector<Sample> samples;
    for (const auto& [state, count] : counts) samples.push_back({{state}, count});
    return samples;
  };
  metrics_.Publish("warpsmith_tasks", samples_of(tasks));
  metrics_.Gauge("warpsmith_alarms").Set(alarms);

  std::vector<Sample> speedups, limits, run_tasks, seconds;
  const auto tell = [&](const std::string& id) {
    const OfRun& run = by_run[id];
    const auto mean = [&](double logs) {
      return run.with_incumbent > 0 ? std::exp(logs / run.tasks) : 1;
    };
    speedups.push_back({{id}, mean(run.logs)});
    limits.push_back({{id}, mean(run.limits)});
    each_state(run.by_state, [&](const std::string& state, double count) {
      run_tasks.push_back({{id, state}, count});
    });
    seconds.push_back({{id}, run.seconds});
  };
  for (const bool open : {true, false}) {
    for (auto run = picture.runs().rbegin(); run != picture.runs().rend(); ++run) {
      if (run->second.run().done() == open) continue;
      ++runs[open ? "open" : "done"];
      if (speedups.size() < kMaxRunsTold) tell(run->second.run().id());
    }
  }
  metrics_.Publish("warpsmith_runs", samples_of(runs));
  metrics_.Publish("warpsmith_run_speedup_ratio", speedups);
  metrics_.Publish("warpsmith_run_limit_ratio", limits);
  metrics_.Publish("warpsmith_run_tasks", run_tasks);
  metrics_.Publish("warpsmith_run_device_seconds", seconds);

  std::map<std::string, std::map<std::string, double>> workers;  // by architecture and state
  nlohmann::json targets = nlohmann::json::array();
  for (const auto& [id, record] : picture.workers()) {
    const v1::WorkerInfo& worker = record.worker();
    const auto [of_arch, is_new] = workers.try_emplace(worker.arch());
    if (is_new) {
      for (const char* state : kWorkerStates) of_arch->second[state] = 0;
    }
    ++of_arch->second[StateOf(record, busy.count(id) > 0)];
    if (record.lost() || worker.http_address().empty()) continue;
    nlohmann::json labels = {
        {"worker", id}, {"arch", worker.arch()}, {"device", worker.device_name()}};
    for (const std::string& label : worker.labels()) {
      const size_t equals = label.find('=');
      std::string name = "label_" + label.substr(0, equals);
      // What Prometheus takes as a label's name.
      for (char& c : name) c = absl::ascii_isalnum(c) ? c : '_';
      labels[name] = label.substr(equals + 1);
    }
    targets.push_back({{"targets", {worker.http_address()}}, {"labels", std::move(labels)}});
  }
  std::vector<Sample> worker_samples;
  for (const auto& [arch, states] : workers) {
    for (const auto& [state, count] : states) worker_samples.push_back({{arch, state}, count});
  }
  metrics_.Publish("warpsmith_workers", worker_samples);
  PublishRestored(picture.restored() == nullptr ? v1::Restored() : *picture.restored());
  absl::MutexLock lock(&mutex_);
  oldest_since_ = base::Instant::InfiniteFuture();
  for (const auto& [id, since] : queued_since_) oldest_since_ = std::min(oldest_since_, since);
  workers_json_ = targets.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
  absl::MutexLock lock(&mutex_);
  return workers_json_;
}

}  // namespace warpsmith::planner
