#include "planner/core/state.h"

#include <catch2/catch.hpp>
#include <string>

#include "planner/core/core.h"
#include "planner/core/testing.h"

namespace warpsmith::planner {
namespace {

using testing::ResultOf;
using testing::StatusOf;
using testing::SubmitOf;
using testing::SyncOf;

std::string Bytes(const State& state) { return state.ToProto().SerializeAsString(); }

// A core and the log it wrote.
struct Logged {
  Core core{CoreOptions{}};
  std::vector<v1::Event> log;

  template <typename Command>
  auto Do(const Command& command, int64_t at_ms) {
    auto outcome = core.Handle(command, {at_ms, 1'700'000'000'000 + at_ms});
    log.insert(log.end(), outcome.events.begin(), outcome.events.end());
    REQUIRE(outcome.reply.ok());
    return *outcome.reply;
  }
};

void Work(Logged& logged) {
  Submit submit = SubmitOf({"a", "b", "c"});
  submit.problems[2].workloads = {"small", "large"};
  logged.Do(submit, 0);
  const auto join = [&](const std::string& worker, int64_t at_ms) {
    const std::string session = logged.Do(SyncOf(worker, ""), at_ms).session_id;
    return logged.Do(SyncOf(worker, session), at_ms);
  };
  const auto joined = join("w1", 1);
  const Grant& grant = joined.start.at(0);
  Synchronize sync = SyncOf("w1", joined.session_id);
  sync.results = {ResultOf(grant, "t1", 1.5)};
  sync.results[0].trials.set_batch("batch");
  sync.results[0].trials.set_trials(7);
  v1::SpecialistCount& count = *sync.results[0].trials.add_counts();
  count.set_specialist("memory");
  count.set_trials(7);
  sync.leases = {StatusOf(grant, 20, true)};
  logged.Do(sync, 1000);
  const Grant lost = join("w2", 2000).start.at(0);
  logged.Do(SetTask{"r1/b@host", v1::HELD, "later"}, 3000);
  logged.Do(SetPriority{"r1", 7, "the show is tomorrow"}, 3000);
  logged.Do(Tick{}, 200'000);
  // The task waits for another worker, and what comes late of it says what to expect.
  Synchronize late = SyncOf("w2", "", 0);
  late.results = {ResultOf(lost, "t2", 9.9)};
  logged.Do(late, 200'000);
  join("w3", 200'001);
}

}  // namespace

TEST_CASE("the log applied again gives the same state, byte for byte") {
  Logged logged;
  Work(logged);
  State replayed;
  for (const v1::Event& event : logged.log) replayed.Apply(event);
  CHECK(replayed.revision() == static_cast<int64_t>(logged.log.size()));
  CHECK(Bytes(replayed) == Bytes(logged.core.state()));
}

TEST_CASE("a snapshot anywhere in the log and the rest of it give the same state and indexes") {
  Logged logged;
  Work(logged);
  for (size_t cut = 0; cut <= logged.log.size(); ++cut) {
    State before;
    for (size_t i = 0; i < cut; ++i) before.Apply(logged.log[i]);
    v1::PlannerState stored;
    REQUIRE(stored.ParseFromString(Bytes(before)));
    State after = State::FromProto(stored);
    for (size_t i = cut; i < logged.log.size(); ++i) after.Apply(logged.log[i]);
    const State& live = logged.core.state();
    CHECK(Bytes(after) == Bytes(live));
    CHECK(after.Queued("host") == live.Queued("host"));
    CHECK(after.Doubtful("host") == live.Doubtful("host"));
    CHECK(after.quarantined() == live.quarantined());
    CHECK(after.LeasedBy("w3") == live.LeasedBy("w3"));
    CHECK(after.LiveWorkers() == live.LiveWorkers());
  }
}

TEST_CASE("an alarm is its task's change, and counted where its run's record is read") {
  Logged logged;
  Work(logged);
  State state = State::FromProto(logged.core.state().ToProto());
  v1::PlannerState before = state.ToProto();
  v1::Event alarm;
  alarm.mutable_task_moved()->set_task_id("r1/b@host");
  alarm.mutable_task_moved()->set_state(v1::CONVERGED);
  alarm.mutable_task_moved()->set_alarm("poor");
  state.Apply(alarm);
  CHECK(state.FindRun("r1")->run().alarms() == 1);
  const Changes changes = state.TakeChanges();
  CHECK(changes.records.runs_size() == 0);
  REQUIRE(changes.records.tasks_size() == 1);
  for (v1::TaskRecord& task : *before.mutable_tasks()) {
    if (task.task().id() == "r1/b@host") task = changes.records.tasks(0);
  }
  CHECK(State::FromProto(before).FindRun("r1")->run().alarms() == 1);
}

TEST_CASE("a priority is a change of its run's record alone") {
  Logged logged;
  Work(logged);
  State state = State::FromProto(logged.core.state().ToProto());
  Core core{CoreOptions{}};
  core.Restore(state.ToProto());
  const auto outcome = core.Handle(SetPriority{"r1", -3, ""}, {});
  REQUIRE(outcome.events.size() == 1);
  state.Apply(outcome.events[0]);
  const Changes changes = state.TakeChanges();
  CHECK(changes.records.tasks_size() == 0);
  REQUIRE(changes.records.runs_size() == 1);
  CHECK(changes.records.runs(0).run().priority() == -3);
  CHECK(state.Queued("host") == State::FromProto(state.ToProto()).Queued("host"));
}

// To them it says that the run is for the architecture that it has.
TEST_CASE("versions that know of no change of a priority go on with a log that has one") {
  const std::string arch = GENERATE("host", "");
  Logged logged;
  logged.Do(SubmitOf({"a", "b"}, arch), 0);
  const std::string before = Bytes(logged.core.state());
  logged.Do(SetPriority{"r1", 7, "soon"}, 1);
  v1::Event known;  // by field numbers: 10 was RunBound{run_id = 1, arch = 2}
  known.set_at_unix_ms(logged.log.back().at_unix_ms());
  known.mutable_run_changed()->set_run_id("r1");
  known.mutable_run_changed()->set_arch(arch);
  v1::Event as_read = logged.log.back();
  as_read.mutable_run_changed()->clear_priority();
  as_read.mutable_run_changed()->clear_reason();
  CHECK(as_read.SerializeAsString() == known.SerializeAsString());
  v1::PlannerState stored;
  REQUIRE(stored.ParseFromString(before));
  State state = State::FromProto(stored);
  state.Apply(known);
  stored.set_revision(2);
  CHECK(Bytes(state) == stored.SerializeAsString());
  CHECK(state.unbound().size() == (arch.empty() ? 1 : 0));
}

TEST_CASE("what is remembered of lost workers has a limit") {
  State state;
  for (int i = 0; i < 2 * kMaxLostWorkers; ++i) {
    v1::Event joined;
    joined.mutable_worker_joined()->mutable_worker()->set_id(absl::StrCat("w", i));
    joined.mutable_worker_joined()->set_session_id(absl::StrCat("s", i));
    state.Apply(joined);
    v1::Event lost;
    lost.mutable_worker_lost()->set_worker_id(absl::StrCat("w", i));
    state.Apply(lost);
  }
  CHECK(state.workers().size() == kMaxLostWorkers);
  CHECK(state.LiveWorkers() == 0);
  CHECK(state.sessions() == 2 * kMaxLostWorkers);
}

}  // namespace warpsmith::planner
