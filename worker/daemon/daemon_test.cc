#include "worker/daemon/daemon.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "tests/support/temporary_folder.h"
#include "worker/daemon/testing.h"

namespace warpsmith::daemon {
namespace {

// The test is the planner: it takes each request and says what to answer.
class TestLink : public PlannerLink {
 public:
  absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request,
                                                   absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
    auto answered = [this] { return !answers_.empty() || cancelled_; };
    mutex_.Await(absl::Condition(&answered));
    if (std::exchange(cancelled_, false)) {
      requests_.clear();
      return absl::CancelledError();
    }
    auto answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }

  // Nothing: the daemon has ended.
  std::optional<v1::SynchronizeRequest> TakeUnlessOver() {
    absl::MutexLock lock(&mutex_);
    auto asked = [this] { return over_ || !requests_.empty(); };
    mutex_.Await(absl::Condition(&asked));
    if (requests_.empty()) return std::nullopt;
    v1::SynchronizeRequest request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  v1::SynchronizeRequest Take() { return TakeUnlessOver().value(); }
  void Over() {
    absl::MutexLock lock(&mutex_);
    over_ = true;
  }
  void Answer(absl::StatusOr<v1::SynchronizeReply> answer) {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(answer));
  }

 private:
  absl::Mutex mutex_;
  std::deque<v1::SynchronizeRequest> requests_;
  std::deque<absl::StatusOr<v1::SynchronizeReply>> answers_;
  bool cancelled_ = false, over_ = false;
};

// What the lease's work does is the test's too.
using Step =
    std::function<absl::StatusOr<agent::Outcome>(agent::Reporter&, const std::atomic<bool>& stop)>;

constexpr absl::Duration kTtl = absl::Seconds(30);

v1::WorkerInfo WellWorker() {
  v1::WorkerInfo info;
  info.set_id("w");
  info.set_healthy(true);
  return info;
}

class Fixture {
 public:
  explicit Fixture(Step step, uint64_t seed = 1) {
    outbox_ = *Outbox::Open(folder_ / "outbox");
    lineage_ = *Lineage::Open(*OpenLogFile(folder_ / "instance"), "i1");
    daemon_ = std::make_unique<Daemon>(
        WellWorker(), *lineage_, *outbox_, link,
        [step](const v1::Lease&, agent::Reporter& reporter, const std::atomic<bool>& stop) {
          return step(reporter, stop);
        },
        &clock, seed);
    thread_ = std::thread([this] {
      result_ = daemon_->Run();
      link.Over();
    });
  }
  ~Fixture() {
    if (thread_.joinable()) (void)Finish();
  }

  // Drains, answering what is asked, and gives what Run returned.
  absl::Status Finish() {
    daemon_->Drain();
    while (auto request = TakeWhileTimePasses()) link.Answer(Settle(*request));
    thread_.join();
    return result_;
  }

  // Lets time pass until the next request comes.
  v1::SynchronizeRequest Take() { return TakeWhileTimePasses().value(); }

  // A reply that records everything in the request.
  static v1::SynchronizeReply Settle(const v1::SynchronizeRequest& request) {
    v1::SynchronizeReply reply;
    reply.set_session_id("s1");
    reply.add_features(rpc::kSealedTrials);
    reply.set_next_sync_after_ms(1000);
    reply.set_lease_ttl_ms(absl::ToInt64Milliseconds(kTtl));
    for (const auto& result : request.results()) {
      testing::Record(result, reply);
    }
    for (const auto& status : request.leases()) {
      if (status.finished()) reply.add_recorded(status.lease_id());
    }
    return reply;
  }
  static v1::SynchronizeReply Grant(const v1::SynchronizeRequest& request, const std::string& id) {
    v1::SynchronizeReply reply = Settle(request);
    v1::Lease& lease = *reply.add_start();
    lease.set_id(id);
    lease.set_task_id("task of " + id);
    lease.set_fence(7);
    lease.set_seconds(10);
    lease.set_revision(123);
    lease.set_why("its turn");
    return reply;
  }

  Daemon& daemon() { return *daemon_; }

  base::SimulatedClock clock;
  TestLink link;

 private:
  std::optional<v1::SynchronizeRequest> TakeWhileTimePasses() {
    std::atomic<bool> came = false;
    std::thread time([&] {
      while (!came) {
        if (clock.Waiters() > 0) clock.AdvanceTime(absl::Milliseconds(100));
        std::this_thread::yield();
      }
    });
    auto request = link.TakeUnlessOver();
    came = true;
    time.join();
    return request;
  }

  support::TemporaryFolder folder_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Lineage> lineage_;
  std::unique_ptr<Daemon> daemon_;
  absl::Status result_;
  std::thread thread_;
};

v1::Trial MakeTrial(const std::string& id) {
  v1::Trial trial;
  trial.set_id(id);
  return trial;
}

v1::Incumbent MakeIncumbent(const std::string& trial) {
  v1::Incumbent incumbent;
  incumbent.mutable_trial()->set_id(trial);
  return incumbent;
}

TEST_CASE("a lease is worked on, told of and ended") {
  Fixture fixture([](agent::Reporter& reporter, const std::atomic<bool>&) {
    reporter.OnProgress("memory");
    reporter.OnTrial(MakeTrial("L1/0"));
    reporter.OnTrial(MakeTrial("L1/1"));
    reporter.OnIncumbent(MakeIncumbent("L1/0"));
    agent::Outcome outcome;
    outcome.converged = true;
    return outcome;
  });
  v1::SynchronizeRequest request = fixture.link.Take();
  CHECK(request.worker().id() == "w");
  CHECK(request.session_id().empty());
  CHECK(request.slots() == 1);
  fixture.link.Answer(Fixture::Grant(request, "L1"));

  int trials = 0, incumbents = 0;
  bool finished = false;
  while (!finished) {
    request = fixture.Take();
    CHECK(request.session_id() == "s1");
    for (const auto& result : request.results()) {
      CHECK(result.fence() == 7);
      const v1::LeaseResult opened = testing::Opened(result);
      for (const v1::Trial& trial : opened.trials().trials()) {
        // What decided it.
        CHECK(trial.worker_id() == "w");
        CHECK(trial.lease_revision() == 123);
        CHECK(trial.lease_why() == (trials == 0 ? "its turn" : ""));
        ++trials;
      }
      incumbents += result.has_incumbent() ? 1 : 0;
      if (result.has_incumbent()) CHECK(result.incumbent().trial().lease_revision() == 123);
    }
    REQUIRE(request.leases_size() == 1);
    finished = request.leases(0).finished();
    CHECK(request.slots() == (finished ? 1 : 0));
    if (finished) {
      CHECK(request.leases(0).converged());
      CHECK(request.leases(0).specialist() == "memory");
    }
    fixture.link.Answer(Fixture::Settle(request));
  }
  CHECK(trials == 2);
  CHECK(incumbents == 1);
  request = fixture.Take();
  CHECK(request.leases_size() == 0);
  CHECK(request.results_size() == 0);
  CHECK(fixture.Finish().ok());
}

TEST_CASE("results survive a planner that is away, and a session that it forgot") {
  absl::Notification found;
  Fixture fixture([&](agent::Reporter& reporter, const std::atomic<bool>&) {
    reporter.OnTrial(MakeTrial("L1/0"));
    reporter.OnIncumbent(MakeIncumbent("L1/0"));
    found.Notify();
    return agent::Outcome();
  });
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  found.WaitForNotification();
  for (int i = 0; i < 5; ++i) {
    fixture.Take();
    fixture.link.Answer(absl::UnavailableError("connection refused"));
  }
  fixture.Take();
  fixture.link.Answer(absl::FailedPreconditionError("no such session"));
  v1::SynchronizeRequest request = fixture.Take();
  CHECK(request.session_id().empty());
  REQUIRE(request.results_size() >= 1);
  CHECK(testing::Opened(request.results(0)).trials().trials(0).id() == "L1/0");
  REQUIRE(request.leases_size() == 1);
  CHECK(request.leases(0).fence() == 7);
  fixture.link.Answer(Fixture::Settle(request));
  CHECK(fixture.Finish().ok());
}

// Work that goes on until it is stopped.
absl::StatusOr<agent::Outcome> UntilStopped(agent::Reporter&, const std::atomic<bool>& stop) {
  while (!stop) std::this_thread::yield();
  return agent::Outcome();
}

TEST_CASE("workers that have lost their planner come back apart, as they called before") {
  const auto idle = [](agent::Reporter&, const std::atomic<bool>&) { return agent::Outcome(); };
  absl::Duration longest, session_lost;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Fixture fixture(idle, seed);
    const auto pause_after = [&](const absl::Status& status) {
      v1::SynchronizeReply reply = Fixture::Settle(fixture.Take());
      reply.set_next_sync_after_ms(20'000);
      fixture.link.Answer(reply);
      fixture.Take();
      const base::Instant failed = fixture.clock.TimeNow();
      fixture.link.Answer(status);
      const v1::SynchronizeRequest next = fixture.Take();
      const absl::Duration pause = fixture.clock.TimeNow() - failed;
      fixture.link.Answer(Fixture::Settle(next));
      return pause;
    };
    const absl::Duration lost = pause_after(absl::UnavailableError("connection reset"));
    CHECK(lost <= kMaxSpread + absl::Seconds(1));
    longest = std::max(longest, lost);
    session_lost = std::max(session_lost, pause_after(absl::FailedPreconditionError("join again")));
  }
  CHECK(longest > kMaxSpread / 4);
  CHECK(session_lost <= absl::Seconds(1));
}

TEST_CASE("work stops when the planner wants the lease back") {
  Fixture fixture(UntilStopped);
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  v1::SynchronizeRequest request = fixture.Take();
  v1::SynchronizeReply reply = Fixture::Settle(request);
  reply.add_drop("L1");
  fixture.link.Answer(reply);
  do {
    request = fixture.Take();
    fixture.link.Answer(Fixture::Settle(request));
  } while (request.leases_size() > 0 && !request.leases(0).finished());
  CHECK(request.leases_size() == 1);
  CHECK(fixture.Finish().ok());
}

TEST_CASE("a worker is well until it does not end what it was told to end") {
  std::atomic<bool> go_on = false;
  Fixture fixture([&](agent::Reporter& reporter, const std::atomic<bool>& stop) {
    auto outcome = UntilStopped(reporter, stop);
    while (!go_on) std::this_thread::yield();
    return outcome;
  });
  const auto settle_for = [&](absl::Duration time) {
    const base::Instant end = fixture.clock.TimeNow() + time;
    while (fixture.clock.TimeNow() < end) fixture.link.Answer(Fixture::Settle(fixture.Take()));
  };
  CHECK(fixture.daemon().Well());
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  settle_for(2 * kMaxEnding);
  CHECK(fixture.daemon().Well());  // it may take as long as the planner lets it
  v1::SynchronizeReply reply = Fixture::Settle(fixture.Take());
  reply.add_drop("L1");
  fixture.link.Answer(reply);
  settle_for(kMaxEnding / 2);
  CHECK(fixture.daemon().Well());
  settle_for(kMaxEnding);
  CHECK_FALSE(fixture.daemon().Well());
  go_on = true;
  v1::SynchronizeRequest request;
  do {
    request = fixture.Take();
    fixture.link.Answer(Fixture::Settle(request));
  } while (request.leases_size() > 0 && !request.leases(0).finished());
  CHECK(fixture.daemon().Well());
  CHECK(fixture.Finish().ok());
}

TEST_CASE("a worker is not well where its call to the planner does not come back") {
  Fixture fixture(UntilStopped);
  fixture.link.Answer(Fixture::Settle(fixture.link.Take()));
  const v1::SynchronizeRequest request = fixture.Take();
  fixture.clock.AdvanceTime(kMaxTurn);
  CHECK(fixture.daemon().Well());
  fixture.clock.AdvanceTime(absl::Seconds(1));
  CHECK_FALSE(fixture.daemon().Well());
  fixture.link.Answer(Fixture::Settle(request));
  fixture.Take();
  CHECK(fixture.daemon().Well());
  fixture.link.Answer(Fixture::Settle(request));
  CHECK(fixture.Finish().ok());
}

TEST_CASE("work stops before the lease can be another's, when no answer comes") {
  std::atomic<bool> stopped = false;
  Fixture fixture([&](agent::Reporter& reporter, const std::atomic<bool>& stop) {
    auto outcome = UntilStopped(reporter, stop);
    stopped = true;
    return outcome;
  });
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  const base::Instant granted = fixture.clock.TimeNow();
  while (!stopped) {
    fixture.Take();
    fixture.link.Answer(absl::UnavailableError("connection refused"));
  }
  CHECK(fixture.clock.TimeNow() >= granted + kTtl - kFenceMargin);
}

TEST_CASE("a lease is fenced before its time is up, counted from the last call answered") {
  const base::Instant start(absl::Seconds(1'000));
  const support::TemporaryFolder folder;
  auto outbox = *Outbox::Open(folder / "outbox");
  auto lineage = *Lineage::Open(*OpenLogFile(folder / "instance"), "i1");
  Session session(WellWorker(), *lineage, *outbox);
  CHECK(session.FenceAt() == base::Instant::InfiniteFuture());
  v1::SynchronizeRequest request = session.Request();
  session.Take(Fixture::Grant(request, "L1"), start, start);
  CHECK(session.FenceAt() == start + kTtl - kFenceMargin);
  request = session.Request();
  session.Take(Fixture::Settle(request), start + absl::Seconds(10), start + absl::Seconds(11));
  CHECK(session.FenceAt() == start + absl::Seconds(10) + kTtl - kFenceMargin);
  session.End({});
  CHECK(session.FenceAt() == base::Instant::InfiniteFuture());
  // A call that was parked until there was a lease to give: its sending says little.
  request = session.Request();
  const base::Instant sent = start + absl::Seconds(20), answered = sent + kTtl;
  session.Take(Fixture::Grant(request, "L2"), sent, answered);
  CHECK(session.FenceAt() == answered + kTtl / 2 - kFenceMargin);
}

// Of a megabyte that is not much smaller when it is compressed.
v1::Trial LargeTrial(uint32_t number) {
  v1::Trial trial;
  trial.set_id(absl::StrCat("L1/", number));
  for (uint32_t at = 0, random = number; at < 1 << 20; ++at) {
    random = random * 1664525 + 1013904223;
    trial.mutable_reason()->push_back(static_cast<char>('0' + (random >> 26)));
  }
  return trial;
}

TEST_CASE("a lease is called finished with the last of its results, until the planner says so") {
  const base::Instant now(absl::Seconds(1'000));
  const support::TemporaryFolder folder;
  auto outbox = *Outbox::Open(folder / "outbox");
  auto lineage = *Lineage::Open(*OpenLogFile(folder / "instance"), "i1");
  Session session(WellWorker(), *lineage, *outbox);
  session.Take(Fixture::Grant(session.Request(), "L1"), now, now);
  for (int i = 0; i < 30; ++i) session.OnTrial(LargeTrial(i));
  session.End({});
  int calls = 0;
  for (bool finished = false; !finished; ++calls) {
    const v1::SynchronizeRequest request = session.Request();
    CHECK(request.ByteSizeLong() < 2 * kMaxRequestBytes);
    REQUIRE(request.leases_size() == 1);
    finished = request.leases(0).finished();
    CHECK(finished == !session.more_to_tell());
    CHECK(request.slots() == (finished ? 1 : 0));
    // The answer is lost, or says nothing of it: it is said again, all of it.
    v1::SynchronizeReply nothing;
    nothing.set_session_id("s1");
    nothing.add_features(rpc::kSealedTrials);
    if (calls % 2 == 0) session.Take(nothing, now, now);
    const v1::SynchronizeRequest again = session.Request();
    REQUIRE(again.leases_size() == 1);
    CHECK(again.leases(0).finished() == finished);
    CHECK(again.results_size() == request.results_size());
    session.Take(Fixture::Settle(again), now, now);
  }
  CHECK(calls > 2);
  CHECK(session.settled());
  CHECK(session.Request().leases_size() == 0);
}

TEST_CASE("a worker that is not answered asks for no lease until it is") {
  const base::Instant now(absl::Seconds(1'000));
  const support::TemporaryFolder folder;
  auto outbox = *Outbox::Open(folder / "outbox");
  auto lineage = *Lineage::Open(*OpenLogFile(folder / "instance"), "i1");
  Session session(WellWorker(), *lineage, *outbox);
  v1::SynchronizeReply later;
  later.set_session_id("s1");
  later.set_next_sync_after_ms(10'000);
  CHECK(session.Request().slots() == 1);
  // The planner may have heard it, and may hear the next ones.
  CHECK(session.Request().slots() == 0);
  CHECK(session.Request().slots() == 0);
  // Now it is answered, as somebody who wants nothing: it asks at once.
  CHECK(session.Take(later, now, now).next_sync == absl::ZeroDuration());
  CHECK(session.Request().slots() == 1);
  CHECK(session.Take(later, now, now).next_sync == absl::Seconds(10));
  // It ends a lease: who hears that and is not heard would be given the next.
  session.Take(Fixture::Grant(session.Request(), "L1"), now, now);
  session.Request();
  session.End({});
  for (int call = 0; call < 3; ++call) {
    const v1::SynchronizeRequest request = session.Request();
    REQUIRE(request.leases_size() == 1);
    CHECK(request.leases(0).finished());
    CHECK(request.slots() == 0);
  }
  // What it was given by the answer that it missed is taken, however late.
  const v1::SynchronizeRequest request = session.Request();
  CHECK(session.Take(Fixture::Grant(request, "L2"), now, now).start.has_value());
}

TEST_CASE("over a slow network a worker says less at once, and is heard") {
  absl::Notification found;
  Fixture fixture([&](agent::Reporter& reporter, const std::atomic<bool>&) {
    for (int i = 0; i < 30; ++i) reporter.OnTrial(LargeTrial(i));
    found.Notify();
    return agent::Outcome();
  });
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  found.WaitForNotification();
  // More than a megabyte takes longer than a call may. It may not be so for the time of a lease.
  const auto most_late =
      static_cast<int>((kTtl - kFenceMargin) / absl::Milliseconds(rpc::kCallTimeoutMs));
  size_t largest = 0;
  int batches = 0, late_in_a_row = 0;
  while (batches < 30) {
    const v1::SynchronizeRequest request = fixture.Take();
    largest = std::max(largest, request.ByteSizeLong());
    if (request.ByteSizeLong() > 1 << 20) {
      REQUIRE(++late_in_a_row <= most_late);
      fixture.link.Answer(absl::DeadlineExceededError("deadline exceeded"));
    } else {
      late_in_a_row = 0;
      batches += request.results_size();
      fixture.link.Answer(Fixture::Settle(request));
    }
  }
  CHECK(largest > kMaxRequestBytes / 2);
  CHECK(fixture.Finish().ok());
}

TEST_CASE("a worker says no more than the planner has room for, and comes when it is told to") {
  absl::Notification found;
  Fixture fixture([&](agent::Reporter& reporter, const std::atomic<bool>& stop) {
    for (int i = 0; i < 8; ++i) reporter.OnTrial(LargeTrial(i));
    found.Notify();
    while (!stop) std::this_thread::yield();
    return agent::Outcome();
  });
  v1::SynchronizeReply reply = Fixture::Grant(fixture.link.Take(), "L1");
  reply.set_most_result_bytes(1);
  fixture.link.Answer(reply);
  found.WaitForNotification();
  base::Instant last = fixture.clock.TimeNow();
  for (int calls = 0; calls < 3; ++calls) {
    const v1::SynchronizeRequest request = fixture.Take();
    CHECK(request.results_size() == 1);
    // Not at once, though there is more to tell.
    if (calls > 0) CHECK(fixture.clock.TimeNow() - last >= absl::Milliseconds(1'000));
    last = fixture.clock.TimeNow();
    reply = Fixture::Settle(request);
    reply.set_most_result_bytes(1);
    fixture.link.Answer(reply);
  }
  fixture.Take();
  const base::Instant refused = fixture.clock.TimeNow();
  fixture.link.Answer(
      rpc::WithRetryAfter(absl::ResourceExhaustedError("too much to do"), absl::Seconds(7)));
  const v1::SynchronizeRequest request = fixture.Take();
  CHECK(fixture.clock.TimeNow() - refused >= absl::Seconds(7));
  CHECK(fixture.clock.TimeNow() - refused <= absl::Seconds(12));
  // There is room again.
  fixture.link.Answer(Fixture::Settle(request));
  CHECK(fixture.Take().results_size() > 1);
  fixture.link.Answer(Fixture::Settle(request));
  CHECK(fixture.Finish().ok());
}

TEST_CASE(
    "a worker that leaves tells all at once, a batch at a time where the planner has no room") {
  const base::Instant now(absl::Seconds(1'000));
  const support::TemporaryFolder folder;
  auto outbox = *Outbox::Open(folder / "outbox");
  auto lineage = *Lineage::Open(*OpenLogFile(folder / "instance"), "i1");
  Session session(WellWorker(), *lineage, *outbox);
  const auto settle = [&](const v1::SynchronizeRequest& request) {
    v1::SynchronizeReply reply = Fixture::Settle(request);
    reply.set_most_result_bytes(1);
    session.Take(reply, now, now);
  };
  session.Take(Fixture::Grant(session.Request(), "L1"), now, now);
  settle(session.Request());
  for (int i = 0; i < 4; ++i) session.OnTrial(LargeTrial(i));
  session.End({});
  settle(session.Request());
  CHECK_FALSE(session.more_to_tell());
  session.set_draining();
  for (int calls = 1; calls < 4; ++calls) {
    CHECK(session.more_to_tell());
    const v1::SynchronizeRequest request = session.Request();
    CHECK(request.results_size() == 1);
    settle(request);
  }
  CHECK(session.settled());
}

TEST_CASE("results that the planner cannot take are given up, and the worker goes on") {
  Fixture fixture([](agent::Reporter& reporter, const std::atomic<bool>&) {
    reporter.OnIncumbent(MakeIncumbent("L1/0"));
    return agent::Outcome();
  });
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  v1::SynchronizeRequest request = fixture.Take();
  while (request.results_size() == 0) {
    fixture.link.Answer(Fixture::Settle(request));
    request = fixture.Take();
  }
  fixture.link.Answer(absl::InvalidArgumentError("an incumbent needs a finite speedup"));
  do {
    request = fixture.Take();
    CHECK(request.results_size() == 0);
    fixture.link.Answer(Fixture::Settle(request));
  } while (request.leases_size() > 0);
  CHECK(fixture.Finish().ok());
}

TEST_CASE("a worker whose name the planner refuses ends with the reason") {
  Fixture fixture(UntilStopped);
  fixture.link.Take();
  fixture.link.Answer(absl::InvalidArgumentError("worker id 'w' must be printable"));
  absl::Status ended = fixture.Finish();
  CHECK(absl::IsInvalidArgument(ended));
}

TEST_CASE("a drain ends the parked call and says so once more") {
  Fixture fixture(UntilStopped);
  v1::SynchronizeRequest request = fixture.link.Take();
  CHECK(request.slots() == 1);
  CHECK(fixture.Finish().ok());
}

TEST_CASE("a quarantined worker says so once, stays, and says when it is over") {
  std::ostringstream log;
  auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(logger);
  {
    Fixture fixture(UntilStopped);
    v1::SynchronizeRequest request = fixture.link.Take();
    for (const char* why : {"three tasks were lost here", "three tasks were lost here", "", ""}) {
      v1::SynchronizeReply reply = Fixture::Settle(request);
      reply.set_quarantine(why);
      fixture.link.Answer(reply);
      request = fixture.Take();
      CHECK(request.slots() == 1);
    }
    fixture.link.Answer(Fixture::Settle(request));
    CHECK(fixture.Finish().ok());
  }
  spdlog::set_default_logger(before);
  const std::string said = log.str();
  const auto times = [&](const std::string& what) {
    int count = 0;
    for (size_t at = said.find(what); at != said.npos; at = said.find(what, at + 1)) ++count;
    return count;
  };
  INFO(said);
  CHECK(times("gives this worker nothing: three tasks were lost here") == 1);
  CHECK(times("gives this worker work again") == 1);
}

TEST_CASE("a worker on which every task fails ends with the reason") {
  Fixture fixture([](agent::Reporter&, const std::atomic<bool>&) {
    return absl::StatusOr<agent::Outcome>(absl::UnavailableError("the judge does not start"));
  });
  v1::SynchronizeRequest request = fixture.link.Take();
  for (int i = 0; i < kMaxFailedTasks; ++i) {
    fixture.link.Answer(Fixture::Grant(request, "L" + std::to_string(i)));
    request = fixture.Take();
    while (request.leases_size() == 0 || !request.leases(0).finished()) {
      fixture.link.Answer(Fixture::Settle(request));
      request = fixture.Take();
    }
    CHECK(request.leases(0).failure() == "the judge does not start");
    CHECK_FALSE(request.leases(0).permanent());
  }
  CHECK(request.slots() == 0);
  fixture.link.Answer(Fixture::Settle(request));
  absl::Status ended = fixture.Finish();
  CHECK_FALSE(ended.ok());
  CHECK(std::string(ended.message()).find("the judge does not start") != std::string::npos);
}

// Works until it is told to stop; then it finds something more.
absl::StatusOr<agent::Outcome> WorksUntilStopped(agent::Reporter& reporter,
                                                 const std::atomic<bool>& stop) {
  reporter.OnTrial(MakeTrial("L1/0"));
  while (!stop) std::this_thread::yield();
  reporter.OnTrial(MakeTrial("L1/1"));
  reporter.OnIncumbent(MakeIncumbent("L1/1"));
  return absl::InternalError("the judge failed");
}

// The first request that tells of the lease's end.
v1::SynchronizeRequest TakeEnd(Fixture& fixture) {
  while (true) {
    v1::SynchronizeRequest request = fixture.Take();
    if (request.leases_size() == 1 && request.leases(0).finished()) return request;
    fixture.link.Answer(Fixture::Settle(request));
  }
}

TEST_CASE("a card that fails ends the lease without blame, and nothing is taken until it is well") {
  Fixture fixture(WorksUntilStopped);
  fixture.link.Answer(Fixture::Settle(fixture.link.Take()));
  fixture.link.Answer(Fixture::Grant(fixture.Take(), "L1"));
  const bool fault = GENERATE(true, false);
  // What was found before is told, what is found after it is not.
  v1::SynchronizeRequest before = fixture.Take();
  while (before.results_size() == 0) {
    fixture.link.Answer(Fixture::Settle(before));
    before = fixture.Take();
  }
  CHECK(testing::Opened(before.results(0)).trials().trials_size() == 1);
  fixture.link.Answer(Fixture::Settle(before));
  fixture.daemon().SetHealth(
      {.healthy = false, .reason = "Xid 79", .fault = fault ? "Xid 79" : ""});
  const v1::SynchronizeRequest end = TakeEnd(fixture);
  CHECK(end.results_size() == 0);
  CHECK(end.leases(0).interrupted());
  CHECK(end.leases(0).reason() == "Xid 79");
  CHECK(end.leases(0).failure().empty());
  CHECK(end.slots() == 0);
  CHECK_FALSE(end.worker().healthy());
  CHECK(end.worker().health_reason() == "Xid 79");
  CHECK(end.worker().fault() == (fault ? "Xid 79" : ""));
  fixture.link.Answer(Fixture::Settle(end));
  const v1::SynchronizeRequest sick = fixture.Take();
  CHECK(sick.slots() == 0);
  fixture.link.Answer(Fixture::Settle(sick));
  fixture.daemon().SetHealth({});
  v1::SynchronizeRequest well = fixture.Take();
  CHECK(well.worker().healthy());
  CHECK(well.slots() == 1);
  fixture.link.Answer(Fixture::Settle(well));
}

TEST_CASE("an interruption ends one lease, and the next is worked on") {
  Fixture fixture(WorksUntilStopped);
  fixture.link.Answer(Fixture::Grant(fixture.link.Take(), "L1"));
  fixture.link.Answer(Fixture::Settle(fixture.Take()));
  fixture.daemon().Interrupt("memory gave way");
  fixture.daemon().Interrupt("and again");
  const v1::SynchronizeRequest end = TakeEnd(fixture);
  CHECK(end.leases(0).interrupted());
  CHECK(end.leases(0).reason() == "memory gave way");
  CHECK(end.worker().healthy());
  fixture.link.Answer(Fixture::Settle(end));
  fixture.daemon().Interrupt("while there is no lease");
  fixture.link.Answer(Fixture::Grant(fixture.Take(), "L2"));
  v1::SynchronizeRequest next = fixture.Take();
  REQUIRE(next.leases_size() == 1);
  CHECK(next.leases(0).lease_id() == "L2");
  CHECK_FALSE(next.leases(0).finished());
  fixture.link.Answer(Fixture::Settle(next));
}

}  // namespace
}  // namespace warpsmith::daemon
