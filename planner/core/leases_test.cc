// Leases: granted, renewed, said again, fenced, ended, lost; and what becomes of their tasks.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "planner/core/core.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Bench;
using testing::ResultOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

}  // namespace

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
  CHECK(bench.Try(wrong).status().code() == absl::StatusCode::kInvalidArgument);
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

TEST_CASE("trials with numbers are recorded once, and their gaps are counted") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  const auto report = [&](int64_t first, int64_t trials) {
    Result batch;
    batch.lease_id = grant.lease_id;
    batch.task_id = grant.task_id;
    batch.fence = grant.fence;
    batch.trials.set_batch(absl::StrCat(first, "+", trials));
    batch.trials.set_first(first);
    batch.trials.set_trials(trials);
    return bench.Report("w", {StatusOf(grant, 1)}, {batch}).heard.at(grant.lease_id);
  };
  const v1::Task& task = bench.Task("r1/a@host");
  CHECK(report(1, 10) == 10);
  CHECK(report(1, 10) == 10);
  CHECK(report(1, 4) == 10);   // the same, in another batch
  CHECK(report(8, 10) == 10);  // of these three are there: its worker has to say which are new
  CHECK(task.trials() == 10);
  CHECK(report(11, 5) == 15);
  CHECK(report(20, 1) == 20);
  CHECK(task.trials() == 16);
  CHECK(task.trials_missing() == 4);
  bench.Restart();
  CHECK(report(20, 1) == 20);
  CHECK(task.trials() == 16);
  // The next lease's begin anew.
  bench.Report("w", {StatusOf(grant, 1, true)}, {}, 1);
  CHECK(bench.core.state().FindTask("r1/a@host")->heard() == 0);
}

TEST_CASE("a lease of another history is nobody's, whatever its task and fence") {
  Bench bench;
  bench.core.BeOf("0123456789abcdef.1");
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  CHECK(grant.lease_id == "r1/a@host#1.01234567");
  CHECK(bench.session["w"] == "w/1.01234567");
  Grant other = grant;
  for (const char* id : {"r1/a@host#1", "r1/a@host#1.01234567.2", "r1/a@host#1.89abcdef"}) {
    other.lease_id = id;
    const auto answer = bench.Report("w", {}, {ResultOf(other, "t", 2)});
    CHECK(answer.drop == std::vector<std::string>{id});
  }
  CHECK(bench.Task("r1/a@host").incumbent_blob().empty());
  // Brought back from a copy: what was granted before counts, what is granted now is told apart.
  const v1::PlannerState copy = bench.core.state().ToProto();
  bench.core = Core(CoreOptions{});
  bench.core.BeOf("0123456789abcdef.2");
  bench.core.Restore(copy);
  bench.core.Forgive({bench.now_ms, bench.now_ms});
  CHECK(bench.Report("w", {StatusOf(grant, 1, true)}, {ResultOf(grant, "t", 2)}).drop.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 2);
  const auto next = bench.Sync(SyncOf("w", bench.session["w"]));
  REQUIRE(next.start.size() == 1);
  CHECK(next.start[0].lease_id == "r1/a@host#2.01234567.2");
}

TEST_CASE("a worker that knows more of a history than its log says so") {
  Bench bench;
  bench.core.BeOf("0123456789abcdef.1");
  const SynchronizeAnswer joined = bench.Sync(SyncOf("w", ""));
  CHECK(joined.store == "0123456789abcdef.1");
  CHECK(joined.revision == bench.core.state().revision());
  Synchronize call = SyncOf("w", joined.session_id);
  call.store = joined.store;
  call.revision = joined.revision;
  CHECK(bench.Try(call).ok());
  call.revision = joined.revision + 5;
  const absl::Status status = bench.Try(call).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("5 events that were durable are gone"));
  // Of another history it says nothing.
  call.store = "0123456789abcdef.2";
  CHECK(bench.Try(call).ok());
}

TEST_CASE("trials without numbers are recorded once for each batch") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  Result batch;
  batch.lease_id = grant.lease_id;
  batch.task_id = grant.task_id;
  batch.fence = grant.fence;
  batch.trials.set_batch("b1");
  batch.trials.set_trials(10);
  batch.trials.set_judged(4);
  batch.trials.set_implausible("trial t3: too fast");
  for (int i = 0; i < 3; ++i) {
    CHECK(bench.Report("w", {StatusOf(grant, 1)}, {batch}).recorded.at(0) == grant.lease_id);
  }
  CHECK(bench.Task("r1/a@host").trials() == 10);
  CHECK(bench.Task("r1/a@host").trials_judged() == 4);
  // What nobody believed is not lost with the search.
  batch.trials.set_batch("b2");
  batch.trials.clear_implausible();
  v1::LeaseStatus over = StatusOf(grant, 5, true);
  over.set_converged(true);
  bench.Report("w", {over}, {batch, ResultOf(grant, "t", 1.5)});
  CHECK(bench.Task("r1/a@host").state() == v1::CONVERGED);
  CHECK(bench.Task("r1/a@host").alarm() == "to be reviewed: trial t3: too fast");
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
  // What is stored holds it, and a person who queues the task again clears it.
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

}  // namespace warpsmith::planner
