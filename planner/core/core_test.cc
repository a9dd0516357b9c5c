#include "planner/core/core.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::ResultOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// A core, a clock and the reply of each command.
class Bench {
 public:
  Core core{CoreOptions{}};
  int64_t now_ms = 0;

  template <typename Command>
  auto Try(const Command& command) {
    return core.Handle(command, {now_ms, now_ms}).reply;
  }
  // For what must succeed.
  template <typename Command>
  auto Do(const Command& command) {
    auto reply = Try(command);
    INFO(reply.status().ToString());
    REQUIRE(reply.ok());
    return *std::move(reply);
  }
  SynchronizeAnswer Sync(const Synchronize& command) { return Do(command); }
  // Joins, and calls once more.
  SynchronizeAnswer Join(const std::string& worker, int slots = 1,
                         const std::string& arch = "host") {
    const SynchronizeAnswer joined = Sync(SyncOf(worker, "", slots, arch));
    CHECK(joined.start.empty());
    CHECK(joined.next_sync_after_ms == 0);
    session[worker] = joined.session_id;
    return Sync(SyncOf(worker, joined.session_id, slots, arch));
  }
  // Joins and takes the first lease.
  Grant Take(const std::string& worker, const std::string& arch = "host") {
    const SynchronizeAnswer answer = Join(worker, 1, arch);
    REQUIRE(answer.start.size() == 1);
    return answer.start[0];
  }
  SynchronizeAnswer Report(const std::string& worker, std::vector<v1::LeaseStatus> leases,
                           std::vector<Result> results = {}, int slots = 0,
                           const std::string& arch = "host") {
    Synchronize sync = SyncOf(worker, session[worker], slots, arch);
    sync.leases = std::move(leases);
    sync.results = std::move(results);
    return Sync(sync);
  }
  const v1::Task& Task(const std::string& id) { return core.state().FindTask(id)->task(); }
  bool RunDone() { return core.state().FindRun("r1")->run().done(); }
  // As a restart does: state from the snapshot, nothing else.
  void Restart() {
    const v1::PlannerState snapshot = core.state().ToProto();
    core = Core(CoreOptions{});
    core.Restore(snapshot);
    core.Forgive({now_ms, now_ms});
  }

  std::map<std::string, std::string> session;
};

}  // namespace

TEST_CASE("submit makes a run of tasks, once for each request id") {
  Bench bench;
  Submit submit = SubmitOf({"a", "b"});
  submit.request_id = "q1";
  const auto run = bench.Try(submit);
  REQUIRE(run.ok());
  CHECK(run->id() == "r1");
  CHECK(run->task_ids(1) == "r1/b@host");
  CHECK(bench.Task("r1/a@host").state() == v1::QUEUED);
  CHECK(bench.Try(submit)->id() == "r1");
  CHECK(bench.core.state().runs().size() == 1);
  submit.problems.pop_back();
  CHECK(bench.Try(submit).status().code() == absl::StatusCode::kAlreadyExists);
  submit.request_id = "q2";
  CHECK(bench.Try(submit)->id() == "r2");
}

TEST_CASE("a task is one workload of one problem") {
  Bench bench;
  Submit submit = SubmitOf({"one", "several"}, "host", 20);
  submit.problems[1].workloads = {"small", "large"};
  submit.request_id = "q";
  const v1::Run run = bench.Do(submit);
  CHECK(std::vector<std::string>(run.task_ids().begin(), run.task_ids().end()) ==
        std::vector<std::string>{"r1/one@host", "r1/several:small@host", "r1/several:large@host"});
  CHECK(bench.Task("r1/one@host").workload().empty());
  const v1::Task& large = bench.Task("r1/several:large@host");
  CHECK(large.problem_name() == "several");
  CHECK(large.problem_blob() == "blob of several");
  CHECK(large.workload() == "large");
  CHECK(large.seconds_budget() == 20);

  // Each has a lease, an incumbent and an end of its own, after a restart too.
  bench.Restart();
  const SynchronizeAnswer answer = bench.Join("w", 3);
  REQUIRE(answer.start.size() == 3);
  std::vector<std::string> work;
  for (const Grant& grant : answer.start) {
    work.push_back(grant.problem_blob + ", " + grant.workload);
  }
  CHECK(work == std::vector<std::string>{"blob of one, ", "blob of several, large",
                                         "blob of several, small"});
  const Grant& found = answer.start[1];
  bench.Report("w", {StatusOf(found, 20, true)}, {ResultOf(found, "t", 2)});
  CHECK(bench.Task("r1/several:large@host").state() == v1::CONVERGED);
  CHECK(bench.Task("r1/several:large@host").speedup() == 2);
  CHECK(bench.Task("r1/several:small@host").speedup() == 0);
  CHECK_FALSE(bench.RunDone());

  // Said again it is the same run; with other contents it is not.
  CHECK(bench.Do(submit).id() == "r1");
  submit.problems[1].blob = "another";
  CHECK(bench.Try(submit).status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("a run stored when a problem was one task goes on as it was") {
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}));
  v1::PlannerState stored = bench.core.state().ToProto();
  stored.mutable_runs(0)->set_request_id("q");
  bench.core = Core(CoreOptions{});
  bench.core.Restore(stored);
  bench.core.Forgive({0, 0});
  Submit again = SubmitOf({"a", "b"});
  again.problems[0].workloads = {"small", "large"};  // which the one task has, all of them
  again.request_id = "q";
  CHECK(bench.Do(again).id() == "r1");
  CHECK(bench.core.state().tasks().size() == 2);
  const Grant grant = bench.Take("w");
  CHECK(grant.task_id == "r1/a@host");
  CHECK(grant.workload.empty());
}

// The set with that problem alone.
Submit WithWorkloads(std::vector<std::string> workloads) {
  Submit submit = SubmitOf({"a"});
  submit.problems[0].workloads = std::move(workloads);
  return submit;
}

TEST_CASE("a submit that cannot be done is refused with what to do") {
  const auto [submit, say] = GENERATE_COPY(table<Submit, const char*>({
      {SubmitOf({}), "empty"},
      {SubmitOf({"a", "a"}), "two problems 'a'"},
      {SubmitOf({"a b"}), "letters, digits"},
      {SubmitOf({"a"}, "sm 90"), "architecture"},
      {SubmitOf({"a"}, "host", 1), "seconds a task"},
      {SubmitOf({"a"}, "host", NAN), "seconds a task"},
      {SubmitOf(std::vector<std::string>(kMaxTasksPerRun + 1, "a")), "at most 10000"},
      {WithWorkloads({}), "'a' has no workload"},
      {WithWorkloads({"x", "x"}), "two workloads 'x'"},
      {WithWorkloads({"x", "y:z"}), "the workload 'y:z'"},
      {WithWorkloads(std::vector<std::string>(kMaxTasksPerRun + 1, "x")), "at most 10000"},
  }));
  Bench bench;
  const absl::Status status = bench.Try(submit).status();
  CHECK(status.code() == kInvalid);
  CHECK_THAT(std::string(status.message()), Catch::Contains(say));
}

TEST_CASE("without an architecture a run takes that of the workers, or of the first that comes") {
  Bench bench;
  REQUIRE(bench.Try(SubmitOf({"early"}, "")).ok());
  CHECK(bench.Task("r1/early@any").arch().empty());
  CHECK(bench.core.HasWorkFor("sm_90a"));
  const SynchronizeAnswer answer = bench.Join("w1", 1, "sm_90a");
  REQUIRE(answer.start.size() == 1);
  CHECK(bench.Task("r1/early@any").arch() == "sm_90a");
  CHECK(bench.Try(SubmitOf({"late"}, ""))->task_ids(0) == "r2/late@sm_90a");
  bench.Sync(SyncOf("w2", "", 0, "host"));
  const absl::Status several = bench.Try(SubmitOf({"x"}, "")).status();
  CHECK(several.code() == kInvalid);
  CHECK_THAT(std::string(several.message()), Catch::Contains("host, sm_90a"));
}

TEST_CASE("a task goes only to workers of its architecture") {
  Bench bench;
  bench.Do(SubmitOf({"a"}, "sm_90a"));
  CHECK(bench.Join("h", 4, "host").start.empty());
  CHECK(bench.Join("g", 4, "sm_90a").start.size() == 1);
}

TEST_CASE("a lease: granted, renewed, finished; then the next slice") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  CHECK(grant.fence == 1);
  CHECK(grant.seconds == 28);
  CHECK(grant.problem_blob == "blob of a");
  CHECK(grant.policy == "rules");
  for (int i = 0; i < 10; ++i) {
    bench.now_ms += 20'000;
    const SynchronizeAnswer answer = bench.Report("w", {StatusOf(grant, i)});
    CHECK(answer.drop.empty());
    CHECK_FALSE(answer.park);
    CHECK(answer.lease_ttl_ms == CoreOptions{}.lease_ttl_ms);
    bench.Do(Tick{});
  }
  CHECK(bench.Task("r1/a@host").state() == v1::LEASED);
  const SynchronizeAnswer answer =
      bench.Report("w", {StatusOf(grant, 20, true)}, {ResultOf(grant, "t1", 1.5)}, 1);
  CHECK(answer.recorded == std::vector<std::string>{grant.lease_id, "t1"});
  REQUIRE(answer.start.size() == 1);
  CHECK(answer.start[0].fence == 2);
  CHECK(answer.start[0].incumbent_blob == "t1=1.5");
  CHECK(answer.start[0].seconds == 12);
  CHECK(answer.start[0].seed != grant.seed);
  const v1::Task& task = bench.Task("r1/a@host");
  CHECK(task.slices() == 1);
  CHECK(task.seconds_spent() == 20);
  REQUIRE(task.gains_size() == 1);
  CHECK(task.gains(0).speedup_before() == 1);
  CHECK(task.gains(0).speedup_after() == 1.5);
}

TEST_CASE("a reply that was lost is said again, to the letter") {
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}));
  const Grant grant = bench.Take("w");
  const SynchronizeAnswer again = bench.Report("w", {}, {}, 1);
  REQUIRE(again.start.size() == 1);
  CHECK(again.start[0].lease_id == grant.lease_id);
  CHECK(again.start[0].fence == grant.fence);
  CHECK(bench.Task("r1/b@host").state() == v1::QUEUED);

  const std::vector<v1::LeaseStatus> finished = {StatusOf(grant, 5, true)};
  const std::vector<Result> results = {ResultOf(grant, "t", 2)};
  bench.Report("w", finished, results);
  const int64_t revision = bench.core.state().revision();
  const SynchronizeAnswer repeated = bench.Report("w", finished, results);
  CHECK(repeated.recorded == std::vector<std::string>{grant.lease_id, "t"});
  CHECK(repeated.drop.empty());
  CHECK(bench.core.state().revision() == revision);
}

TEST_CASE("fences: an expired lease's result counts until the task is granted again") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant old_grant = bench.Take("slow");
  bench.now_ms += 40'000;
  bench.Do(Tick{});
  CHECK(bench.Task("r1/a@host").state() == v1::QUEUED);
  CHECK(bench.Task("r1/a@host").losses() == 1);

  const SynchronizeAnswer kept =
      bench.Report("slow", {StatusOf(old_grant, 9)}, {ResultOf(old_grant, "t1", 1.2)});
  CHECK(kept.recorded == std::vector<std::string>{old_grant.lease_id, "t1"});
  CHECK(kept.drop == std::vector<std::string>{old_grant.lease_id});
  CHECK(bench.Task("r1/a@host").speedup() == 1.2);

  const Grant new_grant = bench.Take("quick");
  CHECK(new_grant.fence == 2);
  CHECK(new_grant.incumbent_blob == "t1=1.2");
  const int64_t revision = bench.core.state().revision();
  const SynchronizeAnswer refused =
      bench.Report("slow", {StatusOf(old_grant, 9, true)}, {ResultOf(old_grant, "t2", 9)});
  CHECK(refused.recorded.empty());
  CHECK(refused.drop == std::vector<std::string>{old_grant.lease_id});
  CHECK(bench.core.state().revision() == revision);
  CHECK(bench.Task("r1/a@host").speedup() == 1.2);

  Result forged = ResultOf(new_grant, "t3", 9);
  forged.fence = 7;
  CHECK(bench.Report("slow", {}, {forged}).recorded.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 1.2);
}

TEST_CASE("an incumbent is replaced by a faster one, or by itself measured again") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  const std::vector<v1::LeaseStatus> running = {StatusOf(grant, 1)};
  bench.Report("w", running, {ResultOf(grant, "t1", 1.5)});
  // Slower: answered, so that the worker forgets it, and not taken.
  CHECK(bench.Report("w", running, {ResultOf(grant, "t2", 1.4)}).recorded.back() == "t2");
  CHECK(bench.Task("r1/a@host").speedup() == 1.5);
  bench.Report("w", running, {ResultOf(grant, "t1", 1.45)});
  CHECK(bench.Task("r1/a@host").speedup() == 1.45);
  // The first measurement, come late, is known and does not come back.
  bench.Report("w", running, {ResultOf(grant, "t1", 1.5)});
  CHECK(bench.Task("r1/a@host").speedup() == 1.45);
  CHECK(bench.core.state().FindTask("r1/a@host")->lessons_size() == 1);

  Synchronize wrong = SyncOf("w", bench.session["w"]);
  wrong.results = {ResultOf(grant, "t9", NAN)};
  CHECK(bench.Try(wrong).status().code() == kInvalid);
}

TEST_CASE("what beat the incumbent in a race replaces it, whatever its speedup was told to be") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  const std::vector<v1::LeaseStatus> running = {StatusOf(grant, 1)};
  const auto beating = [](const Grant& of, const char* trial, double speedup, const char* beaten) {
    Result result = ResultOf(of, trial, speedup);
    result.incumbent.set_beat_trial_id(beaten);
    return result;
  };
  bench.Report("w", running, {beating(grant, "t1", 1.5, "")});
  bench.Report("w", running, {beating(grant, "t2", 1.45, "t1")});
  CHECK(bench.Task("r1/a@host").speedup() == 1.45);
  // Come late, or again: it beat what is no longer the incumbent.
  bench.Report("w", running, {beating(grant, "t1", 1.5, "")});
  bench.Report("w", running, {beating(grant, "t3", 1.44, "t1")});
  CHECK(bench.Task("r1/a@host").speedup() == 1.45);
  // Measured again at the end; the next slice goes on from it, and what wins there is next.
  bench.Report("w", {StatusOf(grant, 5, true)}, {beating(grant, "t2", 1.3, "t1")});
  CHECK(bench.Task("r1/a@host").speedup() == 1.3);
  const Grant next = bench.Take("w");
  CHECK(next.incumbent_blob == "t2=1.3");
  bench.Report("w", {StatusOf(next, 1)}, {beating(next, "t4", 1.2, "t2")});
  CHECK(bench.Task("r1/a@host").speedup() == 1.2);
}

TEST_CASE("trials are recorded once for each batch") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  Result batch;
  batch.lease_id = grant.lease_id;
  batch.task_id = grant.task_id;
  batch.fence = grant.fence;
  batch.trials.set_batch_blob("b1");
  batch.trials.set_trials(10);
  batch.trials.set_judged(4);
  for (int i = 0; i < 3; ++i) {
    CHECK(bench.Report("w", {StatusOf(grant, 1)}, {batch}).recorded.at(0) == grant.lease_id);
  }
  CHECK(bench.Task("r1/a@host").trials() == 10);
  CHECK(bench.Task("r1/a@host").trials_judged() == 4);
}

TEST_CASE("a task comes to rest for one of these reasons") {
  struct Case {
    const char* name;
    double speedup;  // 0: no incumbent
    double seconds;
    bool converged;
    const char* failure;
    bool permanent;
    v1::TaskState state;
    const char* reason;
  };
  const Case c = GENERATE(values<Case>({
      {"budget", 2, 40, false, "", false, v1::CONVERGED, "budget of 40 s spent"},
      {"light", 9.9, 5, false, "", false, v1::CONVERGED, "99 % of the speed of light"},
      {"nothing left", 2, 5, true, "", false, v1::CONVERGED, "nothing left to try"},
      {"no candidate", 0, 40, false, "", false, v1::FAILED, "no candidate passed the judge"},
      {"nothing at all", 0, 3, true, "", false, v1::FAILED, "nothing left to try, and no"},
      {"permanent", 0, 1, false, "operator x is unknown", true, v1::FAILED,
       "operator x is unknown"},
      {"goes on", 2, 20, false, "", false, v1::QUEUED, ""},
      {"failed once", 2, 5, false, "out of memory", false, v1::QUEUED, "out of memory"},
  }));
  INFO(c.name);
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  v1::LeaseStatus status = StatusOf(grant, c.seconds, true);
  status.set_converged(c.converged);
  status.set_failure(c.failure);
  status.set_permanent(c.permanent);
  std::vector<Result> results;
  if (c.speedup > 0) results = {ResultOf(grant, "t", c.speedup)};
  bench.Report("w", {status}, results);
  CHECK(bench.Task("r1/a@host").state() == c.state);
  CHECK_THAT(bench.Task("r1/a@host").reason(), Catch::Contains(c.reason));
  CHECK(bench.RunDone() == (c.state != v1::QUEUED));
}

TEST_CASE("a search that ends with something poor raises an alarm") {
  struct Case {
    const char* name;
    const char* arch;
    double speedup;  // times a tenth of the speed of light
    bool converged;
    double seconds;
    const char* reason;
    const char* alarm;   // nullptr: none
    double best_us = 0;  // 0: some tens
  };
  const Case c = GENERATE(values<Case>({
      {"short", "sm_90a", 2.8, true, 5, "no gain for long, at 28 % of the speed of light", nullptr,
       6},
      {"short, and slower than what there is", "sm_90a", 0.5, true, 5, "no gain for long",
       "0.50x the strongest baseline, compile", 6},
      {"near the light", "sm_90a", 7, true, 5,
       "no gain for long, at 70 % of the speed of light; held by launches", nullptr},
      {"far from it", "sm_90a", 2.8, true, 5,
       "no gain for long, at 28 % of the speed of light; held by launches",
       "far from the speed of light"},
      {"its budget ended it", "sm_90a", 2.8, false, 40,
       "budget of 40 s spent, at 28 % of the speed of light", nullptr},
      {"slower than what there is", "sm_90a", 0.5, false, 40, "budget of 40 s spent",
       "0.50x the strongest baseline, compile"},
      {"slower, by noise", "sm_90a", 0.98, false, 40, "budget", nullptr},
      {"both", "sm_90a", 0.5, true, 5, "no gain for long",
       "0.50x the strongest baseline, compile, far from the speed of light"},
      {"the host has no light", "host", 2.8, true, 5, "no gain for long", nullptr},
      {"slower on the host", "host", 0.5, true, 5, "no gain", "0.50x the strongest baseline"},
  }));
  INFO(c.name);
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}, c.arch));
  const std::string id = absl::StrCat("r1/a@", c.arch);
  const Grant grant = bench.Take("w", c.arch);
  REQUIRE(grant.task_id == id);
  v1::LeaseStatus status = StatusOf(grant, c.seconds, true);
  status.set_converged(c.converged);
  if (c.converged) status.set_reason("no gain for long");
  Result result = ResultOf(grant, "t", c.speedup);
  if (c.best_us > 0) {
    result.incumbent.set_light_us(result.incumbent.light_us() / result.incumbent.best_us() *
                                  c.best_us);
    result.incumbent.set_best_us(c.best_us);
  }
  result.incumbent.set_baseline_name("compile");
  result.incumbent.set_held_by("launches");
  bench.Report("w", {status}, {result}, 0, c.arch);
  CHECK(bench.Task(id).state() == v1::CONVERGED);
  CHECK_THAT(bench.Task(id).reason(), Catch::StartsWith(c.reason));
  CHECK(bench.Task(id).held_by() == "launches");
  const bool alarm = c.alarm != nullptr;
  CHECK(bench.Task(id).alarm().empty() == !alarm);
  if (alarm) CHECK_THAT(bench.Task(id).alarm(), Catch::StartsWith(c.alarm));
  CHECK(bench.core.state().FindRun("r1")->run().alarms() == (alarm ? 1 : 0));
  // A snapshot holds it, and a person who queues the task again clears it.
  const v1::PlannerState snapshot = bench.core.state().ToProto();
  CHECK(State::FromProto(snapshot).ToProto().SerializeAsString() == snapshot.SerializeAsString());
  bench.Do(SetTask{id, v1::HELD, ""});
  bench.Do(SetTask{id, v1::QUEUED, ""});
  CHECK(bench.Task(id).alarm().empty());
  CHECK(bench.core.state().FindRun("r1")->run().alarms() == 0);
}

TEST_CASE("a task that loses three workers in a row is parked with what it did") {
  Bench bench;
  bench.Do(SubmitOf({"killer"}));
  for (int i = 0; i < kMaxLosses; ++i) {
    CHECK(bench.Task("r1/killer@host").state() == v1::QUEUED);
    const std::string worker = absl::StrCat("w", i);
    const Grant grant = bench.Take(worker);
    bench.Report(worker, {StatusOf(grant, 1)});
    bench.now_ms += 100'000;
    bench.Do(Tick{});
    CHECK(bench.core.state().FindWorker(worker)->lost());
  }
  const v1::Task& task = bench.Task("r1/killer@host");
  CHECK(task.state() == v1::PARKED);
  CHECK_THAT(task.reason(),
             Catch::Contains("3 times") && Catch::Contains("w2") && Catch::Contains("memory"));
  CHECK(bench.RunDone());
  // A finished slice in between clears the count; so does a person.
  CHECK(bench.Try(SetTask{"r1/killer@host", v1::QUEUED, ""})->losses() == 0);
  CHECK_FALSE(bench.RunDone());
}

TEST_CASE("a lease that is said again has its time again, and is not said for ever") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const CoreOptions options;
  bench.Take("w");
  const auto call = [&] { return bench.Report("w", {}, {}, 1).start.size(); };
  // Its answers are lost: it calls, and speaks of no lease.
  int said = 0;
  while (bench.Task("r1/a@host").state() == v1::LEASED) {
    REQUIRE(bench.now_ms <= (kUnheardTtls + 1) * options.lease_ttl_ms);
    const bool again = call() == 1;
    said += again;
    const int64_t last = bench.now_ms + (again ? options.lease_ttl_ms - 1 : 0);
    if (again && said % 5 == 0) {  // now and then what it believes is looked at
      Core ahead = bench.core;
      CHECK(ahead.Handle(Tick{}, {last, last}).reply.ok());
      CHECK(ahead.state().FindTask("r1/a@host")->has_lease());
    }
    bench.now_ms += 1000;
    bench.Do(Tick{});
  }
  CHECK(said >= options.lease_ttl_ms / 1000);
  CHECK(bench.Task("r1/a@host").losses() == 1);
  CHECK_THAT(bench.Task("r1/a@host").reason(), Catch::Contains("no longer speaks of it"));
}

TEST_CASE("a worker that loses what it is given parks nothing where there is another") {
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}));
  bench.session["good"] = bench.Sync(SyncOf("good", "", 0)).session_id;
  const auto fall_silent = [&](const std::string& worker) {
    for (int i = 0; i < 70; ++i) {
      bench.now_ms += 1000;
      bench.Report("good", {});
      bench.Do(Tick{});
    }
    CHECK(bench.core.state().FindWorker(worker)->lost());
  };
  // It loses each once, and then there is nothing for it.
  const bool restarts = GENERATE(false, true);
  for (const char* task : {"r1/a@host", "r1/b@host"}) {
    CHECK(bench.Take("bad").task_id == task);
    fall_silent("bad");
    if (restarts) bench.Restart();
  }
  CHECK(bench.Join("bad").start.empty());
  CHECK(bench.Task("r1/a@host").losses() == 1);
  bench.Do(SetTask{"r1/b@host", v1::HELD, ""});
  CHECK(bench.Report("good", {}, {}, 1).start.at(0).task_id == "r1/a@host");
  // Nor is it given back to one that it was lost with before, unless there is nobody else.
  CHECK(bench.Join("bad").start.empty());
  for (int i = 0; i < 70; ++i) {
    bench.now_ms += 1000;
    bench.Report("bad", {});
    bench.Do(Tick{});
  }
  CHECK(bench.core.state().FindWorker("good")->lost());
  CHECK(bench.Task("r1/a@host").losses() == 2);
  CHECK(bench.Join("bad").start.at(0).task_id == "r1/a@host");
  bench.now_ms += 100'000;
  bench.Do(Tick{});
  CHECK(bench.Task("r1/a@host").state() == v1::PARKED);
}

TEST_CASE("a worker that is alone parks what it loses three times, unless another has come") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const bool comes = GENERATE(false, true);
  for (int i = 0; i < kMaxLosses; ++i) {
    CHECK(bench.Task("r1/a@host").state() == v1::QUEUED);
    bench.Take("w");
    bench.now_ms += 50'000;
    if (comes && i + 1 == kMaxLosses) bench.Join("other");
    bench.now_ms += 15'000;
    bench.Do(Tick{});
  }
  CHECK(bench.Task("r1/a@host").losses() == kMaxLosses);
  CHECK(bench.Task("r1/a@host").state() == (comes ? v1::QUEUED : v1::PARKED));
  if (comes) CHECK(bench.Report("other", {}, {}, 1).start.size() == 1);
}

TEST_CASE("a lease whose worker speaks of it for ever is taken from it") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w1");
  bool dropped = false;
  const int64_t most_ms = kOverdueMs + static_cast<int64_t>(1000 * kOverdueFactor * grant.seconds);
  for (; bench.now_ms < 2 * most_ms && !dropped; bench.now_ms += 5'000) {
    bench.Do(Tick{});
    const auto answer = bench.Report("w1", {StatusOf(grant, 3, false)});
    dropped = answer.drop == std::vector<std::string>{grant.lease_id};
    if (bench.now_ms < most_ms) CHECK_FALSE(dropped);
  }
  REQUIRE(dropped);
  CHECK(bench.Task("r1/a@host").losses() == 1);
  CHECK_THAT(bench.Task("r1/a@host").reason(), Catch::Contains("w1 does not come to an end"));
}

TEST_CASE("a run is known by its id alone") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  CHECK(bench.core.state().FindRun("r1") != nullptr);
  for (const char* id : {"r01", "r 1", "r+1", "r1 ", "r", "r0", ""}) {
    INFO(id);
    CHECK(bench.core.state().FindRun(id) == nullptr);
  }
}

TEST_CASE("failures that are not permanent end after three in a row") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  Grant grant = bench.Take("w");
  for (int i = 0; i < kMaxFailures; ++i) {
    v1::LeaseStatus status = StatusOf(grant, 1, true);
    status.set_failure("out of memory");
    const SynchronizeAnswer answer = bench.Report("w", {status}, {}, 1);
    if (!answer.start.empty()) grant = answer.start[0];
  }
  CHECK(bench.Task("r1/a@host").state() == v1::FAILED);
  CHECK(bench.Task("r1/a@host").reason() == "out of memory (3 times in a row)");
}

TEST_CASE("a new session ends the old one, and keeps the leases it lists") {
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}));
  const Grant first = bench.Take("w");
  const std::string old_session = bench.session["w"];
  const bool keeps = GENERATE(true, false);
  Synchronize join = SyncOf("w", "", 0);
  if (keeps) join.leases = {StatusOf(first, 3)};
  const SynchronizeAnswer answer = bench.Sync(join);
  CHECK(answer.session_id != old_session);
  CHECK(bench.Try(SyncOf("w", old_session)).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(bench.Task("r1/a@host").state() == (keeps ? v1::LEASED : v1::QUEUED));
  CHECK(bench.Task("r1/a@host").losses() == (keeps ? 0 : 1));
}

// A call that joins, of a process that says which it is.
Synchronize JoinOf(const std::string& instance, std::vector<std::string> follows = {}) {
  Synchronize join = SyncOf("w", "");
  join.instance = instance;
  join.follows = std::move(follows);
  return join;
}

TEST_CASE("a join said again, or late, is of the same process and changes nothing") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const SynchronizeAnswer joined = bench.Sync(JoinOf("i1"));
  CHECK(bench.Sync(JoinOf("i1")).session_id == joined.session_id);
  const Grant grant = bench.Sync(SyncOf("w", joined.session_id)).start.at(0);
  const int64_t revision = bench.core.state().revision();
  if (GENERATE(false, true)) bench.Restart();
  const SynchronizeAnswer late = bench.Sync(JoinOf("i1"));
  CHECK(late.session_id == joined.session_id);
  CHECK(late.start.at(0).lease_id == grant.lease_id);  // which it does not list
  CHECK(bench.core.state().revision() == revision);
  CHECK(bench.Task("r1/a@host").losses() == 0);
}

TEST_CASE("a worker's name goes to who follows it, and to a stranger when it has fallen silent") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const std::string session = bench.Sync(JoinOf("i1")).session_id;
  const Grant grant = bench.Sync(SyncOf("w", session)).start.at(0);
  bench.session["w"] = session;
  if (GENERATE(false, true)) bench.Restart();
  for (const Synchronize& stranger :
       {JoinOf("i2"), JoinOf("i2", {"i0"}), JoinOf("", {}), JoinOf("i2", {"i10", "i"})}) {
    const absl::Status refused = bench.Try(stranger).status();
    CHECK(refused.code() == absl::StatusCode::kAlreadyExists);
    CHECK_THAT(std::string(refused.message()), Catch::Contains("'w'") && Catch::Contains("60 s"));
  }
  CHECK(bench.Report("w", {StatusOf(grant, 1)}).drop.empty());
  SECTION("a follower, also of one that it did not see") {
    const SynchronizeAnswer next = bench.Sync(JoinOf("i3", {"i1", "i2"}));
    CHECK(next.session_id != session);
    CHECK(bench.Task("r1/a@host").losses() == 1);  // its process has died with it
    CHECK(bench.Try(JoinOf("i1")).status().code() == absl::StatusCode::kAlreadyExists);
    CHECK(bench.Sync(JoinOf("i3")).session_id == next.session_id);
  }
  SECTION("silence") {
    const CoreOptions options;
    for (int64_t silent = 0; silent < options.lease_ttl_ms + options.park_ms; silent += 1000) {
      CHECK(bench.Try(JoinOf("i2")).status().code() == absl::StatusCode::kAlreadyExists);
      bench.now_ms += 1000;
      bench.Do(Tick{});
    }
    CHECK(bench.Try(JoinOf("i2")).ok());
    CHECK(bench.Try(JoinOf("i1")).status().code() == absl::StatusCode::kAlreadyExists);
  }
  SECTION("it leaves") {
    v1::LeaseStatus over = StatusOf(grant, 2, true);
    Synchronize leaving = SyncOf("w", session, 0);
    leaving.worker.set_draining(true);
    leaving.leases = {over};
    bench.Sync(leaving);
    CHECK(bench.Try(JoinOf("i2")).ok());
  }
}

TEST_CASE("a worker that knows of no instances takes over from one that does not either") {
  Bench bench;
  const std::string first = bench.Sync(JoinOf("")).session_id;
  CHECK(bench.Sync(JoinOf("")).session_id != first);
  CHECK(bench.Try(JoinOf("i1", {"i0"})).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(bench.Try(JoinOf("i1")).ok());
}

TEST_CASE("after a restart workers have time to come back, with their session and lease") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  bench.Report("w", {StatusOf(grant, 4)});
  bench.now_ms += 1'000'000;
  bench.Restart();
  bench.Do(Tick{});
  bench.now_ms += CoreOptions{}.failover_ttl_ms - 1;
  bench.Do(Tick{});
  CHECK(bench.Task("r1/a@host").state() == v1::LEASED);
  const SynchronizeAnswer answer =
      bench.Report("w", {StatusOf(grant, 8)}, {ResultOf(grant, "t", 3)});
  CHECK(answer.session_id == bench.session["w"]);
  CHECK(answer.drop.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 3);

  bench.Restart();
  bench.now_ms += CoreOptions{}.failover_ttl_ms;
  bench.Do(Tick{});
  CHECK(bench.Task("r1/a@host").state() == v1::QUEUED);
}

TEST_CASE("an idle worker is parked, a busy, draining or sick one is told when to call") {
  Bench bench;
  SynchronizeAnswer answer = bench.Sync(SyncOf("w", ""));
  CHECK_FALSE(answer.park);  // it learns its session first
  const std::string session = answer.session_id;
  CHECK(bench.Sync(SyncOf("w", session)).park);
  Synchronize sick = SyncOf("w", session);
  sick.worker.set_healthy(false);
  bench.Do(SubmitOf({"a"}));
  answer = bench.Sync(sick);
  CHECK(answer.start.empty());
  CHECK_FALSE(answer.park);
  CHECK(answer.next_sync_after_ms > 0);
  Synchronize leaving = SyncOf("w", session);
  leaving.worker.set_draining(true);
  CHECK(bench.Sync(leaving).start.empty());
  CHECK(bench.core.state().FindWorker("w")->lost());
}

TEST_CASE("a draining worker leaves when it has finished") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  Synchronize draining = SyncOf("w", bench.session["w"]);
  draining.worker.set_draining(true);
  draining.leases = {StatusOf(grant, 4)};
  CHECK(bench.Sync(draining).next_sync_after_ms > 0);
  CHECK_FALSE(bench.core.state().FindWorker("w")->lost());
  draining.leases = {StatusOf(grant, 5, true)};
  CHECK(bench.Sync(draining).recorded.size() == 1);
  CHECK(bench.core.state().FindWorker("w")->lost());
  CHECK(bench.Task("r1/a@host").losses() == 0);
}

TEST_CASE("a person holds a task and releases it") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  CHECK(bench.Try(SetTask{"r1/a@host", v1::HELD, "wait for me"})->state() == v1::HELD);
  CHECK(bench.RunDone());
  const SynchronizeAnswer answer =
      bench.Report("w", {StatusOf(grant, 5)}, {ResultOf(grant, "t", 2)}, 1);
  CHECK(answer.drop == std::vector<std::string>{grant.lease_id});
  CHECK(answer.start.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 2);  // what was found is kept
  bench.Do(SetTask{"r1/a@host", v1::QUEUED, ""});
  CHECK(bench.Report("w", {}, {}, 1).start.at(0).fence == 2);
  CHECK(bench.Try(SetTask{"r1/x@host", v1::HELD, ""}).status().code() ==
        absl::StatusCode::kNotFound);
  CHECK(bench.Try(SetTask{"r1/a@host", v1::FAILED, ""}).status().code() == kInvalid);
}

TEST_CASE("a task queued again after its budget gets another") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  bench.Report("w", {StatusOf(grant, 40, true)}, {ResultOf(grant, "t", 2)});
  CHECK(bench.Task("r1/a@host").state() == v1::CONVERGED);
  CHECK(bench.Try(SetTask{"r1/a@host", v1::QUEUED, ""})->seconds_budget() == 80);
  CHECK(bench.Report("w", {}, {}, 1).start.size() == 1);
}

TEST_CASE("requests outside the limits are refused") {
  Bench bench;
  CHECK(bench.Try(SyncOf("", "")).status().code() == kInvalid);
  CHECK(bench.Try(SyncOf("a|b", "")).status().code() == kInvalid);
  CHECK(bench.Try(SyncOf("w", "", kMaxSlots + 1)).status().code() == kInvalid);
  CHECK(bench.Try(JoinOf(std::string(65, 'i'))).status().code() == kInvalid);
  CHECK(bench.Try(JoinOf("i|")).status().code() == kInvalid);
  CHECK(bench.Try(JoinOf("i", {" "})).status().code() == kInvalid);
  CHECK(bench.Try(JoinOf("i", std::vector<std::string>(kMaxFollowed + 1, "h"))).status().code() ==
        kInvalid);
  CHECK(bench.Try(SyncOf("w", "none")).status().code() == absl::StatusCode::kFailedPrecondition);
  CoreOptions small;
  small.max_workers = 1;
  Core core(small);
  CHECK(core.Handle(SyncOf("w1", ""), {}).reply.ok());
  CHECK(core.Handle(SyncOf("w1", ""), {}).reply.ok());
  CHECK(core.Handle(SyncOf("w2", ""), {}).reply.status().code() ==
        absl::StatusCode::kResourceExhausted);
}

}  // namespace warpsmith::planner
