// The whole loop with nothing replaced: compile processes, the judge process, the host device.
#include "worker/agent/device_evaluator.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/problem/compressed.h"
#include "worker/agent/moves.h"
#include "worker/agent/optimiser.h"
#include "worker/agent/test_problems.h"

namespace warpsmith::agent {
namespace {

// Of what an evaluator says that it does: the seconds of each, and what of the judge's is the
// oracle's.
class Stopwatch {
 public:
  void Do(Activity next, double oracle_seconds) {
    absl::MutexLock lock(&mutex_);
    const base::Instant now = base::Now();
    seconds_[activity_] += absl::ToDoubleSeconds(now - since_);
    since_ = now;
    activity_ = next;
    of_oracle_ += oracle_seconds;
  }
  double Of(Activity activity) {
    absl::MutexLock lock(&mutex_);
    return seconds_[activity];
  }
  double OfOracle() {
    absl::MutexLock lock(&mutex_);
    return of_oracle_;
  }
  Activity Now() {
    absl::MutexLock lock(&mutex_);
    return activity_;
  }

 private:
  absl::Mutex mutex_;
  Activity activity_ ABSL_GUARDED_BY(mutex_) = Activity::kPropose;
  base::Instant since_ ABSL_GUARDED_BY(mutex_) = base::Now();
  std::map<Activity, double> seconds_ ABSL_GUARDED_BY(mutex_);
  double of_oracle_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct Host {
  Host() {
    const std::string cache =
        (std::filesystem::temp_directory_path() / "warpsmith_agent_test").string();
    device::CompilePool::Options options;
    options.processes = 2;
    options.arch = "host";
    options.cache_dir = cache;
    auto started = device::CompilePool::Start(options);
    INFO(started.status());
    REQUIRE(started.ok());
    pool = *std::move(started);
    judge::JudgeClient::Options judging;
    judging.arguments = {"--cache-dir", cache};
    judge = std::make_unique<judge::JudgeClient>(judging);
    evaluator = std::make_unique<DeviceEvaluator>(
        *pool, *judge,
        DeviceEvaluator::Settings{
            .use_torch = false,
            .on_activity = [this](Activity next,
                                  double oracle_seconds) { stopwatch.Do(next, oracle_seconds); }},
        &timer);
    target.arch = "host";
    target.sm_count = 1;
    target.max_cluster = 1;
  }

  Stopwatch stopwatch;
  codegen::Target target;
  call::CallTimer timer{{}};  // without a Python
  std::unique_ptr<device::CompilePool> pool;
  std::unique_ptr<judge::JudgeClient> judge;
  std::unique_ptr<DeviceEvaluator> evaluator;
};

TEST_CASE("softmax is made faster on this processor", "[agent][host]") {
  Host host;
  v1::Lease lease;
  lease.set_id("lease");
  lease.set_task_id("task");
  *lease.mutable_problem() = Softmax(256, 512);
  lease.set_seconds(2);
  lease.set_policy("rules");
  lease.set_seed(3);
  Recorder recorder;
  const std::atomic<bool> stop{false};
  Options options;
  options.target = host.target;
  options.in_flight = 4;
  const auto outcome = Optimiser(*host.evaluator, options).Run(lease, recorder, stop);
  INFO(outcome.status());
  REQUIRE(outcome.ok());
  CHECK(outcome->judged >= 1);
  CHECK(outcome->first_plan_seconds > 0);
  for (const auto& trial : recorder.trials) UNSCOPED_INFO(trial.action() << ": " << trial.reason());
  REQUIRE_FALSE(recorder.incumbents.empty());
  const auto& best = recorder.incumbents.back();
  CHECK(best.trial().verdict() == v1::ACCEPTED);
  CHECK(best.baselines().baselines(0).name() == "op_by_op");
  // One kernel where the baseline has four. What it gains depends on who else is at work here.
  CHECK(best.speedup() > 0);
  CHECK(best.solution().plans(0).steps_size() == 1);
  REQUIRE(best.compressed_cubins_size() == 1);
  const auto cubin = problem::Uncompressed(best.compressed_cubins(0), "the cubin");
  REQUIRE(cubin.ok());
  CHECK_FALSE(cubin->empty());
  CHECK(best.call_missing() == "the worker has no Python with PyTorch");
  for (const auto& trial : recorder.trials) {
    INFO(trial.action() << ": " << trial.reason());
    CHECK(trial.verdict() != v1::WRONG);
    CHECK(trial.verdict() != v1::OUT_OF_BOUNDS);
    CHECK(trial.verdict() != v1::JUDGE_FAILED);
  }
  // Where the time went: to the oracle in opening the problem, and for further inputs.
  double judged = 0;
  for (const auto& trial : recorder.trials) judged += trial.judge_seconds();
  Stopwatch& stopwatch = host.stopwatch;
  CHECK(stopwatch.Of(Activity::kOracle) > 0);
  CHECK(stopwatch.Of(Activity::kJudge) >= judged);
  CHECK(stopwatch.OfOracle() > 0);
  CHECK(stopwatch.OfOracle() < stopwatch.Of(Activity::kJudge));
  CHECK(stopwatch.Of(Activity::kOracle) + stopwatch.Of(Activity::kJudge) +
            stopwatch.Of(Activity::kWait) <
        outcome->seconds);
  CHECK(stopwatch.Now() == Activity::kPropose);  // nothing is under way
}

// A problem that the evaluator has open: its plan by default, and the schedule of that.
v1::Plan Opened(const Host& host, v1::Schedule* schedule) {
  const v1::Problem problem = Gelu(4096);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  *schedule = codegen::DefaultSchedule(*graph, host.target);
  auto plan = codegen::Lower(*graph, *schedule, host.target);
  REQUIRE(plan.ok());
  plan->set_workload("default");
  REQUIRE(host.evaluator->Open(problem, 1, {*plan}).ok());
  return *std::move(plan);
}

TEST_CASE("what the compiler takes long for is overtaken", "[agent][host]") {
  Host host;
  v1::Schedule schedule;
  const v1::Plan plan = Opened(host, &schedule);
  // The compiler waits until somebody writes what it includes.
  const std::string pipe = (std::filesystem::temp_directory_path() /
                            absl::StrCat("warpsmith_agent_test_", getpid(), ".h"))
                               .string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  v1::Plan waiting = plan;
  waiting.set_source(absl::StrCat("#include \"", pipe, "\"\n", plan.source()));
  auto slow = host.evaluator->Submit({"1", schedule, {waiting}});
  auto fast = host.evaluator->Submit({"2", schedule, {plan}});
  const Evaluated accepted = fast.get();
  INFO(accepted.reason);
  CHECK(accepted.verdict == v1::ACCEPTED);
  CHECK(slow.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  // Not what is to be judged first.
  auto first = host.evaluator->Submit({"3", schedule, {waiting}, true});
  auto behind = host.evaluator->Submit({"4", schedule, {plan}});
  CHECK(behind.wait_for(std::chrono::milliseconds(500)) == std::future_status::timeout);
  host.evaluator->Abandon();
  for (auto* dropped : {&slow, &first, &behind})
    CHECK(dropped->get().verdict == v1::VERDICT_UNSPECIFIED);
  // Compilers that wait go on.
  const int writer = open(pipe.c_str(), O_RDWR);
  CHECK(writer >= 0);
  unlink(pipe.c_str());
  close(writer);
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("what does not compile is a verdict, and the order is kept", "[agent][host]") {
  Host host;
  v1::Schedule schedule;
  const v1::Plan plan = Opened(host, &schedule);
  v1::Plan broken = plan;
  broken.set_source(broken.source() + "\n#error this is not code\n");
  auto first = host.evaluator->Submit({"1", schedule, {broken}});
  auto second = host.evaluator->Submit({"2", schedule, {plan}});
  const Evaluated refused = first.get();
  CHECK(refused.verdict == v1::NOT_COMPILED);
  CHECK(refused.reason.find("this is not code") != std::string::npos);
  const Evaluated accepted = second.get();
  INFO(accepted.reason);
  CHECK(accepted.verdict == v1::ACCEPTED);

  // Reasons are stored and sent: they stay readable however a compiler quotes, and wherever they
  // are cut.
  for (const char* start : {"", "x"}) {
    broken.set_source(plan.source() + "\n#error \xff" + start + Repeated("\u00e9", 2000) + "\n");
    const Evaluated cut = host.evaluator->Submit({"4", schedule, {broken}}).get();
    CHECK(cut.verdict == v1::NOT_COMPILED);
    v1::Trial trial;
    trial.set_reason(cut.reason);
    CHECK(v1::Trial().ParseFromString(trial.SerializeAsString()));
  }

  // What has not begun is dropped; nothing is left waiting.
  std::vector<std::future<Evaluated>> dropped;
  for (int i = 0; i < 4; ++i) dropped.push_back(host.evaluator->Submit({"3", schedule, {plan}}));
  host.evaluator->Abandon();
  int unspecified = 0;
  for (auto& answer : dropped) unspecified += answer.get().verdict == v1::VERDICT_UNSPECIFIED;
  CHECK(unspecified >= 3);
  CHECK(host.evaluator->Finalise().ok());
}

}  // namespace
}  // namespace warpsmith::agent
