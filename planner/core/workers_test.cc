// Workers: sessions, names, parked calls, silence, leaving.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "planner/core/core.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::Bench;
using testing::JoinOf;
using testing::ResultOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

}  // namespace

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

namespace {

v1::Owner OwnerOf(const std::string& certificate, const std::string& secret) {
  v1::Owner owner;
  owner.set_certificate(certificate);
  owner.set_secret(secret);
  return owner;
}

}  // namespace

TEST_CASE("a session and its lease are of who brings the same proof, and of nobody else") {
  struct Case {
    const char *certificate, *secret, *other_certificate, *other_secret;
    bool same;
  };
  const Case c = GENERATE(values<Case>({
      {"", "", "", "", true},  // a worker of before: anybody's
      {"", "", "x", "s", true},
      {"", "s", "", "s", true},
      {"", "s", "", "t", false},
      {"", "s", "", "", false},
      {"x", "", "x", "", true},
      {"x", "s", "x", "t", true},   // its folder was made anew
      {"x", "s", "y", "s", false},  // a copy of its folder
      {"x", "s", "y", "", false},
      {"x", "s", "", "", false},
      {"x", "", "", "", false},
      {"", "s", "x", "s", true},  // TLS came
      {"", "s", "x", "t", false},
      {"x", "s", "", "s", true},  // TLS went
  }));
  INFO(c.certificate << "," << c.secret << " then " << c.other_certificate << ","
                     << c.other_secret);
  const v1::Owner owner = OwnerOf(c.certificate, c.secret);
  const v1::Owner other = OwnerOf(c.other_certificate, c.other_secret);
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  Synchronize join = JoinOf("i1");
  join.owner = owner;
  const std::string session = bench.Sync(join).session_id;
  Synchronize call = SyncOf("w", session);
  call.owner = owner;
  const Grant grant = bench.Sync(call).start.at(0);
  if (GENERATE(false, true)) bench.Restart();

  SECTION("the session") {
    Synchronize theirs = SyncOf("w", session, 0);
    theirs.owner = other;
    theirs.leases = {StatusOf(grant, 1, true)};
    const absl::Status status = bench.Try(theirs).status();
    CHECK(status.code() == (c.same ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied));
    CHECK(bench.Task("r1/a@host").state() == (c.same ? v1::QUEUED : v1::LEASED));
  }
  SECTION("the name, while it is live") {
    for (const Synchronize& again : {JoinOf("i1"), JoinOf("i2", {"i1"})}) {
      Synchronize theirs = again;
      theirs.owner = other;
      theirs.leases = {StatusOf(grant, 1)};
      const absl::Status status = bench.Try(theirs).status();
      CHECK(status.code() == (c.same ? absl::StatusCode::kOk : absl::StatusCode::kAlreadyExists));
    }
    CHECK(bench.Task("r1/a@host").state() == v1::LEASED);
  }
  SECTION("results, from a session of another's own") {
    Synchronize stranger = SyncOf("v", "", 0);
    stranger.owner = other;
    stranger.session_id = bench.Sync(stranger).session_id;
    stranger.leases = {StatusOf(grant, 1, true)};
    stranger.results = {ResultOf(grant, "t", 3)};
    const SynchronizeAnswer answer = bench.Sync(stranger);
    CHECK(bench.Task("r1/a@host").state() == v1::LEASED);  // its worker has another name
    CHECK(bench.Task("r1/a@host").incumbent_blob().empty() == !c.same);
    CHECK((std::count(answer.recorded.begin(), answer.recorded.end(), "t") > 0) == c.same);
  }
  SECTION("results, after silence, from who has taken the name") {
    bench.now_ms += CoreOptions().failover_ttl_ms + CoreOptions().park_ms + 60'000;
    bench.Do(Tick{});
    Synchronize theirs = SyncOf("w", "", 0);
    theirs.instance = "i9";
    theirs.owner = other;
    theirs.session_id = bench.Sync(theirs).session_id;
    theirs.results = {ResultOf(grant, "t", 3)};
    const SynchronizeAnswer answer = bench.Sync(theirs);
    CHECK(bench.Task("r1/a@host").incumbent_blob().empty() == !c.same);
    CHECK((answer.drop.empty()) == c.same);
  }
}

TEST_CASE("an owner that a version which knows of none has carried along counts for nothing") {
  Bench bench;
  bench.Do(SubmitOf({"a"}));
  Synchronize call = JoinOf("i1");
  call.owner = OwnerOf("", "s");
  call.session_id = bench.Sync(call).session_id;
  const Grant grant = bench.Sync(call).start.at(0);
  // As that version leaves them after it has granted to others.
  v1::PlannerState stored = bench.core.state().ToProto();
  stored.mutable_tasks(0)->mutable_last_owner()->set_of("another lease");
  stored.mutable_workers(0)->mutable_owner()->set_of("another session");
  bench.core = Core(CoreOptions{});
  bench.core.Restore(stored);
  bench.core.Forgive({bench.now_ms, bench.now_ms});
  call.owner = OwnerOf("", "t");
  call.results = {ResultOf(grant, "t", 3)};
  CHECK(bench.Sync(call).drop.empty());
  CHECK(bench.Task("r1/a@host").speedup() == 3);
}

TEST_CASE("a request id is its submitter's") {
  Bench bench;
  Submit submit = SubmitOf({"a"});
  submit.request_id = "nightly";
  submit.submitter = "bob";
  const v1::Run run = bench.Do(submit);
  CHECK(bench.Do(submit).id() == run.id());
  submit.submitter = "ada";
  CHECK(absl::IsAlreadyExists(bench.Try(submit).status()));
}

TEST_CASE("what a submitter may change is its own") {
  Bench bench;
  Submit submit = SubmitOf({"a", "b"});
  submit.submitter = GENERATE("ada", "");
  bench.Do(submit);
  SetTask hold{"r1/a@host", v1::HELD, "", "bob"};
  CancelRun cancel{"r1", "", "bob"};
  SetPriority before{"r1", 9, "", "bob"};
  CHECK(absl::IsPermissionDenied(bench.Try(hold).status()));
  CHECK(absl::IsPermissionDenied(bench.Try(cancel).status()));
  CHECK(absl::IsPermissionDenied(bench.Try(before).status()));
  // A run is no submitter, whoever is named so.
  hold.only_of = cancel.only_of = before.only_of = "r1";
  CHECK(absl::IsPermissionDenied(bench.Try(hold).status()));
  CHECK(absl::IsPermissionDenied(bench.Try(cancel).status()));
  CHECK(absl::IsPermissionDenied(bench.Try(before).status()));
  CHECK(bench.Task("r1/a@host").state() == v1::QUEUED);
  CHECK(bench.core.state().FindRun("r1")->run().priority() == 0);
  hold.only_of = cancel.only_of = before.only_of = submit.submitter;
  CHECK(bench.Do(before).priority() == 9);
  CHECK(bench.Do(hold).state() == v1::HELD);
  CHECK(bench.Do(cancel).cancelled() == 2);
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

}  // namespace warpsmith::planner
