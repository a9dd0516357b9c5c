// The parts of the command line that need no planner.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/client.h"
#include "cli/completion.h"
#include "cli/supervisor.h"
#include "cli/table.h"
#include "cli/trials.h"
#include "cli/watch.h"
#include "cli/words.h"
#include "common/base/file.h"
#include "common/rpc/text.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::cli {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;

v1::Task* AddTask(v1::ListReply& list, const std::string& run, const std::string& name,
                  v1::TaskState state, double speedup) {
  v1::Task* task = list.add_tasks();
  task->set_id(run + "/" + name + "@host");
  task->set_run_id(run);
  task->set_problem_name(name);
  task->set_state(state);
  task->set_speedup(speedup);
  task->set_best_us(speedup > 0 ? 10 / speedup : 0);
  task->set_seconds_budget(10);
  task->set_seconds_spent(5);
  return task;
}

v1::ListReply TwoRuns() {
  v1::ListReply list;
  list.add_runs()->set_id("r1");
  list.add_runs()->set_id("r2");
  AddTask(list, "r1", "softmax", v1::CONVERGED, 1.5);
  AddTask(list, "r1", "relu", v1::CONVERGED, 1);
  AddTask(list, "r2", "softmax", v1::LEASED, 2);
  return list;
}

TEST_CASE("numbers for people") {
  CHECK(Speedup(1.234) == "1.23x");
  CHECK(Speedup(0) == "-");
  CHECK(Microseconds(12.34) == "12.3 us");
  CHECK(Microseconds(0.06) == "60.0 ns");
  CHECK(Microseconds(1234) == "1.23 ms");
  CHECK(Microseconds(2.5e6) == "2.50 s");
  CHECK(Bytes(512) == "512 B");
  CHECK(Bytes(1536) == "1.50 KiB");
  CHECK(Count(999) == "999");
  CHECK(Count(1.25e9) == "1.25 G");
  CHECK(Clock(42) == "0:42");
  CHECK(Clock(3723) == "1:02:03");
}

TEST_CASE("a table is as wide as its cells, in code points") {
  Table table({{"name"}, {"speedup", kRight}});
  table.Add({"größe", "1.00x"});
  table.Add({"x\ny", "12.00x"});
  CHECK(table.Text() ==
        "name   speedup\n"
        "größe    1.00x\n"
        "x y     12.00x\n");
}

TEST_CASE("tasks are found by as much of their ids as is wanted, in the last run that has them") {
  v1::ListReply list = TwoRuns();
  for (const char* workload : {"narrow", "wide"}) {
    v1::Task* task = AddTask(list, "r1", std::string("norm:") + workload, v1::QUEUED, 0);
    task->set_problem_name("norm");
    task->set_workload(workload);
  }
  const std::string both = "r1/norm:narrow@host r1/norm:wide@host";
  const std::pair<const char*, std::string> cases[] = {
      {"r1/softmax@host", "r1/softmax@host"},
      {"softmax", "r2/softmax@host"},
      {"softmax@host", "r2/softmax@host"},
      {"r1/softmax", "r1/softmax@host"},
      {"relu", "r1/relu@host"},
      {"norm", both},
      {"r1/norm", both},
      {"norm@host", both},
      {"norm:wide", "r1/norm:wide@host"},
      {"r1/norm:wide", "r1/norm:wide@host"},
      {"norm:wide@host", "r1/norm:wide@host"},
      {"r1/norm:wide@host", "r1/norm:wide@host"},
  };
  for (const auto& [name, ids] : cases) {
    INFO(name);
    auto tasks = MatchTasks(list, name);
    REQUIRE(tasks.ok());
    CHECK(absl::StrJoin(*tasks, " ",
                        [](std::string* out, const v1::Task& task) { *out += task.id(); }) == ids);
  }
  const std::string all =
      "there are r2/softmax@host, r1/softmax@host, r1/relu@host, r1/norm:narrow@host, "
      "r1/norm:wide@host";
  const std::string norms = "there are r1/norm:narrow@host, r1/norm:wide@host";
  const std::pair<const char*, std::string> nearest[] = {
      {"soft", "there are r2/softmax@host, r1/softmax@host"},
      {"norm:wid", norms},
      {"r2/norm", norms},
      {"softmax:wide", "there are r2/softmax@host, r1/softmax@host"},
      {"relu@sm_90a", "there are r1/relu@host"},
      {"r1", "'r1' is a run: `warpsmith runs r1` lists its tasks"},
      {"r1/", all},
      {"", all},
  };
  for (const auto& [name, ids] : nearest) {
    INFO(name);
    auto none = MatchTasks(list, name);
    CHECK(absl::IsNotFound(none.status()));
    CHECK_THAT(std::string(none.status().message()), EndsWith(ids));
  }

  v1::ListReply two = list;
  two.add_tasks()->CopyFrom(two.tasks(2));
  two.mutable_tasks(5)->set_id("r2/softmax@sm_90a");
  CHECK(absl::IsInvalidArgument(MatchTasks(two, "softmax").status()));
  CHECK(MatchTasks(two, "softmax@sm_90a")->size() == 1);
  CHECK_THAT(std::string(MatchTasks({}, "x").status().message()), Contains("warpsmith submit"));
}

TEST_CASE("a workload is named where its problem has several, and stays readable") {
  v1::ListReply list;
  list.add_runs()->set_id("r1");
  for (const char* workload : {"large", "small"}) {
    AddTask(list, "r1", "cross_entropy_smooth_backward_bf16", v1::LEASED, 2)
        ->set_workload(workload);
  }
  AddTask(list, "r1", "relu", v1::CONVERGED, 2);
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, false),
             Contains("cross_entropy_smooth_~:large") && Contains("cross_entropy_smooth_~:small") &&
                 Contains("relu "));
  list.mutable_tasks(0)->set_workload(std::string(100, 'w'));
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, false), Contains("cross_entropy_smooth_backwa~"));
  CHECK_THAT(ResultsTable(list), Contains("cross_entropy_smooth_backward_bf16:small ") &&
                                     Contains("2 problems of 3 workloads, geometric mean 2.00x"));
}

TEST_CASE("the geometric mean falls back to 1 where nothing better was found") {
  v1::ListReply list;
  AddTask(list, "r1", "a", v1::CONVERGED, 4);
  AddTask(list, "r1", "b", v1::FAILED, 0);
  CHECK(GeomeanSpeedup(list) == Approx(2));
  CHECK(GeomeanSpeedup({}) == 0);
  CHECK_THAT(ResultsTable(list), Contains("4.00x") && Contains("geometric mean 2.00x"));
}

TEST_CASE("alarms are told and counted") {
  v1::ListReply list;
  AddTask(list, "r1", "a", v1::CONVERGED, 4);
  CHECK_THAT(ResultsTable(list), !Contains("larm"));
  list.mutable_tasks(0)->set_reason("nothing left to try");
  list.mutable_tasks(0)->set_alarm("far from the speed of light");
  CHECK_THAT(ResultsTable(list),
             Contains("converged: ALARM (far from the speed of light): nothing left to try") &&
                 Contains("1 alarm: a search has ended"));
  CHECK_THAT(ProgressPicture(list, 1, 120, 10, false), Contains("converged, ALARM"));
}

TEST_CASE("trials and kernels are told") {
  v1::TrialBatch trials;
  v1::Trial& trial = *trials.add_trials();
  trial.set_id("r1/a@sm_90a#2/17");
  trial.set_parent_id("r1/a@sm_90a#2/3");
  trial.set_specialist("compute");
  trial.mutable_move()->set_kind("unroll");
  trial.mutable_move()->set_group("y");
  trial.mutable_move()->set_skeleton("map");
  trial.mutable_move()->set_from("2");
  trial.mutable_move()->set_to("4");
  trial.set_probability(0.125);
  trial.mutable_before()->set_waves(12);
  trial.mutable_after()->set_waves(6);
  trial.set_verdict(v1::SLOWER);
  trial.mutable_timing()->set_median_us(12.3);
  trial.set_worker_id("gpu-7");
  trial.set_lease_revision(123);
  *trials.add_trials() = trial;
  trials.mutable_trials(1)->set_id("r1/a@sm_90a#2/18");
  trials.mutable_trials(1)->set_lease_why("its turn");
  trials.add_trials()->set_id("r1/a@sm_90a#1/1");
  CHECK_THAT(LeasesTable(trials), Matches("[^\\n]*\n"
                                          "r1/a@sm_90a#2 +2 +gpu-7 +123 +its turn *\n"
                                          "r1/a@sm_90a#1 +1 +- +- *\n"));
  const std::string table = TrialsTable(trials);
  CHECK_THAT(table, Contains("17") && Contains("2 -> 4") && Contains("0.125") &&
                        Contains("12.00") && Contains("slower") && Contains("12.3 us"));

  v1::Profile profile;
  CHECK(KernelsTable(profile).empty());
  profile.set_times_by("events");
  profile.set_counters_missing("CUPTI was not found");
  auto& kernel = *profile.add_kernels();
  kernel.set_entry("k3_y");
  kernel.set_us(12.3);
  CHECK_THAT(KernelsTable(profile), Contains("k3_y") && Contains("times by events") &&
                                        Contains("no counters: CUPTI was not found") &&
                                        !Contains("L2 hits"));
  kernel.mutable_counters()->set_dram_read_bytes(1 << 20);
  kernel.mutable_counters()->set_issue_active(0.42);
  CHECK_THAT(KernelsTable(profile), Contains("1.00 MiB") && Contains("42 %"));
}

TEST_CASE("progress fits the terminal, and plain lines tell only what is new") {
  v1::ListReply list;
  list.add_runs()->set_id("r1");
  for (int i = 0; i < 30; ++i) {
    AddTask(list, "r1", "task" + std::to_string(i), i == 29 ? v1::LEASED : v1::QUEUED, 1);
  }
  const std::string picture = ProgressPicture(list, 65, 80, 10, false);
  CHECK(std::count(picture.begin(), picture.end(), '\n') < 10);
  CHECK_THAT(picture,
             StartsWith("run r1") && Contains("1:05") && Contains("task29 ") && Contains("more"));
  CHECK_THAT(picture, !Contains("\x1b"));
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, true), Contains("\x1b["));

  CHECK(ProgressLines({}, list, 1).empty());
  v1::ListReply later = list;
  later.mutable_tasks(3)->set_state(v1::FAILED);
  later.mutable_tasks(3)->set_reason("does not fit");
  later.mutable_tasks(5)->set_best_us(1);
  later.mutable_tasks(5)->set_speedup(7);
  const std::string lines = ProgressLines(list, later, 2);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);
  CHECK_THAT(lines, Contains("task3 ") && Contains("does not fit") && Contains("7.00x"));
}

TEST_CASE("a line of progress is as wide as the terminal allows, in whole characters") {
  v1::ListReply list;
  list.add_runs()->set_id("r1");
  AddTask(list, "r1", "a_name_that_is_longer_than_its_column", v1::CONVERGED, 12.34);
  for (const int columns : {120, 80, 60, 30, 2}) {
    INFO(columns);
    const std::string picture = ProgressPicture(list, 65, columns, 24, false);
    std::vector<std::string> lines = absl::StrSplit(picture, '\n', absl::SkipEmpty());
    REQUIRE(lines.size() == 2);
    for (const std::string& line : lines) {
      CHECK(Width(line) < columns);
      CHECK(rpc::ToUtf8(line) == line);
    }
    // What matters is there on a terminal of the usual width.
    if (columns >= 80)
      CHECK_THAT(lines[1], Contains("█") && Contains("12.34x") && Contains("converged"));
  }
  CHECK(Cut("größe", 5) == "größe");
  CHECK(Cut("größe", 4) == "grö~");
  CHECK(Fit("größe", 7) == "größe  ");
}

TEST_CASE("who waits for a run is told when no worker serves it") {
  v1::ListReply list = TwoRuns();
  CHECK(WaitsForWorker(list).empty());  // nothing is queued
  list.mutable_tasks(2)->set_state(v1::QUEUED);
  list.mutable_tasks(2)->set_arch("sm_90a");
  CHECK_THAT(WaitsForWorker(list), Contains("'sm_90a'") && Contains("warpsmith up"));
  {
    v1::ListReply wants = list;
    for (v1::Run& run : *wants.mutable_runs()) run.add_needs("rack=3");
    wants.mutable_tasks(2)->set_needs_bytes(int64_t{100} << 30);
    v1::WorkerInfo& small = *wants.add_workers();
    small.set_arch("sm_90a");
    small.add_labels("rack=3");
    small.set_device_bytes(int64_t{80} << 30);
    CHECK_THAT(WaitsForWorker(wants), Contains("with rack=3 and ") && Contains("is connected"));
    small.set_device_bytes(int64_t{141} << 30);
    CHECK(WaitsForWorker(wants).empty());
  }
  list.add_workers()->set_arch("host");
  CHECK_FALSE(WaitsForWorker(list).empty());
  list.add_workers()->set_arch("sm_90a");
  CHECK(WaitsForWorker(list).empty());
}

TEST_CASE("where every worker is quarantined the run is said to wait for a release") {
  v1::ListReply list = TwoRuns();
  list.mutable_tasks(2)->set_state(v1::QUEUED);
  list.mutable_tasks(2)->set_arch("host");
  v1::WorkerInfo& worker = *list.add_workers();
  worker.set_id("w0");
  worker.set_arch("host");
  worker.set_healthy(true);
  CHECK(StateOf(worker) == "idle");
  CHECK(WaitsForWorker(list).empty());
  worker.set_quarantined(true);
  v1::Blame& blame = *worker.add_ledger();
  blame.set_task_id("r1/a@host");
  blame.set_cause(v1::GIVEN_UP);
  CHECK(StateOf(worker) == "idle, quarantined: r1/a@host (gave it up)");
  CHECK_THAT(WaitsForWorker(list), Contains("every worker for 'host' is quarantined or held") &&
                                       Contains("warpsmith release w0"));
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, false), Contains("1 worker, 1 quarantined"));
  worker.set_lost(true);
  worker.set_healthy(false);
  worker.set_health_reason("it fell silent");
  CHECK_THAT(StateOf(worker), StartsWith("lost: it fell silent, quarantined: r1/a"));
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, false), Contains("0 workers, 1 quarantined"));
  list.add_workers()->set_arch("host");
  CHECK(WaitsForWorker(list).empty());
}

TEST_CASE("where every worker is held the run is said to wait for a release") {
  v1::ListReply list = TwoRuns();
  list.mutable_tasks(2)->set_state(v1::QUEUED);
  list.mutable_tasks(2)->set_arch("host");
  v1::WorkerInfo& worker = *list.add_workers();
  worker.set_id("w0");
  worker.set_arch("host");
  worker.set_healthy(true);
  worker.set_held(true);
  CHECK(StateOf(worker) == "idle, held");
  worker.set_held_reason("a new fan");
  CHECK(StateOf(worker) == "idle, held: a new fan");
  CHECK_THAT(WaitsForWorker(list), Contains("warpsmith release w0"));
  CHECK_THAT(ProgressPicture(list, 65, 80, 10, false), Contains("1 worker, 1 held"));
}

TEST_CASE("completion scripts know every sub-command and flag") {
  CLI::App app("", "warpsmith");
  app.add_option("--dir");
  CLI::App* up = app.add_subcommand("up", "it's up");
  up->add_option("--workers");
  CLI::App* import = app.add_subcommand("import", "");
  import->add_subcommand("kernelbench", "")->add_option("--level");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(app, shell);
    for (const char* word : {"up", "workers", "kernelbench", "level", "dir"}) {
      CHECK_THAT(script, Contains(word));
    }
  }
}

TEST_CASE("a child's log does not grow without end, and nothing of it is in the way") {
  const support::TemporaryFolder folder;
  const std::string log = folder / "child.log";
  Supervisor supervisor([](const std::string&) {}, 1);
  supervisor.Start({"child", {"/bin/sleep", "60"}, log});
  std::filesystem::resize_file(log, kMaxLogBytes);
  supervisor.Tend();
  CHECK(std::filesystem::file_size(log) == kMaxLogBytes);
  std::filesystem::resize_file(log, kMaxLogBytes + 1);
  supervisor.Tend();
  CHECK(std::filesystem::file_size(log) == 0);
  CHECK(std::filesystem::file_size(log + ".old") == kMaxLogBytes + 1);
  CHECK(supervisor.alive() == 1);
}

TEST_CASE("a child that is stopped as soon as it is started ends by that, before exec too") {
  const support::TemporaryFolder folder;
  // Whoever runs this handler is this process or a child of it that has not become /bin/sleep.
  static std::atomic<int>* const handled =
      static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  struct sigaction counting = {}, before = {};
  counting.sa_handler = [](int) { ++*handled; };
  REQUIRE(sigaction(SIGTERM, &counting, &before) == 0);
  for (int i = 0; i < 50; ++i) {
    Supervisor supervisor([](const std::string&) {}, 1);
    supervisor.Start({"child", {"/bin/sleep", "60"}, folder / "child.log"});
  }
  REQUIRE(sigaction(SIGTERM, &before, nullptr) == 0);
  CHECK(*handled == 0);
}

TEST_CASE("of a child that keeps ending each reason is told once, and then rarely") {
  Troubles troubles;
  const base::Instant start(absl::Seconds(1'000'000));
  const std::string full = "planner exited with status 3 (no space left)";
  CHECK_THAT(*troubles.Ended(full, start), Contains(full) && Contains("starting it again"));
  // Each second for an hour: then a minute later, two, four, ...
  std::vector<int> told;
  for (int second = 1; second < 3600; ++second) {
    const auto words = troubles.Ended(full, start + absl::Seconds(second));
    if (!words) continue;
    told.push_back(second);
    CHECK_THAT(*words, Contains(full) && Contains("that was end " + std::to_string(second + 1)));
  }
  CHECK(told == std::vector<int>{60, 180, 420, 900, 1860});
  const base::Instant later = start + absl::Hours(1);
  CHECK_FALSE(troubles.Ended("planner exited with status 7 (no space left)", later));
  CHECK(troubles.Ended("planner was killed by signal 9 (Killed)", later));
  CHECK_FALSE(troubles.Ended("planner was killed by signal 9 (Killed)", later));
  CHECK_THAT(*troubles.Well(), Contains("runs again"));
  CHECK(troubles.ends() == 0);
  // One end is one sentence.
  CHECK(troubles.Ended(full, later));
  CHECK_FALSE(troubles.Well());
}

TEST_CASE("reasons without end are not told without end") {
  Troubles troubles;
  int told = 0;
  for (char c = 'a'; c <= 'z'; ++c) {
    told += troubles.Ended(std::string(1, c), base::Instant(absl::Seconds(c))).has_value() ? 1 : 0;
  }
  CHECK(told == kMaxReasons);
}

TEST_CASE("a child that is used wrongly is given up with its last word, any other is not") {
  const support::TemporaryFolder folder;
  std::vector<std::string> said;
  Supervisor supervisor([&](const std::string& what) { said.push_back(what); }, 1);
  const auto sh = [&](const std::string& name, const std::string& script) {
    supervisor.Start({name, {"/bin/sh", "-c", script}, folder / (name + ".log")});
  };
  sh("wrong", "echo '2024-05-01T10:00:00.000 error planner: --x: what is that?'; exit 2");
  sh("json", "echo '{\"level\":\"critical\",\"message\":\"--y: and this?\"}'; exit 2");
  sh("poor", "echo no space; exit 3");
  supervisor.Start({"nowhere", {"/bin/true"}, folder / "gone/log"});
  CHECK_THAT(said[0], Contains("nowhere: cannot write") && Contains("starting it again"));
  while (!supervisor.GaveUp("wrong") || !supervisor.GaveUp("json") || said.size() < 4) {
    supervisor.Tend();
  }
  CHECK_THAT(*supervisor.GaveUp("json"), Contains("status 2 (--y: and this?)"));
  CHECK_THAT(*supervisor.GaveUp("wrong"), Contains("status 2 (--x: what is that?)"));
  CHECK_FALSE(supervisor.GaveUp("poor"));
  CHECK_FALSE(supervisor.GaveUp("nowhere"));
  CHECK(supervisor.alive() == 2);
  CHECK_THAT(said[1] + said[2] + said[3],
             Contains("giving it up") && Contains("status 3 (no space)"));
}

TEST_CASE("errors have the exit codes that the reference gives") {
  CHECK(ExitCodeOf(absl::OkStatus()) == 0);
  CHECK(ExitCodeOf(absl::InternalError("")) == 1);
  CHECK(ExitCodeOf(absl::InvalidArgumentError("")) == 2);
  CHECK(ExitCodeOf(absl::UnavailableError("")) == 3);
  CHECK(ExitCodeOf(absl::NotFoundError("")) == 4);
}

TEST_CASE("a folder is asked for only by what needs one") {
  Context context;
  auto client = Client::Of(context);
  CHECK(ExitCodeOf(client.status()) == kUsage);
  CHECK_THAT(std::string(client.status().message()), Contains("--dir"));
  context.planner = "127.0.0.1:1";
  CHECK(Client::Of(context).ok());
}

TEST_CASE("without a planner the error says how to start one") {
  Context context;
  context.dir = std::filesystem::temp_directory_path() / "warpsmith-no-such-folder";
  auto client = Client::Of(context);
  CHECK(ExitCodeOf(client.status()) == kNoPlanner);
  CHECK_THAT(std::string(client.status().message()), Contains("warpsmith up"));
}

TEST_CASE("who has just ended `up` is not told that it is starting a planner") {
  const support::TemporaryFolder folder;
  Context context;
  context.dir = folder.path();
  const auto told = [&] { return std::string(Client::Of(context).status().message()); };
  int alive[2];
  REQUIRE(pipe(alive) == 0);
  const pid_t up = fork();
  if (up == 0) {
    close(alive[1]);
    prctl(PR_SET_NAME, "warpsmith");
    char end;
    _exit(static_cast<int>(read(alive[0], &end, 1)));
  }
  REQUIRE(base::WriteFileAtomically(folder / kUpPidFile, absl::StrCat(up, "\n")).ok());
  while (base::ReadFile(absl::StrCat("/proc/", up, "/comm")).value_or("") != "warpsmith\n") {
  }
  CHECK_THAT(told(), Contains("is starting it"));
  close(alive[1]);
  siginfo_t ended;
  REQUIRE(waitid(P_PID, up, &ended, WEXITED | WNOWAIT) == 0);  // it stays, as a zombie
  CHECK_THAT(told(), Contains("start one"));
  CHECK(waitpid(up, nullptr, 0) == up);
}

// It knows no method at all.
TEST_CASE("of a planner that does not know a call it is said that it is older") {
  support::TemporaryFolder folder;
  Context context;
  context.planner = "unix:" + (folder / "socket");
  grpc::ServerBuilder builder;
  builder.AddListeningPort(context.planner, grpc::InsecureServerCredentials());
  v1::WorkerService::Service worker;  // a server needs some service
  builder.RegisterService(&worker);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  absl::StatusOr<Client> client = Client::Of(context);
  REQUIRE(client.ok());
  const absl::Status status = client->SetPriority(v1::SetPriorityRequest()).status();
  CHECK(absl::IsUnimplemented(status));
  CHECK_THAT(std::string(status.message()),
             StartsWith(context.planner + " cannot do this (") &&
                 EndsWith("): the planner there is of an older version, or no planner of "
                          "Warpsmith"));
}

}  // namespace
}  // namespace warpsmith::cli
