#include "planner/core/core.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "planner/core/limits.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Bench;
using testing::JoinOf;
using testing::ResultOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

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

TEST_CASE("runs that are over go to the archive, the oldest first, when there are too many") {
  CoreOptions options;
  options.keep_over_tasks = 2;
  Bench bench;
  bench.core = Core(options);
  const auto submit = [&](const std::string& request, const std::vector<std::string>& names) {
    Submit set = SubmitOf(names);
    set.request_id = request;
    return bench.Do(set).id();
  };
  const auto archived = [&] {
    bench.Do(Tick());
    return bench.core.state().archived_runs();
  };
  submit("q1", {"a", "b"});
  submit("q2", {"c"});
  submit("q3", {"d"});
  bench.Do(SetTask{"r1/b@host", v1::HELD, ""});
  bench.Do(CancelRun{"r2", ""});
  bench.Do(SetTask{"r1/a@host", v1::CANCELLED, ""});
  bench.Do(CancelRun{"r3", ""});
  // Two tasks may stay, and of a held one more is expected.
  CHECK(bench.RunDone());
  CHECK(archived() == 0);
  bench.core.TakeChanges();
  bench.Do(SetTask{"r1/b@host", v1::CANCELLED, ""});
  CHECK(archived() == 1);
  const State& state = bench.core.state();
  CHECK(state.FindRun("r1") == nullptr);
  CHECK(state.FindTask("r1/a@host") == nullptr);
  CHECK(state.tasks().size() == 2);
  CHECK(state.HasArchived());
  const Changes changes = bench.core.TakeChanges();
  CHECK(changes.archived.runs_size() == 1);
  REQUIRE(changes.archived.tasks_size() == 2);
  CHECK(changes.archived.tasks(1).task().state() == v1::CANCELLED);
  CHECK(changes.records.tasks_size() == 0);
  CHECK_FALSE(state.HasArchived());
  for (const char* id : {"r1", "r1/a@host", "r1/none@host"}) CHECK(state.IsArchived(id));
  for (const char* id : {"r2", "r01", "r4", "", "r", "r1x", "r2/c@host"}) {
    CHECK_FALSE(state.IsArchived(id));
  }
  // It changes no more, and its request still names it.
  for (int restarts = 0; restarts < 2; ++restarts) {
    CHECK(submit("q1", {"a", "b"}) == "r1");
    Submit other = SubmitOf({"a"});
    other.request_id = "q1";
    CHECK(absl::IsAlreadyExists(bench.Try(other).status()));
    const absl::Status set = bench.Try(SetTask{"r1/a@host", v1::QUEUED, ""}).status();
    CHECK(absl::IsFailedPrecondition(set));
    CHECK_THAT(std::string(set.message()), Catch::Contains("in the archive"));
    CHECK(absl::IsFailedPrecondition(bench.Try(CancelRun{"r1", ""}).status()));
    bench.Restart();
  }
  // Numbers are not used again, whatever is left.
  const v1::PlannerState snapshot = bench.core.state().ToProto();
  options.keep_over_tasks = 0;
  bench.core = Core(options);
  bench.core.Restore(snapshot);
  CHECK(archived() == 3);
  CHECK(bench.core.state().tasks().empty());
  CHECK(submit("q4", {"e"}) == "r4");
  // What is neither there nor archived was lost.
  v1::PlannerState lost = bench.core.state().ToProto();
  lost.clear_runs();
  lost.clear_tasks();
  bench.core.Restore(lost);
  CHECK(bench.core.state().IsArchived("r3"));
  CHECK_FALSE(bench.core.state().IsArchived("r4"));
  CHECK(absl::IsNotFound(bench.Try(CancelRun{"r4", ""}).status()));
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
  CHECK(bench.core.HasWorkFor(testing::SyncOf("w", "", 1, "sm_90a").worker));
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

TEST_CASE("a run is known by its id alone") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  CHECK(bench.core.state().FindRun("r1") != nullptr);
  for (const char* id : {"r01", "r 1", "r+1", "r1 ", "r", "r0", ""}) {
    INFO(id);
    CHECK(bench.core.state().FindRun(id) == nullptr);
  }
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

TEST_CASE("a person cancels a task") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  const Grant grant = bench.Take("w");
  bench.Report("w", {StatusOf(grant, 3)});
  CHECK(bench.Try(SetTask{"r1/a@host", v1::CANCELLED, "no longer wanted"})->state() ==
        v1::CANCELLED);
  CHECK(bench.RunDone());
  CHECK(bench.Task("r1/a@host").reason() == "no longer wanted");
  CHECK(bench.Task("r1/a@host").seconds_spent() == 3);
  // The worker hears of it at its next call; what that brings counts.
  SynchronizeAnswer answer = bench.Report("w", {StatusOf(grant, 5)}, {ResultOf(grant, "t", 2)}, 1);
  CHECK(answer.drop == std::vector<std::string>{grant.lease_id});
  CHECK(answer.start.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 2);
  // So does what comes after, of the last trial that was under way.
  answer = bench.Report("w", {}, {ResultOf(grant, "u", 3)}, 1);
  CHECK(answer.drop.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 3);
  CHECK(bench.Task("r1/a@host").state() == v1::CANCELLED);
  bench.Restart();
  CHECK(bench.RunDone());
  CHECK(bench.Join("v").start.empty());
  // It was nobody's fault, and a person may want it after all.
  CHECK(bench.core.state().FindWorker("w")->ledger().empty());
  bench.Do(SetTask{"r1/a@host", v1::QUEUED, ""});
  CHECK(bench.Report("v", {}, {}, 1).start.at(0).fence == 2);
}

TEST_CASE("a cancelled task that has come to its end stays as it is") {
  Bench bench;
  bench.Do(SubmitOf({"a", "b"}));
  const Grant grant = bench.Take("w");
  bench.Report("w", {StatusOf(grant, 40, true)}, {ResultOf(grant, "t", 2)});
  REQUIRE(bench.Task("r1/a@host").state() == v1::CONVERGED);
  const int64_t revision = bench.core.state().revision();
  CHECK(bench.Try(SetTask{"r1/a@host", v1::CANCELLED, ""})->state() == v1::CONVERGED);
  CHECK(bench.core.state().revision() == revision);
  // One whose budget is spent just then has come to it.
  const Grant last = bench.Report("w", {}, {}, 1).start.at(0);
  bench.Report("w", {StatusOf(last, 40)}, {ResultOf(last, "u", 2)});
  CHECK(bench.Try(SetTask{"r1/b@host", v1::CANCELLED, ""})->state() == v1::CONVERGED);
}

TEST_CASE("a person cancels a run") {
  Bench bench;
  for (Submit set : {SubmitOf({"a", "b", "c", "d"}), SubmitOf({"a"})}) {
    set.submitter = "ann";  // so that the runs do not take turns
    bench.Do(set);
  }
  const Grant grant = bench.Take("w");
  bench.Report("w", {StatusOf(grant, 40, true)}, {ResultOf(grant, "t", 2)});
  const Grant next = bench.Report("w", {}, {}, 1).start.at(0);
  bench.Do(SetTask{"r1/d@host", v1::HELD, ""});
  const v1::CancelRunReply reply = bench.Do(CancelRun{"r1", "a mistake"});
  CHECK(reply.cancelled() == 3);
  CHECK(reply.run().done());
  CHECK(bench.Task(grant.task_id).state() == v1::CONVERGED);
  for (const char* id : {"r1/b@host", "r1/c@host", "r1/d@host"}) {
    CHECK(bench.Task(id).state() == v1::CANCELLED);
    CHECK(bench.Task(id).reason() == "a mistake");
  }
  // Said again it changes nothing; the other run goes on.
  CHECK(bench.Do(CancelRun{"r1", "a mistake"}).cancelled() == 0);
  const SynchronizeAnswer answer = bench.Report("w", {StatusOf(next, 1)}, {}, 1);
  CHECK(answer.drop == std::vector<std::string>{next.lease_id});
  CHECK(answer.start.at(0).task_id == "r2/a@host");
  CHECK(bench.Try(CancelRun{"r3", ""}).status().code() == absl::StatusCode::kNotFound);
  CHECK(bench.Try(CancelRun{"r1", std::string(kMaxTextBytes + 1, 'x')}).status().code() ==
        kInvalid);
}

TEST_CASE("a run that waits for an architecture can be cancelled") {
  Bench bench;
  bench.Do(SubmitOf({"a"}, ""));
  CHECK(bench.Do(CancelRun{"r1", ""}).cancelled() == 1);
  CHECK(bench.Task("r1/a@any").reason() == "cancelled by a person");
  CHECK(bench.Join("w").start.empty());
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
