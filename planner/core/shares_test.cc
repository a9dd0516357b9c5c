// Who is given what: submitters, weights, priorities, needs.
#include <catch2/catch.hpp>
#include <climits>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/core/limits.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Bench;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

std::vector<std::string> Names(const std::string& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat(prefix, i));
  return names;
}

// Ends its slice, whatever was granted, after so many seconds, and takes the next.
Grant Next(Bench& bench, const std::string& worker, const Grant& grant, double seconds) {
  bench.now_ms += 10'000;
  const SynchronizeAnswer answer = bench.Report(worker, {StatusOf(grant, seconds, true)}, {}, 1);
  REQUIRE(answer.start.size() == 1);
  return answer.start[0];
}

std::string RunOf(const Grant& grant) { return grant.task_id.substr(0, grant.task_id.find('/')); }

std::string SaysOf(Bench& bench, const Submit& submit) {
  return std::string(bench.Try(submit).status().message());
}

}  // namespace

TEST_CASE("runs share the cards, however many tasks one of them has") {
  Bench bench;
  bench.Do(SubmitOf(Names("many", 500), "host", 100));
  bench.Do(SubmitOf(Names("few", 60), "host", 100));
  Grant grant = bench.Take("w");
  std::map<std::string, int> slices;
  for (int i = 0; i < 100; ++i) {
    ++slices[RunOf(grant)];
    grant = Next(bench, "w", grant, 70);
  }
  CHECK(slices["r1"] == 50);
  CHECK(slices["r2"] == 50);
}

TEST_CASE("submitters share by weight, over what they used, their runs together") {
  Bench bench;
  const auto submit = [&](const std::string& who, double weight) {
    Submit set = SubmitOf(Names("p", 200), "host", 100);
    set.submitter = who;
    set.weight = weight;
    return bench.Do(set).id();
  };
  submit("ann", 3);
  submit("bob", 1);
  submit("bob", 0);  // as it was
  const std::vector<std::string> workers = {"v", "w"};
  std::map<std::string, Grant> grants;
  for (const std::string& worker : workers) grants[worker] = bench.Take(worker);
  std::map<std::string, double> seconds;
  for (int i = 0; i < 120; ++i) {
    for (const std::string& worker : workers) {
      // Bob's tasks end early: shares are of seconds, not of slices.
      const bool ann = RunOf(grants[worker]) == "r1";
      const double spent = ann ? 70 : 35;
      seconds[ann ? "ann" : "bob"] += spent;
      grants[worker] = Next(bench, worker, grants[worker], spent);
    }
    if (i == 60) bench.Restart();
  }
  CHECK(seconds["ann"] / seconds["bob"] == Approx(3).epsilon(0.06));
  CHECK(bench.core.state().submitters().size() == 2);
  CHECK(bench.core.state().submitters().at("bob").weight() == 1);
}

TEST_CASE("who comes back after a day is not behind for ever, and who is new has the next turn") {
  Bench bench;
  bench.Do(SubmitOf(Names("a", 20), "host", 100));
  Grant grant = bench.Take("w");
  for (int i = 0; i < 4; ++i) grant = Next(bench, "w", grant, 70);
  bench.Do(SubmitOf(Names("b", 20), "host", 100));
  for (int i = 0; i < 4; ++i) {
    grant = Next(bench, "w", grant, 70);
    CHECK(RunOf(grant) == "r2");
  }
}

TEST_CASE("priority decides among a submitter's tasks, and not between submitters") {
  Bench bench;
  const auto submit = [&](const std::string& who, const std::string& name, int priority) {
    Submit set = SubmitOf({name}, "host", 20);
    set.submitter = who;
    set.priority = priority;
    bench.Do(set);
  };
  submit("ann", "late", -1);
  submit("ann", "soon", 5);
  submit("ann", "usual", 0);
  submit("bob", "bobs", 0);
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) order.push_back(bench.Take(absl::StrCat("w", i)).task_id);
  CHECK(order ==
        std::vector<std::string>{"r2/soon@host", "r4/bobs@host", "r3/usual@host", "r1/late@host"});
}

TEST_CASE("a person's priority is that of what waits, and of the others when they wait again") {
  Bench bench;
  for (const char* name : {"first", "second", "third"}) {
    Submit set = SubmitOf(Names(name, 2), "host", 100);
    set.submitter = "ann";
    bench.Do(set);
  }
  const Grant taken = bench.Take("v");
  CHECK(taken.task_id == "r1/first0@host");
  CHECK(bench.Do(SetPriority{"r3", 5, ""}).priority() == 5);
  CHECK(bench.Do(SetPriority{"r1", -1, "later"}).priority() == -1);
  if (GENERATE(false, true)) bench.Restart();
  // Its slice is not cut short, and its next one comes last.
  CHECK(bench.Report("v", {StatusOf(taken, 10)}).drop.empty());
  CHECK(bench.Report("v", {StatusOf(taken, 70, true)}).start.empty());
  std::vector<std::string> order;
  for (int i = 0; i < 6; ++i) order.push_back(bench.Take(absl::StrCat("w", i)).task_id);
  CHECK(std::set<std::string>(order.begin(), order.begin() + 2) ==
        std::set<std::string>{"r3/third0@host", "r3/third1@host"});
  CHECK(std::set<std::string>(order.begin() + 2, order.begin() + 4) ==
        std::set<std::string>{"r2/second0@host", "r2/second1@host"});
  CHECK(std::set<std::string>(order.begin() + 4, order.end()) ==
        std::set<std::string>{"r1/first0@host", "r1/first1@host"});
  CHECK(bench.Join("another").start.empty());
}

TEST_CASE("a run that waits for an architecture can be put before another") {
  Bench bench;
  for (const char* name : {"first", "second"}) {
    Submit set = SubmitOf({name}, "");
    set.submitter = "ann";
    bench.Do(set);
  }
  bench.Do(SetPriority{"r2", 1, ""});
  CHECK(bench.Take("w").task_id == "r2/second@any");
  CHECK(bench.Task("r1/first@any").arch() == "host");
}

TEST_CASE("a priority that says nothing new is no event, and one that is none is said to be so") {
  CoreOptions options;
  options.keep_over_tasks = 0;
  Bench bench;
  bench.core = Core(options);
  bench.Do(SubmitOf({"a"}));
  bench.Do(SubmitOf({"b"}));
  bench.Do(CancelRun{"r2", ""});
  bench.Do(Tick());  // it goes to the archive
  const int64_t before = bench.core.state().revision();
  const auto says = [&](const SetPriority& command) {
    return std::string(bench.Try(command).status().ToString());
  };
  using Catch::Contains;
  bench.Do(SetPriority{"r1", 0, "as it is"});
  CHECK_THAT(says({"r1", std::nullopt, ""}), Contains("INVALID") && Contains("-1000 to 1000"));
  for (const int wrong : {1'001, -1'001, INT_MAX, INT_MIN}) {
    CHECK_THAT(says({"r1", wrong, ""}), Contains("INVALID") && Contains(absl::StrCat(wrong)));
  }
  CHECK_THAT(says({"r1", 1, std::string(kMaxTextBytes + 1, 'x')}), Contains("a reason of"));
  CHECK_THAT(says({"r2", 1, ""}), Contains("FAILED_PRECONDITION") && Contains("archive"));
  CHECK_THAT(says({"r01", 1, ""}), Contains("NOT_FOUND") && Contains("warpsmith runs"));
  CHECK(bench.core.state().revision() == before);
  bench.Do(SetPriority{"r1", -1'000, ""});
  bench.Do(SetPriority{"r1", 1'000, ""});
  CHECK(bench.core.state().revision() == before + 2);
}

TEST_CASE("a task is given to a worker that has what it needs, and waits for one") {
  Bench bench;
  Submit set = SubmitOf({"a"}, "host", 20);
  set.needs = {"rack=3"};
  bench.Do(set);
  set = SubmitOf({"large"}, "host", 20);
  set.problems[0].bytes = {int64_t{100} << 30};
  bench.Do(set);
  const auto join = [&](const std::string& name, const std::string& label, int64_t gib) {
    Synchronize sync = SyncOf(name, "");
    if (!label.empty()) sync.worker.add_labels(label);
    sync.worker.set_device_bytes(gib << 30);
    sync.session_id = bench.Sync(sync).session_id;
    const SynchronizeAnswer answer = bench.Sync(sync);
    CHECK(bench.core.HasWorkFor(sync.worker) == false);
    return answer.start.empty() ? "none" : answer.start[0].task_id;
  };
  CHECK(join("plain", "", 80) == "none");
  CHECK(join("other", "rack=4", 80) == "none");
  CHECK(join("right", "rack=3", 80) == "r1/a@host");
  CHECK(join("big", "", 141) == "r2/large@host");
}

TEST_CASE("a task that is lost is for another worker only if one can take it") {
  Bench bench;
  Submit set = SubmitOf({"a"}, "host", 20);
  set.needs = {"rack=3"};
  bench.Do(set);
  bench.Join("other");  // live, and may not take it
  Synchronize sync = SyncOf("w", "");
  sync.worker.add_labels("rack=3");
  sync.session_id = bench.Sync(sync).session_id;
  Grant grant = bench.Sync(sync).start.at(0);
  v1::LeaseStatus failed = StatusOf(grant, 1, true);
  failed.set_failure("it crashed");
  sync.leases = {failed};
  // Given up by the one that can: there is nobody else, so that one has it again.
  CHECK(bench.Sync(sync).start.size() == 1);
}

TEST_CASE("a submitter, weight, priority or label that is none is said to be so") {
  Bench bench;
  const auto with = [](auto change) {
    Submit set = SubmitOf({"a"});
    change(set);
    return set;
  };
  using Catch::Contains;
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.submitter = "a b"; })), Contains("'a b'"));
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.submitter = "r12"; })),
             Contains("like a run"));
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.weight = -1; })), Contains("weight of -1"));
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.weight = NAN; })), Contains("weight of nan"));
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.priority = 1'001; })), Contains("1001"));
  CHECK_THAT(SaysOf(bench, with([](Submit& set) { set.needs = {"rack"}; })), Contains("'rack'"));
  Synchronize sync = SyncOf("w", "");
  sync.worker.add_labels("no label");
  CHECK(absl::IsInvalidArgument(bench.Try(sync).status()));
}

TEST_CASE("a run that shares by itself is forgotten when it is archived; a name is kept") {
  CoreOptions options;
  options.keep_over_tasks = 0;
  Bench bench;
  bench.core = Core(options);
  bench.Do(SubmitOf({"a"}));
  Submit named = SubmitOf({"b"});
  named.submitter = "ann";
  bench.Do(named);
  bench.Take("w");
  bench.Do(CancelRun{"r1", ""});
  bench.Do(CancelRun{"r2", ""});
  bench.core.TakeChanges();
  bench.Do(Tick());
  const auto& submitters = bench.core.state().submitters();
  REQUIRE(submitters.size() == 1);
  CHECK(submitters.count("ann") == 1);
  CHECK(bench.core.TakeChanges().gone == std::vector<std::string>{"r1"});
  bench.Restart();
  CHECK(bench.core.state().submitters().count("ann") == 1);
}

}  // namespace warpsmith::planner
