// The service alone: its writes are in the test's hands.
#include "planner/service/service.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"
#include "common/store/memory_store.h"

namespace warpsmith::planner {
namespace {

constexpr Now kStart = {1'000'000, 1'000'000};

Synchronize SyncOf(const std::string& worker, const std::string& session,
                   const std::string& arch = "host") {
  Synchronize command;
  command.worker.set_id(worker);
  command.worker.set_arch(arch);
  command.worker.set_healthy(true);
  command.session_id = session;
  command.slots = 1;
  return command;
}

Submit SubmitOf(int problems, const std::string& arch = "host") {
  Submit command;
  command.name = "set";
  command.policy = "rules";
  command.arch = arch;
  for (int i = 0; i < problems; ++i) {
    command.problems.push_back({absl::StrCat("p", i), absl::StrCat("blob", i), {"default"}});
  }
  return command;
}

struct Bench {
  explicit Bench(ServiceOptions options = {}) : service(options, 7) {
    REQUIRE(service.Load(store, now).ok());
  }

  int64_t Call(Command command) {
    service.Handle(++calls, std::move(command), {}, now);
    return calls;
  }
  // Everything that was handed out becomes durable.
  void Commit() {
    for (const Write& write : service.TakeWrites()) service.Durable(write.number);
  }
  std::vector<int64_t> Answered() {
    std::vector<int64_t> calls_answered;
    for (Answer& answer : service.TakeAnswers()) {
      calls_answered.push_back(answer.call);
      last = std::move(answer.reply);
    }
    return calls_answered;
  }
  std::string Join(const std::string& worker, const std::string& arch = "host") {
    const int64_t call = Call(SyncOf(worker, "", arch));
    Commit();
    REQUIRE(Answered() == std::vector<int64_t>{call});
    REQUIRE(last.ok());
    return std::get<SynchronizeAnswer>(*last).session_id;
  }

  store::MemoryStore store;
  Service service;
  Now now = kStart;
  int64_t calls = 0;
  absl::StatusOr<Reply> last = absl::UnknownError("none");
};

TEST_CASE("nobody is told what is not durable, and answers keep their order") {
  Bench bench;
  const int64_t submit = bench.Call(SubmitOf(1));
  const int64_t list = bench.Call(ListTasks{});
  const int64_t unknown = bench.Call(GetTask{"r9/x@host"});
  CHECK(bench.Answered().empty());
  const std::vector<Write> first = bench.service.TakeWrites();
  REQUIRE(first.size() == 1);
  const int64_t join = bench.Call(SyncOf("w", ""));
  const std::vector<Write> second = bench.service.TakeWrites();
  REQUIRE(second.size() == 1);
  bench.service.Durable(first[0].number);
  CHECK(bench.Answered() == std::vector<int64_t>{submit, list, unknown});
  bench.service.Durable(second[0].number);
  CHECK(bench.Answered() == std::vector<int64_t>{join});
  // With nothing on the way a read is answered at once.
  const int64_t again = bench.Call(ListTasks{});
  CHECK(bench.Answered() == std::vector<int64_t>{again});
}

TEST_CASE("who is told that a run has another priority finds it in the checkpoint") {
  Bench bench;
  bench.Call(SubmitOf(2));
  bench.Commit();
  bench.Answered();
  const int64_t call = bench.Call(SetPriority{"r1", 5, ""});
  const std::vector<Write> writes = bench.service.TakeWrites();
  REQUIRE(writes.size() == 2);
  CHECK(writes[0].events.size() == 1);
  REQUIRE(writes[1].checkpoint);
  CHECK(writes[1].changes->records.runs(0).run().priority() == 5);
  bench.service.Durable(writes[0].number);
  CHECK(bench.Answered().empty());
  bench.service.Saved(writes[1].changes->records.revision());
  bench.service.Durable(writes[1].number);
  CHECK(bench.Answered() == std::vector<int64_t>{call});
  CHECK(bench.last.ok());
  // Said again it is neither.
  const int64_t again = bench.Call(SetPriority{"r1", 5, ""});
  CHECK(bench.service.TakeWrites().empty());
  CHECK(bench.Answered() == std::vector<int64_t>{again});
  CHECK(bench.last.ok());
}

TEST_CASE("a priority whose checkpoint cannot be saved is not called done until one is") {
  Bench bench;
  bench.Call(SubmitOf(2));
  bench.Commit();
  bench.Answered();
  const int64_t call = bench.Call(SetPriority{"r1", 5, ""});
  bench.Commit();  // and nothing is saved
  CHECK(bench.Answered() == std::vector<int64_t>{call});
  CHECK(absl::IsUnavailable(bench.last.status()));
  CHECK_THAT(std::string(bench.last.status().message()), Catch::Contains("say it again"));
  const int64_t again = bench.Call(SetPriority{"r1", 5, ""});
  const std::vector<Write> writes = bench.service.TakeWrites();
  REQUIRE(writes.size() == 1);
  CHECK(writes[0].events.empty());
  REQUIRE(writes[0].checkpoint);
  bench.service.Saved(writes[0].changes->records.revision());
  bench.service.Durable(writes[0].number);
  CHECK(bench.Answered() == std::vector<int64_t>{again});
  CHECK(bench.last.ok());
  // A call that is refused for what it says has nothing to do with checkpoints.
  bench.Call(SetPriority{"r9", 5, ""});
  CHECK(bench.service.TakeWrites().empty());
  CHECK(bench.Answered().size() == 1);
  CHECK(absl::IsNotFound(bench.last.status()));
}

TEST_CASE("priorities that are changed in a row are one transaction with one checkpoint") {
  Bench bench;
  bench.Call(SubmitOf(2));
  bench.Commit();
  bench.Answered();
  for (int i = 1; i <= 100; ++i) bench.Call(SetPriority{"r1", i % 2, ""});
  bench.Call(SubmitOf(1));  // after the last checkpoint
  std::vector<Write> writes = bench.service.TakeWrites();
  REQUIRE(writes.size() == 201);
  const std::deque<Write> queue(writes.begin(), writes.end());
  CHECK(OneTransaction(queue) == 200);
  CHECK(OneTransaction({queue.back()}) == 1);
}

TEST_CASE("work wakes as many parked calls as there is work for, the longest waiting first") {
  Bench bench;
  std::vector<int64_t> parked;
  for (const char* worker : {"a", "b", "c"}) {
    const std::string session = bench.Join(worker);
    parked.push_back(bench.Call(SyncOf(worker, session)));
  }
  const std::string other = bench.Join("d", "sm_90a");
  bench.Call(SyncOf("d", other, "sm_90a"));
  CHECK(bench.service.parked() == 4);
  const int64_t submit = bench.Call(SubmitOf(2));
  bench.Commit();
  CHECK(bench.Answered() == std::vector<int64_t>{submit, parked[0], parked[1]});
  CHECK(std::get<SynchronizeAnswer>(*bench.last).start.size() == 1);
  CHECK(bench.service.parked() == 2);
}

TEST_CASE("a parked call ends: called again, cancelled, its time over, the planner leaving") {
  Bench bench;
  const std::string session = bench.Join("w");
  const int64_t first = bench.Call(SyncOf("w", session));
  const int64_t second = bench.Call(SyncOf("w", session));
  CHECK(bench.Answered() == std::vector<int64_t>{first});
  CHECK(bench.last.status().code() == absl::StatusCode::kAborted);
  bench.service.Cancel(first);  // it is gone
  bench.service.Cancel(second);
  CHECK(bench.Answered() == std::vector<int64_t>{second});
  CHECK(bench.last.status().code() == absl::StatusCode::kCancelled);

  const int64_t third = bench.Call(SyncOf("w", session));
  for (int64_t end = bench.now.monotonic_ms + CoreOptions{}.park_ms;
       bench.now.monotonic_ms < end;) {
    bench.now.monotonic_ms += 1000;
    bench.service.Tick(bench.now);
    bench.Commit();
  }
  CHECK(bench.Answered() == std::vector<int64_t>{third});
  REQUIRE(bench.last.ok());
  CHECK(std::get<SynchronizeAnswer>(*bench.last).start.empty());

  const int64_t fourth = bench.Call(SyncOf("w", session));
  bench.service.Drain();
  CHECK(bench.Answered() == std::vector<int64_t>{fourth});
  CHECK(bench.last.status().code() == absl::StatusCode::kUnavailable);
  bench.Call(ListTasks{});
  CHECK(bench.Answered().size() == 1);
  CHECK(bench.last.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a store that takes nothing: calls are refused, and no silence of then counts") {
  Bench bench;
  const std::string session = bench.Join("w");
  const int64_t submit = bench.Call(SubmitOf(1));
  const std::vector<Write> writes = bench.service.TakeWrites();
  bench.service.Stalled(absl::UnavailableError("the disk is full"));
  const int64_t refused = bench.Call(SyncOf("w", session));
  CHECK(bench.Answered() == std::vector<int64_t>{refused});
  CHECK(bench.last.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(bench.last.status().message()), Catch::Contains("the disk is full"));
  bench.now.monotonic_ms += 10 * 60'000;
  bench.service.Tick(bench.now);
  bench.service.Durable(writes.back().number);
  CHECK(bench.Answered() == std::vector<int64_t>{submit});
  bench.service.Tick(bench.now);
  bench.Commit();
  CHECK(bench.service.core().state().LiveWorkers() == 1);
  bench.Call(SyncOf("w", session));
  bench.Commit();
  REQUIRE(bench.last.ok());
}

TEST_CASE(
    "with too much to write workers are told to say less, then to come again, and not blamed") {
  Bench bench;
  const std::string session = bench.Join("w");
  const auto room = [&] { return std::get<SynchronizeAnswer>(*bench.last).most_result_bytes; };
  const auto near = [&](int64_t bytes) { return room() <= bytes && room() > bytes - 1'000; };
  CHECK(near(kMaxUncommittedBytes / 2));
  bench.Join("v");
  CHECK(near(kMaxUncommittedBytes / 4));
  // Sets whose blobs take long to write.
  const auto submit = [&](int number) {
    Submit set = SubmitOf(1);
    set.name = absl::StrCat("set", number);
    Contents contents;
    v1::Problem problem;
    problem.set_name(std::string(40 << 20, static_cast<char>('a' + number)));
    set.problems[0].blob = AddBlob(problem, contents);
    bench.service.Handle(++bench.calls, set, std::move(contents), bench.now);
  };
  // A call that was parked is told, too.
  bench.Call(SyncOf("w", session));
  CHECK(bench.Answered().empty());
  bench.Call(SubmitOf(1));
  bench.Commit();
  CHECK(bench.Answered().size() == 2);
  CHECK(near(kMaxUncommittedBytes / 4));
  for (int number = 0; number < 5; ++number) submit(number);
  Synchronize leaves_nothing = SyncOf("w", session);
  leaves_nothing.slots = 0;
  const int64_t heard = bench.Call(leaves_nothing);
  submit(5);
  submit(6);
  const int64_t refused = bench.Call(leaves_nothing);
  CHECK(bench.Answered() == std::vector<int64_t>{refused});
  CHECK(absl::IsResourceExhausted(bench.last.status()));
  CHECK(rpc::RetryAfter(bench.last.status()) == absl::Milliseconds(CoreOptions{}.busy_sync_ms));
  for (int second = 0; second < 200; ++second) {
    bench.now.monotonic_ms += 1'000;
    bench.service.Tick(bench.now);
  }
  bench.Commit();
  const std::vector<int64_t> answered = bench.Answered();
  CHECK(std::count(answered.begin(), answered.end(), heard) == 1);
  bench.now.monotonic_ms += 1'000;
  bench.service.Tick(bench.now);
  bench.Commit();
  CHECK(bench.service.core().state().LiveWorkers() == 2);
  bench.Call(leaves_nothing);
  bench.Commit();
  bench.Answered();
  REQUIRE(bench.last.ok());
  CHECK(near(kMaxUncommittedBytes / 4));
}

TEST_CASE("a planner that was stopped for a while blames nobody for what it did not hear") {
  Bench bench;
  bench.Call(SubmitOf(1));
  bench.Commit();
  bench.Answered();
  bench.Call(SyncOf("w", bench.Join("w")));
  bench.Commit();
  REQUIRE(bench.service.core().state().LeasedBy("w").size() == 1);
  const auto tick_for = [&](int64_t ms, int64_t step) {
    for (int64_t end = bench.now.monotonic_ms + ms; bench.now.monotonic_ms < end;) {
      bench.now.monotonic_ms += step;
      bench.service.Tick(bench.now);
      bench.Commit();
    }
  };
  tick_for(65'000, 65'000);
  CHECK(bench.service.core().state().LeasedBy("w").size() == 1);
  CHECK(bench.service.core().state().LiveWorkers() == 1);
  // Whoever is silent after that is lost as ever.
  tick_for(CoreOptions{}.failover_ttl_ms + 1000, 1000);
  CHECK(bench.service.core().state().LeasedBy("w").empty());
  CHECK(bench.service.core().state().LiveWorkers() == 0);
}

TEST_CASE("the board is handed out when it changed, behind what it shows, and again if not shown") {
  Bench bench({.board = true});
  CHECK(bench.service.TakeViews().size() == 1);  // what was loaded
  bench.service.Tick(bench.now);
  bench.Commit();
  CHECK(bench.service.TakeViews().size() == 1);
  bench.service.Tick(bench.now);
  CHECK(bench.service.TakeViews().empty());
  bench.Call(SubmitOf(1));
  bench.service.Tick(bench.now);
  CHECK(bench.service.TakeViews().empty());
  bench.Commit();
  const std::vector<View> views = bench.service.TakeViews();
  REQUIRE(views.size() == 1);
  CHECK(views[0].draw);
  CHECK(views[0].changes->records.tasks_size() == 1);
  bench.service.Tick(bench.now);
  bench.Commit();
  CHECK(bench.service.TakeViews().empty());
  bench.service.BoardFailed();
  bench.service.Tick(bench.now);
  bench.Commit();
  const std::vector<View> again = bench.service.TakeViews();
  REQUIRE(again.size() == 1);
  CHECK(again[0].draw);
  CHECK(again[0].changes->records.tasks_size() == 0);
}

TEST_CASE("boards of a large state are rare, checkpoints follow events, both are of what changed") {
  constexpr int kTasks = 10'000;
  Bench bench({.events_per_checkpoint = 3, .board = true});
  bench.Call(SubmitOf(kTasks));
  bench.Commit();
  CHECK(bench.Answered().size() == 1);
  std::vector<int64_t> boards, checkpoints;
  int64_t records = 0;
  for (int64_t ms = 0; ms < 6'000; ms += 500) {
    bench.now.monotonic_ms = kStart.monotonic_ms + ms;
    const int64_t before = bench.service.checkpoint_revision();
    bench.Join("w");
    bench.service.Tick(bench.now);
    if (bench.service.checkpoint_revision() != before) checkpoints.push_back(ms);
    CHECK(bench.service.saved_revision() == 0);  // nobody has said that one was
    bench.Commit();
    for (const View& view : bench.service.TakeViews()) {
      if (view.draw) boards.push_back(ms);
      records += view.changes->records.tasks_size() + view.changes->records.workers_size();
    }
  }
  CHECK(boards == std::vector<int64_t>{0, 2'000, 4'000});
  // An event comes every half second, after that of the submission.
  CHECK(checkpoints == std::vector<int64_t>{500, 2'000, 3'500, 5'000});
  CHECK(records < kTasks + 20);
}

TEST_CASE("of many who wait, the one that can take the work is woken for it") {
  Bench bench;
  const auto park = [&](const std::string& name, const std::string& label) {
    Synchronize call = SyncOf(name, bench.Join(name));
    if (!label.empty()) call.worker.add_labels(label);
    const int64_t number = bench.Call(call);
    bench.Commit();
    CHECK(bench.Answered().empty());
    return number;
  };
  for (int i = 0; i < 2 * kMaxLostWith; ++i) park(absl::StrCat("v", i), "");
  const int64_t able = park("w", "rack=3");
  for (int i = 0; i < 2 * kMaxLostWith; ++i) park(absl::StrCat("x", i), "rack=4");
  Submit set = SubmitOf(1);
  set.needs = {"rack=3"};
  const int64_t submit = bench.Call(set);
  bench.Commit();
  CHECK(bench.Answered() == std::vector<int64_t>{submit, able});
  REQUIRE(bench.last.ok());
  CHECK(std::get<SynchronizeAnswer>(*bench.last).start.size() == 1);
}

TEST_CASE("a new service goes on from the log and its checkpoint, to the byte") {
  Bench bench({.events_per_checkpoint = 3});
  Writer writer(&bench.store, *bench.store.Lead(), 0);
  std::string before;
  for (int i = 0; i < 7; ++i) {
    bench.Call(SyncOf(absl::StrCat("w", i), ""));  // no tick: checkpoints follow events
    for (const Write& write : bench.service.TakeWrites()) {
      REQUIRE(writer.Commit({&write, 1}).ok());
      bench.service.Durable(write.number);
    }
  }
  Service again({}, 8);
  REQUIRE(again.Load(bench.store, bench.now).ok());
  CHECK(again.checkpoint_revision() == 6);
  CHECK(again.saved_revision() == 6);
  again.Saved(9);
  CHECK(again.saved_revision() == 9);
  CHECK(CanonicalBytes(again.core().state().ToProto()) ==
        CanonicalBytes(bench.service.core().state().ToProto()));
}

}  // namespace
}  // namespace warpsmith::planner
