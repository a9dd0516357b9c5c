#include "planner/service/metrics.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/service/served.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

using Catch::Contains;

// A picture of one open run with four tasks, one done run, and three workers.
board::Picture SomePicture() {
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
  found.mutable_lease()->set_worker_id("w0");
  add("r2", "b", v1::QUEUED);
  add("r2", "c", v1::QUEUED).mutable_task()->set_alarm("poor");
  add("r2", "d", v1::FAILED);
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
  board::Picture picture;
  picture.Take({state, {}});
  return picture;
}

}  // namespace

TEST_CASE("gauges say what the board says") {
  PlannerMetrics metrics("1.2.3");
  metrics.Drawn(SomePicture());
  const std::string text = metrics.Text(base::Now());
  for (const char* line :
       {"warpsmith_tasks{state=\"queued\"} 2", "warpsmith_tasks{state=\"leased\"} 1",
        "warpsmith_tasks{state=\"held\"} 0", "warpsmith_runs{state=\"open\"} 1",
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
  metrics.Drawn(SomePicture());
  const auto targets = nlohmann::json::parse(metrics.WorkersJson());
  REQUIRE(targets.size() == 2);
  CHECK(targets[0]["targets"] == nlohmann::json{"w0.example:7481"});
  CHECK(targets[0]["labels"]["worker"] == "w0");
  CHECK(targets[0]["labels"]["label_rack"] == "3");
  CHECK(targets[0]["labels"]["label_the_room"] == "\"x\"");
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
        "warpsmith_tasks{state=\"queued\"}"}) {
    CHECK_THAT(text, Contains(std::string(line)));
  }
  CHECK(metrics.metrics().Gauge("warpsmith_planner_revision").Value() > 0);
  CHECK(metrics.metrics().Counter("warpsmith_planner_events_total").Value() > 0);
}

}  // namespace warpsmith::planner
