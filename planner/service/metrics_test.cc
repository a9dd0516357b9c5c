#include "planner/service/metrics.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/service/outlook.h"
#include "planner/service/served.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

using Catch::Contains;

// One open run with four tasks, one done run, and four workers.
v1::PlannerState SomeState() {
  v1::PlannerState state;
  for (const char* id : {"r1", "r2"}) {
    v1::Run& run = *state.add_runs()->mutable_run();
    run.set_id(id);
    run.set_done(std::string(id) == "r1");
  }
  const auto add = [&](const char* run, const char* name, v1::TaskState at) -> v1::TaskRecord& {
    v1::TaskRecord& record = *state.add_tasks();
    v1::Task& task = *record.mutable_task();
    task.set_id(absl::StrCat(run, "/", name, "@sm_90a"));
    task.set_run_id(run);
    task.set_arch("sm_90a");
    task.set_state(at);
    task.set_seconds_spent(10);
    return record;
  };
  add("r1", "a", v1::CONVERGED);
  v1::TaskRecord& found = add("r2", "a", v1::LEASED);
  found.mutable_task()->set_incumbent_blob("blob");
  found.mutable_task()->set_speedup(4);
  found.mutable_task()->set_best_us(20);
  found.mutable_task()->set_graph_us(22);
  found.mutable_task()->set_light_us(3.5);
  found.mutable_task()->set_seconds_budget(20);
  found.mutable_task()->set_slices(1);
  v1::SliceGain& gain = *found.mutable_task()->add_gains();
  gain.set_seconds(10);
  gain.set_speedup_before(2);
  gain.set_speedup_after(4);
  found.mutable_lease()->set_worker_id("w0");
  add("r2", "b", v1::QUEUED);
  add("r2", "c", v1::QUEUED).mutable_task()->set_alarm("poor");
  add("r2", "d", v1::FAILED).mutable_task()->clear_arch();
  for (const char* id : {"w0", "w1", "w2"}) {
    v1::WorkerRecord& record = *state.add_workers();
    record.mutable_worker()->set_id(id);
    record.mutable_worker()->set_arch("sm_90a");
    record.mutable_worker()->set_healthy(true);
    record.mutable_worker()->set_http_address(absl::StrCat(id, ".example:7481"));
    record.mutable_worker()->add_labels("rack=3");
    record.mutable_worker()->add_labels("the-room=\"x\"");
  }
  state.mutable_workers(2)->set_lost(true);
  *state.add_workers() = state.workers(2);
  state.mutable_workers(3)->mutable_worker()->set_id("w3");
  state.mutable_workers(3)->mutable_worker()->set_draining(true);
  return state;
}

// As a planner does that has loaded it.
void Draw(const v1::PlannerState& state, PlannerMetrics& metrics) {
  board::Picture picture;
  picture.Take({state, {}});
  metrics.Changed({state, {}}, base::Now());
  metrics.Drawn(picture);
}

}  // namespace

TEST_CASE("gauges say what the board says") {
  PlannerMetrics metrics("1.2.3");
  Draw(SomeState(), metrics);
  const std::string text = metrics.Text(base::Now());
  for (const char* line :
       {"warpsmith_tasks{arch=\"sm_90a\",state=\"queued\"} 2",
        "warpsmith_tasks{arch=\"sm_90a\",state=\"leased\"} 1",
        "warpsmith_tasks{arch=\"sm_90a\",state=\"held\"} 0",
        "warpsmith_tasks{arch=\"any\",state=\"failed\"} 1",
        "warpsmith_tasks{arch=\"any\",state=\"queued\"} 0", "warpsmith_runs{state=\"open\"} 1",
        "warpsmith_runs{state=\"done\"} 1", "warpsmith_workers{arch=\"sm_90a\",state=\"busy\"} 1",
        "warpsmith_workers{arch=\"sm_90a\",state=\"idle\"} 1",
        "warpsmith_workers{arch=\"sm_90a\",state=\"lost\"} 1",
        "warpsmith_workers{arch=\"sm_90a\",state=\"left\"} 1",
        "warpsmith_workers{arch=\"sm_90a\",state=\"sick\"} 0",
        // One of four tasks at 4x, and at 16x if it were at the speed of light.
        "warpsmith_run_speedup_ratio{run=\"r2\"} 1.41421",
        "warpsmith_run_limit_ratio{run=\"r2\"} 2",
        "warpsmith_run_tasks{run=\"r2\",state=\"queued\"} 2",
        "warpsmith_run_tasks{run=\"r2\",state=\"leased\"} 1",
        "warpsmith_run_tasks{run=\"r2\",state=\"failed\"} 1",
        "warpsmith_run_tasks{run=\"r2\",state=\"held\"} 0",
        "warpsmith_run_device_seconds{run=\"r2\"} 40", "warpsmith_alarms 1",
        "warpsmith_planner_leads 0"}) {
    CHECK_THAT(text, Contains(std::string(line)));
  }
  // What the last ten seconds of one of four may bring.
  const double expected = OutlookOf(SomeState().tasks(1)).expected;
  CHECK(expected > std::log(4) + 0.1);
  const std::string name = "\nwarpsmith_run_expected_ratio{run=\"r2\"} ";
  REQUIRE_THAT(text, Contains(name));
  CHECK(std::stod(text.substr(text.find(name) + name.size())) == Approx(std::exp(expected / 4)));
}

TEST_CASE("what an autoscaler asks for is 0 before there is a task, and bounded in its labels") {
  PlannerMetrics metrics("1");
  metrics.Drawn(board::Picture());
  CHECK_THAT(metrics.Text(base::Now()),
             Contains("warpsmith_tasks{arch=\"any\",state=\"queued\"} 0\n"));
  v1::PlannerState state;
  for (int i = 0; i < 100; ++i) {
    v1::Task& task = *state.add_tasks()->mutable_task();
    task.set_id(absl::StrFormat("r1/%03d", i));
    task.set_arch(absl::StrFormat("a%03d", i));
    task.set_state(v1::QUEUED);
    v1::WorkerInfo& worker = *state.add_workers()->mutable_worker();
    worker.set_id(absl::StrFormat("w%03d", i));
    worker.set_arch(task.arch());
    worker.set_healthy(true);
  }
  Draw(state, metrics);
  const std::string text = metrics.Text(base::Now());
  CHECK_THAT(text, Contains("warpsmith_tasks{arch=\"a000\",state=\"queued\"} 1\n"));
  CHECK_THAT(text, Contains("warpsmith_tasks{arch=\"other\",state=\"queued\"} 69\n"));
  CHECK_THAT(text, !Contains("arch=\"a099\""));
  CHECK_THAT(text, Contains("warpsmith_workers{arch=\"other\",state=\"idle\"} 69\n"));
}

TEST_CASE("architectures are told by what there is to do for them, not by who came first") {
  PlannerMetrics metrics("1");
  v1::PlannerState state;
  const auto add = [&](const std::string& arch, v1::TaskState at, int tasks) {
    for (int i = 0; i < tasks; ++i) {
      v1::Task& task = *state.add_tasks()->mutable_task();
      task.set_id(absl::StrCat("r1/", state.tasks_size()));
      task.set_arch(arch);
      task.set_state(at);
    }
  };
  for (int i = 0; i < 2 * static_cast<int>(kMaxArchsTold); ++i) {
    add(absl::StrFormat("a%03d", i), v1::QUEUED, 1);
  }
  add("b", v1::CANCELLED, 5);
  Draw(state, metrics);
  CHECK_THAT(metrics.Text(base::Now()), Contains("{arch=\"a030\",state=\"queued\"} 1\n"));
  add("sm_90a", v1::QUEUED, 2);
  add("any", v1::QUEUED, 3);
  add("other", v1::QUEUED, 4);
  add("", v1::QUEUED, 1);
  for (const char* arch : {"sm_90a", "host"}) {
    v1::WorkerInfo& worker = *state.add_workers()->mutable_worker();
    worker.set_id(absl::StrCat("w-", arch));
    worker.set_arch(arch);
    worker.set_healthy(true);
  }
  Draw(state, metrics);
  const std::string text = metrics.Text(base::Now());
  for (const char* line : {
           "\nwarpsmith_tasks{arch=\"sm_90a\",state=\"queued\"} 2\n",
           "\nwarpsmith_tasks{arch=\"a029\",state=\"queued\"} 1\n",
           "\nwarpsmith_tasks{arch=\"any\",state=\"queued\"} 1\n",
           "\nwarpsmith_tasks{arch=\"other\",state=\"queued\"} 39\n",  // 32, 3 and 4
           "\nwarpsmith_tasks{arch=\"other\",state=\"cancelled\"} 5\n",
           "\nwarpsmith_workers{arch=\"sm_90a\",state=\"idle\"} 1\n",
           "\nwarpsmith_workers{arch=\"other\",state=\"idle\"} 1\n",
       }) {
    CHECK_THAT(text, Contains(std::string(line)));
  }
  for (const char* name : {"a030", "b", "host"}) {
    CHECK_THAT(text, !Contains(absl::StrCat("arch=\"", name, "\"")));
  }
  // No series twice.
  for (const char* series : {"warpsmith_tasks{arch=\"other\",state=\"queued\"}",
                             "warpsmith_tasks{arch=\"any\",state=\"queued\"}"}) {
    CHECK(text.find(series) == text.rfind(series));
  }
  // Whose tasks are over gives its name up.
  for (v1::TaskRecord& record : *state.mutable_tasks()) {
    if (absl::StartsWith(record.task().arch(), "a"))
      record.mutable_task()->set_state(v1::CANCELLED);
  }
  Draw(state, metrics);
  CHECK_THAT(metrics.Text(base::Now()),
             Contains("\nwarpsmith_workers{arch=\"host\",state=\"idle\"} 1\n"));
}

TEST_CASE("the task that has waited longest, and no other") {
  PlannerMetrics metrics("1");
  const base::Instant start = base::Now();
  const auto changed = [&](const char* id, v1::TaskState state, absl::Duration at) {
    Changes changes;
    v1::Task& task = *changes.records.add_tasks()->mutable_task();
    task.set_id(id);
    task.set_state(state);
    metrics.Changed(changes, start + at);
  };
  const auto oldest = [&](absl::Duration at) {
    metrics.Drawn(board::Picture());
    metrics.Text(start + at);
    return metrics.metrics().Gauge("warpsmith_queue_oldest_seconds").Value();
  };
  CHECK(oldest(absl::Seconds(1)) == 0);
  changed("a", v1::QUEUED, absl::Seconds(10));
  changed("b", v1::QUEUED, absl::Seconds(20));
  changed("a", v1::QUEUED, absl::Seconds(30));  // it still is
  CHECK(oldest(absl::Seconds(40)) == Approx(30));
  metrics.Text(start + absl::Seconds(45));  // and nothing is drawn
  CHECK(metrics.metrics().Gauge("warpsmith_queue_oldest_seconds").Value() == Approx(35));
  changed("a", v1::LEASED, absl::Seconds(50));
  CHECK(oldest(absl::Seconds(60)) == Approx(40));
  Changes archived;
  *archived.archived.add_tasks()->mutable_task()->mutable_id() = "b";
  metrics.Changed(archived, start + absl::Seconds(70));
  CHECK(oldest(absl::Seconds(80)) == 0);
}

TEST_CASE("workers that are there are told to Prometheus") {
  PlannerMetrics metrics("1");
  CHECK(metrics.WorkersJson() == "[]");
  const v1::PlannerState state = SomeState();
  metrics.Changed({state, {}}, base::Now());
  const auto targets = nlohmann::json::parse(metrics.WorkersJson());
  REQUIRE(targets.size() == 2);
  CHECK(targets[0]["targets"] == nlohmann::json{"w0.example:7481"});
  CHECK(targets[0]["labels"]["worker"] == "w0");
  CHECK(targets[0]["labels"]["label_rack"] == "3");
  CHECK(targets[0]["labels"]["label_the_room"] == "\"x\"");
  Changes gone;
  *gone.records.add_workers() = state.workers(0);
  gone.records.mutable_workers(0)->set_lost(true);
  gone.forgotten.push_back("w1");
  metrics.Changed(gone, base::Now());
  CHECK(metrics.WorkersJson() == "[]");
}

TEST_CASE("what a planner decides is counted") {
  const testing::Folder folder;
  PlannerMetrics metrics("1");
  testing::Served served(folder, "127.0.0.1:0", {}, &metrics);
  testing::Client client(served.address());
  REQUIRE(client.Submit(3).ok());
  std::string session;
  const v1::Lease lease = testing::Take(client, "w0", session);
  CHECK_FALSE(client.Submit(-1).ok());
  auto request = testing::SyncOf("w0", session);
  testing::AddResult(lease, "t1", 2.0, request);
  testing::AddStatus(lease, 5, /*finished=*/true, request);
  REQUIRE(client.Synchronize(request).ok());
  served.Pass(5'000);
  REQUIRE(client.GetBoard().ok());
  const std::string text = metrics.Text(base::Now());
  INFO(text);
  for (const char* line :
       {"warpsmith_runs_submitted_total 1", "warpsmith_tasks_submitted_total 3",
        "warpsmith_leases_ended_total{cause=\"finished\"} 1",
        "warpsmith_leases_ended_total{cause=\"unheard\"} 0",
        "warpsmith_incumbents_accepted_total 1", "warpsmith_log_speedup_total 0.693",
        "warpsmith_workers_joined_total 1", "warpsmith_planner_leads 1",
        "warpsmith_planner_calls_total{code=\"ok\",method=\"Submit\"} 1",
        "warpsmith_tasks{arch=\"host\",state=\"queued\"}", "warpsmith_planner_tasks_limit 100000",
        "warpsmith_planner_workers_limit 10000",
        "warpsmith_planner_uncommitted_writes_limit 20000"}) {
    CHECK_THAT(text, Contains(std::string(line)));
  }
  CHECK(metrics.metrics().Gauge("warpsmith_planner_revision").Value() > 0);
  CHECK(metrics.metrics().Counter("warpsmith_planner_events_total").Value() > 0);
}
}  // namespace warpsmith::planner
