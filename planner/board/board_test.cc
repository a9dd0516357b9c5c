#include "planner/board/board.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/rpc/text.h"

namespace warpsmith::board {
namespace {

using Catch::Contains;

// What is drawn of it.
Picture PictureOf(const v1::PlannerState& state) {
  Picture picture;
  picture.Take({state, {}});
  return picture;
}
std::string Render(const v1::PlannerState& state) { return board::Render(PictureOf(state)); }

v1::TaskRecord& AddTask(v1::PlannerState& state, const std::string& name, v1::TaskState at,
                        double speedup = 0, double eager = 0, const std::string& run_id = "r1") {
  if (state.runs().empty()) {
    v1::Run& run = *state.add_runs()->mutable_run();
    run.set_id(run_id);
    run.set_name("starter");
    run.set_policy("rules");
    run.set_seconds_per_task(60);
  }
  v1::TaskRecord& record = *state.add_tasks();
  v1::Task& task = *record.mutable_task();
  task.set_id(absl::StrCat(run_id, "/", name, "@sm_90a"));
  task.set_run_id(run_id);
  task.set_problem_name(name);
  task.set_arch("sm_90a");
  task.set_state(at);
  if (speedup > 0) {
    task.set_incumbent_blob("blob");
    task.set_speedup(speedup);
    task.set_speedup_eager(eager);
    task.set_best_us(12.345);
    task.set_graph_us(15.5);
    task.set_light_us(10);
    task.set_baseline_name("compile");
  }
  return record;
}

}  // namespace

TEST_CASE("an empty board says what to do") {
  const std::string page = Render(v1::PlannerState());
  CHECK_THAT(page,
             Contains("warpsmith submit") && Contains("warpsmith up") && Contains("Revision 0."));
}

TEST_CASE("the score falls back to the baseline where that is faster") {
  v1::PlannerState state;
  AddTask(state, "a", v1::CONVERGED, 4, 8);
  AddTask(state, "b", v1::CONVERGED, 0.5, 2);
  AddTask(state, "c", v1::FAILED);
  const Score score = ScoreOf(PictureOf(state), "r1");
  CHECK(score.speedup == Approx(std::cbrt(4.0)));
  CHECK(score.speedup_eager == Approx(4));
  CHECK(score.with_incumbent == 2);
  CHECK(ScoreOf(PictureOf(state), "r2").speedup == 0);
}

TEST_CASE("a run's headline, table and lessons") {
  v1::PlannerState state;
  state.set_revision(77);
  v1::TaskRecord& softmax = AddTask(state, "softmax", v1::LEASED, 1.5, 2.25);
  softmax.mutable_task()->set_worker_id("w0");
  softmax.mutable_task()->set_trials(42);
  softmax.mutable_task()->set_seconds_spent(12.4);
  softmax.mutable_task()->set_specialist("memory");
  softmax.mutable_lease()->set_worker_id("w0");
  v1::Lesson& lesson = *softmax.add_lessons();
  lesson.set_specialist("memory");
  lesson.set_action("group y: register_vectors 4 -> 8");
  lesson.set_speedup_before(1);
  lesson.set_speedup_after(1.5);
  v1::SpecialistCount& count = *softmax.add_counts();
  count.set_specialist("memory");
  count.set_trials(12);
  count.set_accepted(1);
  softmax.mutable_task()->set_workload("wide");
  AddTask(state, "loss", v1::FAILED).mutable_task()->set_reason("operator | is\nunknown");
  v1::WorkerRecord& worker = *state.add_workers();
  worker.mutable_worker()->set_id("w0");
  worker.mutable_worker()->set_arch("sm_90a");
  worker.mutable_worker()->set_device_name("NVIDIA H200");
  worker.mutable_worker()->set_healthy(true);

  const std::string page = Render(state);
  CHECK_THAT(page, Contains("## Run r1: starter\n"));
  CHECK_THAT(page, Contains("**1.22x** against the strongest baseline, 2.25x against eager"));
  CHECK_THAT(page, Contains("2 tasks: 1 leased, 1 failed. 42 trials in 12 device seconds"));
  CHECK_THAT(
      page,
      Contains("| softmax:wide | leased | w0 | 12.35 | 15.50 | 1.50x | 2.25x | 81 % | compile | 42 "
               "| 12 s | memory |  |"));
  CHECK_THAT(page,
             Contains("| loss | failed | - | - | - | - | - | - | - | 0 | 0 s | - | operator \\| "
                      "is unknown |"));
  CHECK_THAT(page, Contains("**softmax:wide** (sm_90a)"));
  CHECK_THAT(page, Contains("- 1.00x to 1.50x: memory, group y: register_vectors 4 -> 8\n"));
  CHECK_THAT(page, Contains("- tried: memory 12 (1 paid)\n"));
  CHECK_THAT(page, Contains("| w0 | NVIDIA H200 | sm_90a | up | softmax:wide |"));
  CHECK_THAT(page, Contains("Revision 77."));
  CHECK(page == Render(state));
}

TEST_CASE("a picture follows what changes, shows progress, and says whose history it is of") {
  v1::PlannerState state;
  v1::TaskRecord& task = AddTask(state, "a", v1::LEASED, 2, 2);
  AddTask(state, "b", v1::QUEUED);
  task.mutable_lease()->set_worker_id("w0");
  task.mutable_task()->set_seconds_spent(10);
  for (const char* id : {"w0", "w1"}) state.add_workers()->mutable_worker()->set_id(id);
  Picture picture = PictureOf(state);
  CHECK(StoreOf(board::Render(picture)).empty());
  picture.BeOf("0123456789abcdef.2");
  CHECK(StoreOf(board::Render(picture)) == "0123456789abcdef.2");
  CHECK(StoreOf("# Another page\n\n" + std::string(500, 'x') + "<!-- store x -->").empty());
  picture.Show({{"r1/a@sm_90a", {5, "occupancy"}}, {"r1/b@sm_90a", {99, "nobody"}}});
  CHECK_THAT(board::Render(picture), Contains("| 15 s | occupancy |") && !Contains("nobody") &&
                                         Contains("in 15 device seconds") && Contains("| w1 |"));
  planner::Changes changes;
  changes.records.set_revision(5);
  *changes.records.add_tasks() = task;
  changes.records.mutable_tasks(0)->mutable_task()->set_state(v1::CONVERGED);
  changes.records.mutable_tasks(0)->clear_lease();
  changes.forgotten = {"w1"};
  picture.Take(changes);
  CHECK_THAT(board::Render(picture), Contains("1 queued, 1 converged") && !Contains("| w1 |") &&
                                         Contains("| w0 |") && Contains("Revision 5."));
}

TEST_CASE("what went to the archive is counted, and not shown") {
  v1::PlannerState state;
  AddTask(state, "a", v1::CONVERGED, 4, 8);
  Picture picture = PictureOf(state);
  planner::Changes changes;
  *changes.archived.mutable_runs() = state.runs();
  *changes.archived.mutable_tasks() = state.tasks();
  changes.records.set_revision(9);
  changes.records.set_archived_runs(1);
  picture.Take(changes);
  const std::string page = board::Render(picture);
  CHECK_THAT(page, Contains("1 in the archive: `warpsmith runs --archived`") &&
                       Contains("Revision 9.") && !Contains("Run r1") && !Contains("submit FILE"));
}

TEST_CASE("alarms stand in the headline and in the note") {
  v1::PlannerState state;
  v1::TaskRecord& poor = AddTask(state, "poor", v1::CONVERGED, 1.5, 2.25);
  poor.mutable_task()->set_reason("nothing left to try, at 28 % of the speed of light");
  CHECK_THAT(Render(state), !Contains("alarm"));
  poor.mutable_task()->set_alarm("far from the speed of light");
  CHECK_THAT(Render(state),
             Contains("**1 alarm**: a search has ended") &&
                 Contains("| **alarm** (far from the speed of light): nothing left to try, at"));
}

TEST_CASE("workers that are not up say why") {
  v1::PlannerState state;
  v1::WorkerRecord& worker = *state.add_workers();
  worker.mutable_worker()->set_id("w0");
  worker.mutable_worker()->set_health_reason("it fell silent");
  CHECK_THAT(Render(state), Contains("| sick: it fell silent |"));
  worker.set_lost(true);
  CHECK_THAT(Render(state), Contains("| lost: it fell silent |"));
}

TEST_CASE("a quarantined worker is shown with what it lost, and what to do") {
  v1::PlannerState state;
  v1::WorkerRecord& worker = *state.add_workers();
  worker.mutable_worker()->set_id("w0");
  worker.mutable_worker()->set_healthy(true);
  CHECK_THAT(Render(state), Contains("| up |") && !Contains("quarantined"));
  worker.set_quarantined(true);
  v1::Blame& blame = *worker.add_ledger();
  blame.set_task_id("r1/a@host");
  blame.set_cause(v1::UNHEARD);
  CHECK_THAT(Render(state), Contains("| up, **quarantined**: r1/a@host (fell silent) |") &&
                                Contains("**1 quarantined**") &&
                                Contains("`warpsmith release WORKER`"));
  worker.set_lost(true);
  CHECK_THAT(Render(state), Contains("| lost, **quarantined**: "));
}

TEST_CASE("a worker that a person holds is shown with the reason, and what to do") {
  v1::PlannerState state;
  v1::WorkerRecord& worker = *state.add_workers();
  worker.mutable_worker()->set_id("w0");
  worker.mutable_worker()->set_healthy(true);
  worker.set_held(true);
  worker.set_held_reason("a new fan");
  CHECK_THAT(Render(state), Contains("| up, held: a new fan |") && Contains("1 held by a person") &&
                                Contains("`warpsmith release WORKER`"));
}

TEST_CASE("the page stays readable however much there is") {
  v1::PlannerState state;
  for (int i = 0; i < kMaxRows + 10; ++i) {
    v1::TaskRecord& task = AddTask(state, absl::StrCat("t", i), v1::CONVERGED, 2, 2, "r199");
    task.mutable_task()->set_reason(std::string(10000, 'x'));
    for (int j = 0; j < 20; ++j) task.add_lessons()->set_action("a");
  }
  for (int i = 1; i < 199; ++i) state.add_runs()->mutable_run()->set_id(absl::StrCat("r", i));
  const std::string page = Render(state);
  CHECK(page.size() < 1'000'000);
  CHECK_THAT(page, Contains("and 10 more.") && Contains("- 12 earlier gains") &&
                       Contains("## Earlier runs") && Contains("- and 144 before"));
}

TEST_CASE("a page is UTF-8, whatever is on it") {
  for (const char* reason : {"\u043e\u0447\u0435\u043d\u044c ", "\xe6\x9c\x89", "\xff\xfe "}) {
    v1::PlannerState state;
    std::string text;
    while (text.size() < 500) text += reason;
    AddTask(state, "a", v1::HELD).mutable_task()->set_reason(text);
    const std::string page = Render(state);
    CHECK(page == rpc::ToUtf8(page));
  }
}

TEST_CASE("a copy is known as one, however it was saved") {
  Picture picture;
  picture.BeCopy(true);
  const std::string page = board::Render(picture);
  CHECK(IsCopy(page));
  CHECK(IsCopy("\xEF\xBB\xBF" + page));
  CHECK(IsCopy(absl::StrReplaceAll(page, {{"\n", "\r\n"}})));
  CHECK_FALSE(IsCopy(Render(v1::PlannerState())));
  // Without its last line it is no page of before.
  CHECK_FALSE(IsUntouched(page.substr(0, page.rfind("<!-- page"))));
}

}  // namespace warpsmith::board
