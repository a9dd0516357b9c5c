// Whom the ends of leases are held against: tasks, workers, or nobody.
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/problem/cause.h"
#include "planner/core/core.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Bench;
using testing::JoinOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

// A bench that knows of each lease's end.
class Court : public Bench {
 public:
  const v1::WorkerRecord& Worker(const std::string& id) { return *core.state().FindWorker(id); }
  // Its ledger, "a b c".
  std::string Ledger(const std::string& worker) {
    std::string names;
    for (const v1::Blame& blame : Worker(worker).ledger()) {
      names += (names.empty() ? "" : " ") + Task(blame.task_id()).problem_name();
    }
    return names;
  }
  bool Quarantined(const std::string& worker) { return Worker(worker).quarantined(); }
  // What it is granted when it asks; it must be something.
  Grant Ask(const std::string& worker) {
    if (session.count(worker) == 0) {
      session[worker] = Sync(SyncOf(worker, "", 0)).session_id;
    }
    const SynchronizeAnswer answer = Report(worker, {}, {}, 1);
    REQUIRE(answer.start.size() == 1);
    return answer.start[0];
  }
  bool GetsNothing(const std::string& worker) { return Report(worker, {}, {}, 1).start.empty(); }
  void End(const std::string& worker, const Grant& grant, const std::string& failure = "",
           bool permanent = false) {
    v1::LeaseStatus status = StatusOf(grant, 2, true);
    status.set_failure(failure);
    status.set_permanent(permanent);
    Report(worker, {status});
  }
  // Its process dies and another one comes.
  void Die(const std::string& worker) { session[worker] = Sync(SyncOf(worker, "", 0)).session_id; }
};

}  // namespace

TEST_CASE("a worker that loses three different tasks in a row is given nothing until released") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d"}));
  court.Ask("other");  // a, and keeps it
  court.Die("w");      // it comes
  const std::string lost[] = {"b", "c", "d"};
  for (const std::string& name : lost) {
    CHECK_FALSE(court.Quarantined("w"));
    court.now_ms += 10;
    CHECK(court.Ask("w").task_id == "r1/" + name + "@host");
    court.Die("w");
  }
  REQUIRE(court.Quarantined("w"));
  CHECK(court.Ledger("w") == "b c d");
  CHECK(court.Worker("w").ledger(0).cause() == v1::SUPERSEDED);
  CHECK(court.Worker("w").ledger(0).at_unix_ms() == 10);
  CHECK(court.core.state().quarantined() == std::set<std::string>{"w"});
  const v1::WorkerInfo view = court.core.View(court.Worker("w"));
  CHECK(view.quarantined());
  CHECK(view.ledger_size() == 3);

  // It is told so, and called again before long; its name is all that counts.
  const int how = GENERATE(0, 1, 2);
  if (how == 1) court.Restart();
  if (how == 2) court.Die("w");
  const SynchronizeAnswer answer = court.Report("w", {}, {}, 1);
  CHECK(answer.start.empty());
  CHECK_FALSE(answer.park);
  CHECK(answer.next_sync_after_ms > 0);
  CHECK_THAT(answer.set_aside, Catch::Contains("r1/b@host (started anew), r1/c@host") &&
                                   Catch::Contains("`warpsmith release w`"));
  CHECK(court.Sync(SyncOf("w", "", 1)).set_aside == answer.set_aside);

  CHECK(court.Try(ReleaseWorker{"v", ""}).status().code() == absl::StatusCode::kNotFound);
  CHECK(court.Try(ReleaseWorker{"w", std::string(10'000, 'x')}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  court.Die("w");
  const v1::WorkerInfo released = court.Do(ReleaseWorker{"w", "a new fan"});
  CHECK_FALSE(released.quarantined());
  CHECK(released.ledger_size() == 0);
  const int64_t revision = court.core.state().revision();
  CHECK(court.Do(ReleaseWorker{"w", ""}).id() == "w");  // said again
  CHECK(court.core.state().revision() == revision);
  // Nobody else is there for what it lost: it has them again.
  court.Do(SetTask{"r1/a@host", v1::HELD, ""});
  court.Do(SetTask{"r1/b@host", v1::HELD, ""});
  Synchronize leaving = SyncOf("other", court.session["other"], 0);
  leaving.worker.set_draining(true);
  court.Sync(leaving);
  CHECK(court.Ask("w").task_id == "r1/c@host");
  CHECK(court.Report("w", {}).set_aside.empty());
}

TEST_CASE("what counts against a worker, and what does not") {
  enum Fate {
    kFinished,
    kGivenUp,
    kImpossible,
    kDies,
    kSilent,
    kUnspoken,
    kOverdue,
    kHeld,
    kHandedBack,
    kFailsAsItLeaves,
    kDiesAsItLeaves,
    kSilentAsItLeaves,
    kInterrupted,
    kSilentWithAFault,
    kDiesWithAFault,
  };
  struct Case {
    const char* name;
    Fate fate;
    v1::Cause cause;
    bool worker, task;  // whom it counts against
  };
  const Case c = GENERATE(values<Case>({
      {"finished", kFinished, v1::FINISHED, false, false},
      {"given up", kGivenUp, v1::GIVEN_UP, true, true},
      {"impossible", kImpossible, v1::IMPOSSIBLE, false, true},
      {"a new instance", kDies, v1::SUPERSEDED, true, true},
      {"silence", kSilent, v1::UNHEARD, true, true},
      {"not spoken of", kUnspoken, v1::UNSPOKEN, true, true},
      {"no end", kOverdue, v1::OVERDUE, true, true},
      {"held by a person", kHeld, v1::TAKEN_BACK, false, false},
      {"handed back by who leaves", kHandedBack, v1::HANDED_BACK, false, false},
      {"stopped, and failing for that", kFailsAsItLeaves, v1::HANDED_BACK, false, false},
      {"killed as it leaves", kDiesAsItLeaves, v1::HANDED_BACK, false, false},
      {"silent as it leaves", kSilentAsItLeaves, v1::HANDED_BACK, false, false},
      {"interrupted by its card", kInterrupted, v1::HANDED_BACK, false, false},
      {"silent, and its card is at fault", kSilentWithAFault, v1::HANDED_BACK, false, false},
      {"killed, and its card is at fault", kDiesWithAFault, v1::HANDED_BACK, false, false},
  }));
  INFO(c.name);
  Court court;
  court.Do(SubmitOf({"a"}));
  const Grant grant = court.Ask("w");
  const auto leave = [&](bool over, const std::string& failure = "") {
    Synchronize sync = SyncOf("w", court.session["w"], 0);
    sync.worker.set_draining(true);
    sync.leases = {StatusOf(grant, 2, over)};
    sync.leases[0].set_failure(failure);
    court.Sync(sync);
  };
  const auto fail = [&] {
    Synchronize sync = SyncOf("w", court.session["w"], 0);
    sync.worker.set_healthy(false);
    sync.worker.set_fault("Xid 79");
    sync.leases = {StatusOf(grant, 2)};
    court.Sync(sync);
  };
  std::vector<v1::Event> events;
  const auto tick = [&] {
    const auto outcome = court.core.Handle(Tick{}, {court.now_ms, court.now_ms});
    events.insert(events.end(), outcome.events.begin(), outcome.events.end());
  };
  switch (c.fate) {
    case kFinished:
      court.End("w", grant);
      break;
    case kGivenUp:
      court.End("w", grant, "out of memory");
      break;
    case kImpossible:
      court.End("w", grant, "unknown operator", true);
      break;
    case kDies:
      court.Die("w");
      break;
    case kUnspoken:
      for (; court.core.state().FindTask("r1/a@host")->has_lease(); court.now_ms += 1000) {
        court.Report("w", {});
        tick();
      }
      break;
    case kOverdue:
      for (; court.core.state().FindTask("r1/a@host")->has_lease(); court.now_ms += 5000) {
        court.Report("w", {StatusOf(grant, 3)});
        tick();
      }
      break;
    case kHeld:
      court.Do(SetTask{"r1/a@host", v1::HELD, ""});
      break;
    case kHandedBack:
      leave(true);
      break;
    case kFailsAsItLeaves:
      leave(true, "the judge died");
      break;
    case kDiesAsItLeaves:
      leave(false);
      court.Die("w");
      break;
    case kInterrupted: {
      v1::LeaseStatus status = StatusOf(grant, 2, true);
      status.set_failure("the judge died");
      status.set_permanent(true);
      status.set_interrupted(true);
      court.Report("w", {status});
      break;
    }
    case kDiesWithAFault:
      fail();
      court.Die("w");
      break;
    case kSilentAsItLeaves:
    case kSilentWithAFault:
      c.fate == kSilentAsItLeaves ? leave(false) : fail();
      [[fallthrough]];
    case kSilent:
      court.now_ms += 100'000;
      tick();
  }
  for (const v1::Event& event : events) {
    if (event.has_lease_ended()) CHECK(event.lease_ended().cause() == c.cause);
  }
  CHECK_FALSE(court.core.state().FindTask("r1/a@host")->has_lease());
  CHECK(court.Ledger("w") == (c.worker ? "a" : ""));
  if (c.worker) CHECK(court.Worker("w").ledger(0).cause() == c.cause);
  CHECK(court.core.state().FindTask("r1/a@host")->lost_with_size() == (c.task ? 1 : 0));
  CHECK(court.Task("r1/a@host").losses() == (problem::IsLoss(c.cause) ? 1 : 0));
}

TEST_CASE("a worker whose card is at fault is quarantined until a person releases it") {
  Court court;
  court.Do(SubmitOf({"a", "b"}));
  const Grant a = court.Ask("w");
  Synchronize sync = SyncOf("w", court.session["w"], 1);
  sync.worker.set_healthy(false);
  sync.worker.set_health_reason("Xid 79");
  sync.worker.set_fault("Xid 79");
  sync.leases = {StatusOf(a, 2, true)};
  sync.leases[0].set_interrupted(true);
  const SynchronizeAnswer told = court.Sync(sync);
  CHECK(told.start.empty());
  CHECK(told.set_aside ==
        "its card is at fault: Xid 79; `warpsmith release w` gives it work again");
  REQUIRE(court.Quarantined("w"));
  CHECK(court.Worker("w").ledger_size() == 0);
  CHECK(problem::WhyQuarantined(court.core.View(court.Worker("w"))) == "Xid 79");
  // Not by starting it anew, nor the planner; nor by what others lose.
  court.Restart();
  court.session.erase("w");
  court.Die("w");
  CHECK(court.Quarantined("w"));
  CHECK(court.GetsNothing("w"));
  court.Ask("other");
  court.Die("other");
  CHECK(court.Quarantined("w"));
  court.Do(ReleaseWorker{"w", "a new card"});
  CHECK_FALSE(court.Quarantined("w"));
  CHECK(court.core.View(court.Worker("w")).fault().empty());
  court.Ask("w");
}

TEST_CASE("a fault that is told again after a release is known; another one is not") {
  Court court;
  court.Do(SubmitOf({"a"}));
  court.Die("w");
  const auto say = [&](const std::string& fault) {
    Synchronize sync = SyncOf("w", court.session["w"], 1);
    sync.worker.set_healthy(false);
    sync.worker.set_fault(fault);
    return court.Sync(sync);
  };
  say("Xid 48");
  say("Xid 48");
  REQUIRE(court.Quarantined("w"));
  court.Do(ReleaseWorker{"w", ""});
  CHECK(say("Xid 48").start.empty());  // it says itself that it is not well
  CHECK_FALSE(court.Quarantined("w"));
  say("Xid 79");
  CHECK(court.Quarantined("w"));
}

TEST_CASE("a task with which cards fail does not go through the fleet") {
  Court court;
  court.Do(SubmitOf({"a"}));
  const auto fail = [&](const std::string& worker) {
    const Grant grant = court.Ask(worker);
    Synchronize sync = SyncOf(worker, court.session[worker], 0);
    sync.worker.set_healthy(false);
    sync.worker.set_fault("Xid 109");
    sync.leases = {StatusOf(grant, 2, true)};
    sync.leases[0].set_interrupted(true);
    court.Sync(sync);
  };
  fail("first");
  CHECK(court.Task("r1/a@host").state() == v1::QUEUED);
  const bool well = GENERATE(false, true);
  if (well) court.End("between", court.Ask("between"));  // it was the card
  fail("second");
  CHECK(court.Task("r1/a@host").state() == (well ? v1::QUEUED : v1::PARKED));
  if (well) return;
  CHECK(court.Task("r1/a@host").reason() ==
        "the cards of 2 workers failed in a row while they had it: see what they have before it is "
        "released");
  court.Die("third");
  CHECK(court.GetsNothing("third"));
  court.Do(SetTask{"r1/a@host", v1::QUEUED, ""});
  fail("third");
  CHECK(court.Task("r1/a@host").state() == v1::QUEUED);
}

TEST_CASE("a fault stays where a ledger is cleared by what others lose") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d"}));
  court.Die("w");
  for (int i = 0; i < 3; ++i) {
    court.Ask("w");
    court.Die("w");
  }
  REQUIRE(court.Quarantined("w"));
  Synchronize sync = SyncOf("w", court.session["w"], 0);
  sync.worker.set_healthy(false);
  sync.worker.set_fault("Xid 79");
  court.Sync(sync);
  for (int i = 0; i < 3; ++i) {
    court.Ask("other");  // what w lost comes first
    court.Die("other");
  }
  CHECK(court.Worker("w").ledger_size() < 3);
  CHECK(court.Quarantined("w"));
}

TEST_CASE("what tells nothing does not clear a ledger either, and a lease that ends well does") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  CHECK(court.Ask("w").task_id == "r1/a@host");
  court.Die("w");
  court.Do(SetTask{"r1/a@host", v1::HELD, ""});
  const Grant b = court.Ask("w");
  SECTION("handed back") {
    Synchronize leaving = SyncOf("w", court.session["w"], 0);
    leaving.worker.set_draining(true);
    leaving.leases = {StatusOf(b, 2, true)};
    court.Sync(leaving);
    CHECK(court.Ledger("w") == "a");
  }
  SECTION("taken back") {
    court.Do(SetTask{b.task_id, v1::HELD, ""});
    CHECK(court.Ledger("w") == "a");
  }
  SECTION("impossible") {
    court.End("w", b, "unknown operator", true);
    CHECK(court.Ledger("w") == "a");
  }
  SECTION("finished") {
    court.End("w", b);
    CHECK(court.Ledger("w").empty());
  }
  SECTION("the same task again is one entry") {
    court.Do(SetTask{"r1/a@host", v1::QUEUED, ""});
    court.Die("w");  // loses b
    CHECK(court.Ledger("w") == "a b");
    court.Do(SetTask{"r1/b@host", v1::HELD, ""});
    court.Do(SetTask{"r1/c@host", v1::HELD, ""});
    CHECK(court.Ask("w").task_id == "r1/a@host");
    court.Die("w");
    CHECK(court.Ledger("w") == "b a");
    CHECK_FALSE(court.Quarantined("w"));
  }
}

TEST_CASE("planner pauses and restarts, twins and late joins count against nobody") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  const std::string session = court.Sync(JoinOf("i1")).session_id;
  court.session["w"] = session;
  for (int i = 0; i < 5; ++i) {
    const Grant grant = court.Ask("w");
    court.now_ms += 1'000'000;  // nobody was heard
    if (i % 2 == 0) court.core.Forgive({court.now_ms, court.now_ms});
    if (i % 2 == 1) court.Restart();
    court.Do(Tick{});
    CHECK(court.Try(JoinOf("i2")).status().code() == absl::StatusCode::kAlreadyExists);
    court.Sync(JoinOf("i1"));
    v1::LeaseStatus status = StatusOf(grant, 1);
    CHECK(court.Report("w", {status}).drop.empty());
    CHECK(court.Ledger("w").empty());
    court.Do(SetTask{grant.task_id, v1::HELD, ""});
    court.Do(SetTask{grant.task_id, v1::QUEUED, ""});
  }
  CHECK_FALSE(court.Quarantined("w"));
}

TEST_CASE("a task that two workers lose is to blame, and neither of them") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  for (const char* worker : {"w", "x"})
    court.session[worker] = court.Sync(SyncOf(worker, "", 0)).session_id;
  for (const char* task : {"a", "b", "c"}) {
    CHECK(court.Ask("w").problem_blob == absl::StrCat("blob of ", task));
    court.Die("w");
  }
  REQUIRE(court.Quarantined("w"));
  // The other one is given what that one lost, and loses it too.
  const bool permanent = GENERATE(false, true);
  const Grant grant = court.Ask("x");
  CHECK(grant.task_id == "r1/a@host");
  court.End("x", grant, "it cannot be done", permanent);
  CHECK(court.Ledger("w") == "b c");
  CHECK(court.Ledger("x").empty());
  CHECK_FALSE(court.Quarantined("w"));  // two are left
  CHECK(court.core.state().quarantined().empty());
  court.Do(SetTask{"r1/b@host", v1::HELD, ""});
  court.Do(SetTask{"r1/c@host", v1::HELD, ""});
  if (permanent) return;
  // Now nobody is another, and the third loss ends it.
  CHECK(court.Ask("w").task_id == "r1/a@host");
  court.Die("w");
  CHECK(court.Ask("w").task_id == "r1/a@host");
  court.Die("w");
  CHECK(court.Ask("x").task_id == "r1/a@host");
  court.Die("x");
  CHECK(court.Task("r1/a@host").state() == v1::PARKED);
  CHECK(court.Ledger("w") == "b c");
  CHECK(court.Ledger("x").empty());
}

TEST_CASE("poisonous tasks are set aside, and no fleet is quarantined for them") {
  const bool dies = GENERATE(false, true);
  const int workers = GENERATE(2, 3, 5);
  const int at_once = GENERATE(1, 2);  // have a lease
  Court court;
  std::vector<std::string> names;  // all kill, or fail
  for (char name = 'a'; name <= 'z'; ++name) names.push_back(std::string(1, name));
  court.Do(SubmitOf(names));
  for (int i = 0; i < workers; ++i) court.Die(absl::StrCat("w", i));
  std::map<std::string, Grant> held;
  for (int round = 0; round < 400; ++round) {
    const std::string worker = absl::StrCat("w", round % workers);
    const SynchronizeAnswer answer = court.Report(worker, {}, {}, 1);
    if (answer.start.empty()) continue;
    held[worker] = answer.start[0];
    if (static_cast<int>(held.size()) < at_once) continue;
    for (const auto& [who, grant] : std::exchange(held, {})) {
      if (dies) court.Die(who);
      if (!dies) court.End(who, grant, "out of memory");
    }
    CHECK(court.core.state().quarantined().empty());
  }
  for (const std::string& name : names) {
    CHECK(court.Task("r1/" + name + "@host").state() == (dies ? v1::PARKED : v1::FAILED));
  }
}

TEST_CASE("who was quarantined while nobody else was free is released by those who find the same") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d", "e"}));
  const Grant slow = court.Ask("busy");
  CHECK(slow.task_id == "r1/a@host");
  court.Die("w");
  for (int i = 0; i < 3; ++i) {
    court.Ask("w");
    court.Die("w");
  }
  CHECK(court.Ledger("w") == "b c d");
  CHECK(court.GetsNothing("w"));
  court.End("busy", slow);
  CHECK(court.Ask("busy").task_id == "r1/b@host");  // before what nobody has tried
  court.Die("busy");
  CHECK_FALSE(court.Quarantined("w"));
  CHECK(court.Ledger("w") == "c d");
  CHECK(court.Ask("busy").task_id == "r1/c@host");
}

TEST_CASE("what one worker gives up is given to others, and does not fail for that one alone") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d", "e"}));
  for (const char* worker : {"good", "sick"}) {
    court.session[worker] = court.Sync(SyncOf(worker, "", 0)).session_id;
  }
  for (const char* name : {"a", "b", "c"}) {
    const Grant grant = court.Ask("sick");
    CHECK(grant.task_id == absl::StrCat("r1/", name, "@host"));
    court.End("sick", grant, "the judge does not start");
    CHECK(court.Task(grant.task_id).state() == v1::QUEUED);
    CHECK(court.Task(grant.task_id).seconds_spent() == 0);  // it is not of the task's budget
  }
  CHECK(court.Quarantined("sick"));
  CHECK(court.GetsNothing("sick"));
  const Grant grant = court.Ask("good");
  CHECK(grant.task_id == "r1/a@host");
  court.End("good", grant);
  CHECK(court.Task("r1/a@host").state() == v1::QUEUED);
  CHECK(court.core.state().FindTask("r1/a@host")->failures() == 0);
  // That it ended well there is no excuse for the other.
  CHECK(court.Ledger("sick") == "a b c");
  CHECK(court.Quarantined("sick"));
}

TEST_CASE("a worker that is alone fails what it gives up three times, unless another has come") {
  const bool comes = GENERATE(false, true);
  Court court;
  court.Do(SubmitOf({"a"}));
  for (int i = 0; i < kMaxFailures; ++i) {
    CHECK(court.Task("r1/a@host").state() == v1::QUEUED);
    const Grant grant = court.Ask("w");
    if (comes && i + 1 == kMaxFailures) court.Die("other");
    court.End("w", grant, "out of memory");
  }
  CHECK(court.Task("r1/a@host").state() == (comes ? v1::QUEUED : v1::FAILED));
  if (!comes) return;
  CHECK(court.GetsNothing("w"));
  court.End("other", court.Ask("other"), "out of memory");
  CHECK(court.Task("r1/a@host").state() == v1::FAILED);
  CHECK(court.Task("r1/a@host").reason() == "out of memory (4 times in a row)");
}

TEST_CASE("where all workers are quarantined tasks wait") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d"}));
  for (int i = 0; i < 3; ++i) {
    // Alone it has the same again, until a person takes that away.
    const Grant grant = court.Ask("w");
    court.Die("w");
    court.Do(SetTask{grant.task_id, v1::HELD, ""});
  }
  REQUIRE(court.Quarantined("w"));
  for (const char* name : {"a", "b", "c"}) {
    court.Do(SetTask{absl::StrCat("r1/", name, "@host"), v1::QUEUED, ""});
  }
  for (int i = 0; i < 100; ++i) {
    court.now_ms += 1000;
    court.Do(Tick{});
    CHECK(court.GetsNothing("w"));
  }
  for (const char* name : {"a", "b", "c", "d"}) {
    CHECK(court.Task(absl::StrCat("r1/", name, "@host")).state() == v1::QUEUED);
  }
  CHECK_FALSE(court.RunDone());
  // Whoever comes takes them, and is not told to leave them to the quarantined one.
  court.Ask("new");
  court.Die("new");
  CHECK(court.Ask("new").task_id == "r1/a@host");
}

TEST_CASE("a quarantined worker keeps what it holds, and that does not release it") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c", "d"}));
  court.session["w"] = court.Sync(SyncOf("w", "", 0)).session_id;
  const SynchronizeAnswer four = court.Report("w", {}, {}, 4);
  REQUIRE(four.start.size() == 4);
  v1::LeaseStatus kept = StatusOf(four.start[3], 1);
  for (int i = 0; i < 3; ++i) court.End("w", four.start[i], "out of memory");
  REQUIRE(court.Quarantined("w"));
  CHECK(court.Report("w", {kept}, {}, 3).drop.empty());
  kept.set_finished(true);
  CHECK(court.Report("w", {kept}, {testing::ResultOf(four.start[3], "t", 2)}, 4).start.empty());
  CHECK(court.Task("r1/d@host").speedup() == 2);
  CHECK(court.Quarantined("w"));
}

TEST_CASE("a quarantine outlives its worker's absence, also among very many that are gone") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  court.session["other"] = court.Sync(SyncOf("other", "", 0)).session_id;
  for (int i = 0; i < 3; ++i) {
    court.Ask("0");  // the first by name
    court.Die("0");
  }
  REQUIRE(court.Quarantined("0"));
  court.now_ms += 100'000;
  court.Do(Tick{});
  CHECK(court.Worker("0").lost());
  for (int i = 0; i < 2 * kMaxLostWorkers; ++i) {
    Synchronize leaving = SyncOf(absl::StrCat("w", i), "", 0);
    leaving.worker.set_draining(true);
    court.Sync(leaving);
  }
  CHECK(court.core.state().workers().size() == kMaxLostWorkers);
  court.Restart();
  CHECK(court.core.state().quarantined().count("0") == 1);
  court.Die("0");
  CHECK_FALSE(court.Worker("0").lost());
  CHECK(court.GetsNothing("0"));
}

TEST_CASE("a worker that a person holds ends its slice and is given nothing until released") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  const Grant grant = court.Ask("w");
  CHECK(court.Try(HoldWorker{"v", ""}).status().code() == absl::StatusCode::kNotFound);
  CHECK(court.Try(HoldWorker{"w", std::string(10'000, 'x')}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  const v1::WorkerInfo held = court.Do(HoldWorker{"w", "a new fan"});
  CHECK(held.held());
  CHECK(held.held_reason() == "a new fan");
  CHECK(held.task_id() == grant.task_id);
  const int64_t revision = court.core.state().revision();
  court.Do(HoldWorker{"w", "a new fan"});  // said again
  CHECK(court.core.state().revision() == revision);
  // What it has goes on, and what it brings counts.
  SynchronizeAnswer answer =
      court.Report("w", {StatusOf(grant, 1)}, {testing::ResultOf(grant, "t", 2)}, 1);
  CHECK(answer.drop.empty());
  CHECK(answer.start.empty());
  CHECK(court.Task("r1/a@host").speedup() == 2);
  CHECK_THAT(answer.set_aside, Catch::Contains("held by a person: a new fan") &&
                                   Catch::Contains("`warpsmith release w`"));
  court.End("w", grant);

  // It stays so, whatever becomes of its process.
  const int how = GENERATE(0, 1, 2, 3);
  if (how == 1) court.Restart();
  if (how == 2) court.Die("w");
  if (how == 3) {
    court.now_ms += 100'000;
    court.Do(Tick{});
    CHECK(court.Worker("w").lost());
    court.Die("w");
  }
  answer = court.Report("w", {}, {}, 1);
  CHECK(answer.start.empty());
  CHECK_FALSE(answer.park);
  // Others need not wait for what it could do.
  court.Ask("other");

  const v1::WorkerInfo released = court.Do(ReleaseWorker{"w", ""});
  CHECK_FALSE(released.held());
  CHECK(released.held_reason().empty());
  answer = court.Report("w", {}, {}, 1);
  CHECK(answer.start.size() == 1);
  CHECK(answer.set_aside.empty());
}

TEST_CASE("others' losses lift a quarantine, and not a person's hold") {
  Court court;
  court.Do(SubmitOf({"a", "b", "c"}));
  court.session["other"] = court.Sync(SyncOf("other", "", 0)).session_id;
  for (int i = 0; i < 3; ++i) {
    court.Ask("w");
    court.Die("w");
  }
  REQUIRE(court.Quarantined("w"));
  court.Do(HoldWorker{"w", ""});
  const Grant same = court.Ask("other");
  court.Die("other");
  CHECK_FALSE(court.Quarantined("w"));
  CHECK(court.Ledger("w").find(court.Task(same.task_id).problem_name()) == std::string::npos);
  CHECK(court.Worker("w").held());
  CHECK(court.GetsNothing("w"));
}

TEST_CASE("a worker has no say in its own ledger") {
  Court court;
  Synchronize join = SyncOf("w", "", 0);
  join.worker.set_quarantined(true);
  join.worker.set_lost(true);
  join.worker.set_held(true);
  join.worker.add_ledger()->set_task_id("r1/a@host");
  court.Sync(join);
  CHECK(court.Worker("w").worker().ledger_size() == 0);
  CHECK_FALSE(court.core.View(court.Worker("w")).quarantined());
  CHECK_FALSE(court.core.View(court.Worker("w")).lost());
  CHECK_FALSE(court.core.View(court.Worker("w")).held());
}

TEST_CASE("a log from before causes were told makes the state that it made") {
  State state;
  const auto apply = [&](const std::function<void(v1::Event&)>& fill) {
    v1::Event event;
    fill(event);
    state.Apply(event);
  };
  apply([](v1::Event& event) {
    v1::RunSubmitted& submitted = *event.mutable_run_submitted();
    submitted.mutable_run()->set_id("r1");
    for (const char* id : {"a", "b", "c"}) {
      v1::Task& task = *submitted.add_tasks();
      task.set_id(id);
      task.set_run_id("r1");
      task.set_state(v1::QUEUED);
    }
  });
  apply([](v1::Event& event) { event.mutable_worker_joined()->mutable_worker()->set_id("w"); });
  const auto lease = [&](const std::string& task, bool lost, bool failed) {
    apply([&](v1::Event& event) {
      event.mutable_lease_granted()->set_task_id(task);
      event.mutable_lease_granted()->set_worker_id("w");
    });
    apply([&](v1::Event& event) {
      event.mutable_lease_ended()->set_task_id(task);
      event.mutable_lease_ended()->set_lost(lost);
      event.mutable_lease_ended()->set_failed(failed);
    });
  };
  for (const char* task : {"a", "b", "c"}) {
    lease(task, true, false);
    lease(task, false, true);
  }
  CHECK(state.FindTask("a")->failures() == 1);
  CHECK(state.FindTask("a")->task().losses() == 0);
  CHECK(state.FindWorker("w")->ledger_size() == 0);
  lease("a", true, false);
  CHECK(state.FindTask("a")->task().losses() == 1);
  lease("a", false, false);
  CHECK(state.FindTask("a")->task().losses() == 0);
  CHECK(state.FindTask("a")->lost_with_size() == 0);
  CHECK(state.quarantined().empty());
}

}  // namespace warpsmith::planner
