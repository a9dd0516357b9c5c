// What a person does, from `up` to an exported kernel, and what they may get wrong.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "tests/e2e/fleet.h"

namespace warpsmith::e2e {
namespace {

using Catch::Matchers::Contains;

const std::string kBin = WARPSMITH_BIN;

Finished Warpsmith(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kBin + "/warpsmith");
  return RunToEnd(arguments);
}

TEST_CASE("up, submit, watch, show, board, export, down") {
  Fleet fleet(kBin, 2, {"--listen-http", "127.0.0.1:0"});
  INFO(fleet.Logs());
  REQUIRE(fleet.Ready());

  Finished workers = fleet.Warpsmith({"workers"});
  CHECK(workers == 0);
  CHECK_THAT(workers.out, Contains("host0") && Contains("host1") && Contains("native"));
  CHECK(base::ReadFile(fleet.dir() + "/planner.http").ok());
  const auto present = fleet.List();
  REQUIRE(present.ok());
  for (const auto& worker : present->workers()) {
    CHECK_THAT(worker.http_address(), Catch::StartsWith("127.0.0.1:"));
  }

  // A planner by the environment: of who names neither it nor a folder.
  const std::string by_variable = "WARPSMITH_PLANNER=" + *fleet.Addresses();
  CHECK_THAT(RunToEnd({"/usr/bin/env", by_variable, kBin + "/warpsmith", "workers"}).out,
             Contains("host0") && Contains("host1"));
  CHECK(RunToEnd({"/usr/bin/env", "WARPSMITH_PLANNER=127.0.0.1:1", kBin + "/warpsmith", "--dir",
                  fleet.dir(), "workers"}) == 0);

  CHECK(fleet.Warpsmith({"health"}) == 0);

  const std::string set = WriteSmallSet(fleet.dir());
  Finished submitted = fleet.Warpsmith({"submit", set, "--seconds", "4", "--policy", "rules"});
  REQUIRE(submitted == 0);
  CHECK(submitted.out == "r1\n");

  Finished watched = fleet.Warpsmith({"watch", "r1"}, absl::Minutes(3));
  INFO(watched.err);
  INFO(fleet.Logs());
  REQUIRE(watched == 0);
  CHECK_THAT(watched.out, Contains("swish") && Contains("x  ") && Contains("geometric mean"));

  auto list = fleet.List("r1");
  REQUIRE(list.ok());
  REQUIRE(list->tasks_size() == 4);  // one a workload
  CHECK(list->runs(0).done());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    CHECK_FALSE(task.incumbent_blob().empty());
    CHECK(task.best_us() > 0);
    CHECK(task.speedup() > 0);
    CHECK(task.trials_judged() > 0);
  }

  Finished shown = fleet.Warpsmith({"show", "softmax_rows:wide"});
  CHECK(shown == 0);
  CHECK_THAT(shown.out, Contains("r1/softmax_rows:wide@host") && Contains("times of a run") &&
                            Contains("specialists") && Contains("accuracy"));
  Finished several = fleet.Warpsmith({"show", "r1/softmax_rows"});
  CHECK(several == 0);
  CHECK_THAT(several.out, Contains("softmax_rows:narrow ") && Contains("softmax_rows:wide ") &&
                              Contains("1 problem of 2 workloads"));
  CHECK_THAT(several.err, Contains("warpsmith show r1/softmax_rows:"));
  Finished trials = fleet.Warpsmith({"show", "r1/softmax_rows", "--trials"});
  CHECK(trials == 2);
  CHECK_THAT(trials.err, Contains("narrow, wide") && Contains("r1/softmax_rows:narrow --trials"));
  Finished json = fleet.Warpsmith({"show", "swish", "-o", "json"});
  REQUIRE(json == 0);
  const auto task = nlohmann::json::parse(json.out);
  CHECK(task["task"]["problem_name"] == "swish");
  CHECK(task["trials"]["trials"].size() > 0);
  CHECK(task["credits"].size() > 0);
  Finished source = fleet.Warpsmith({"show", "swish", "--source"});
  CHECK_THAT(source.out, Contains("__global__"));

  Finished plans = fleet.Warpsmith({"show", "swish", "--source", "-o", "json"});
  REQUIRE(plans == 0);
  const auto plan = nlohmann::json::parse(plans.out);
  REQUIRE(plan.size() == 1);
  CHECK_THAT(std::string(plan[0]["source"]), Contains("__global__"));
  plans = fleet.Warpsmith({"show", "softmax_rows", "--source", "-o", "json"});
  CHECK(nlohmann::json::parse(plans.out).size() == 2);
  for (const char* command : {"workers", "runs", "board", "version", "watch"}) {
    Finished finished = fleet.Warpsmith({command, "-o", "json"});
    INFO(command << ": " << finished.err);
    CHECK(finished == 0);
    CHECK(nlohmann::json::accept(finished.out));
  }

  Finished board = fleet.Warpsmith({"board"});
  CHECK(board == 0);
  CHECK_THAT(board.out, Contains("| softmax_rows:wide |"));
  Finished path = fleet.Warpsmith({"board", "--path"});
  CHECK(path.out == fleet.dir() + "/board.md\n");
  CHECK(std::filesystem::exists(fleet.dir() + "/board.md"));

  const std::string out = fleet.dir() + "/export";
  Finished exported = fleet.Warpsmith({"export", "r1", "--out", out});
  CHECK(exported == 0);
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(out)) {
    files += file.path().extension() == ".cu" ? 1 : 0;
  }
  CHECK(files == 4);  // one a workload
  CHECK_THAT(exported.err, !Contains("not empty") && Contains("exported 3 of 3 problems"));
  // No PyTorch module to write a ModelNew for: left out, by name.
  Finished bench = fleet.Warpsmith({"export", "r1", "--format", "kernelbench", "--out", out});
  CHECK(bench == 5);
  CHECK_THAT(bench.err, Contains("swish is left out") && Contains("is not empty") &&
                            !Contains("without a binary"));

  // A second `up` on the same folder says what is the matter.
  Finished second = fleet.Warpsmith({"up", "--device", "host"});
  CHECK(second == 1);
  CHECK_THAT(second.err, Contains("already") && Contains("warpsmith down"));
  // What does not exist is named, with what does.
  Finished none = fleet.Warpsmith({"show", "no_such_task"});
  CHECK(none == 4);
  CHECK_THAT(none.err, Contains("no_such_task") && Contains("r1/swish@host"));
  for (const char* run : {"r77", "r01"}) {
    CHECK(fleet.Warpsmith({"watch", run}) == 4);
    CHECK(fleet.Warpsmith({"export", run}) == 4);
  }

  // SIGTERM ends everything in good order.
  const auto judges = Descendants(fleet.up().pid(), "warpsmith-judge");
  CHECK(Descendants(fleet.up().pid(), "warpsmith-planner").size() == 1);
  CHECK(fleet.Down() == 0);
  for (pid_t pid : judges) CHECK_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
  Finished after_down = fleet.Warpsmith({"workers"});
  CHECK(after_down == 3);
  CHECK_THAT(after_down.err, Contains("warpsmith up"));
  CHECK(fleet.Warpsmith({"health"}) == 3);

  // What was found is there again after a restart.
  REQUIRE(fleet.Warpsmith({"up", "--detach", "--workers", "0"}) == 0);
  auto after = fleet.List("r1");
  REQUIRE(after.ok());
  REQUIRE(after->tasks_size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(after->tasks(i).incumbent_blob() == list->tasks(i).incumbent_blob());
    CHECK(after->tasks(i).trials() == list->tasks(i).trials());
  }
  CHECK(fleet.Warpsmith({"down"}) == 0);
}

TEST_CASE("a problem's workloads are held, released and exported each for itself") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "2", "--arch", "host"}) == 0);
  for (const char* task : {"column_sum", "softmax_rows:narrow", "swish"}) {
    CHECK(fleet.Warpsmith({"hold", task}) == 0);
  }
  // Only now is there somebody to work on what is left.
  Process worker({kBin + "/warpsmith-worker", "--dir", fleet.dir(), "--device", "host"});
  REQUIRE(fleet.Warpsmith({"watch", "r1"}, absl::Minutes(2)) == 0);

  const std::string out = fleet.dir() + "/export";
  Finished exported = fleet.Warpsmith({"export", "r1", "--out", out});
  CHECK(exported == 5);
  CHECK(exported.out == out + "/softmax_rows_wide.cu\n");
  CHECK_THAT(exported.err, Contains("softmax_rows:narrow is left out: it has no accepted kernel") &&
                               Contains("exported 1 of 3 problems"));
  Finished source = fleet.Warpsmith({"show", "softmax_rows", "--source"});
  CHECK(source == 0);
  CHECK_THAT(source.out, Contains("// workload wide"));
  CHECK_THAT(source.err, Contains("softmax_rows:narrow@host has no accepted kernel"));

  // The problem's name releases what is held of it, and leaves what has ended.
  Finished released = fleet.Warpsmith({"release", "softmax_rows"});
  CHECK(released == 0);
  CHECK(released.err == "r1/softmax_rows:narrow@host is queued\n");
  CHECK(fleet.Warpsmith({"hold", "softmax_rows"}) == 0);
  Finished again = fleet.Warpsmith({"hold", "softmax_rows"});
  CHECK(again == 1);
  CHECK_THAT(again.err, Contains("narrow is held, softmax_rows:wide is converged"));
  worker.Signal(SIGTERM);
  CHECK(worker.Wait(absl::Seconds(30)) == 0);
}

TEST_CASE("what is cancelled stops, and what was found until then is kept") {
  Fleet fleet(kBin, 1);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "600"}) == 0);
  REQUIRE(Eventually(absl::Minutes(1), [&] {
    const auto list = fleet.List("r1");
    return list.ok() &&
           std::any_of(list->tasks().begin(), list->tasks().end(),
                       [](const auto& task) { return !task.incumbent_blob().empty(); });
  }));
  Finished one = fleet.Warpsmith({"cancel", "softmax_rows:narrow", "--reason", "not wanted"});
  CHECK(one == 0);
  CHECK(one.err == "r1/softmax_rows:narrow@host is cancelled\n");
  Finished run = fleet.Warpsmith({"cancel", "r1"});
  CHECK(run == 0);
  CHECK_THAT(run.err, Contains("run r1: ") && Contains("cancelled") && Contains("before"));
  // Its worker hears of it within seconds, and is free.
  CHECK(Eventually(absl::Seconds(10), [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == 1 && list->workers(0).task_id().empty();
  }));
  Finished watched = fleet.Warpsmith({"watch", "r1"});
  CHECK(watched == 5);
  CHECK_THAT(watched.out,
             Contains("cancelled: not wanted") && Contains("cancelled: cancelled by a person"));
  CHECK_THAT(fleet.Warpsmith({"export", "r1", "--out", fleet.dir() + "/export"}).out,
             Contains(".cu"));
  Finished again = fleet.Warpsmith({"cancel", "r1/softmax_rows"});
  CHECK(again == 1);
  CHECK_THAT(again.err, Contains("softmax_rows:narrow is cancelled"));
  // A run's priority is another from here on; a person's shell has no trouble with negative ones.
  Finished before = fleet.Warpsmith({"priority", "r1", "-5", "--reason", "no hurry"});
  CHECK(before == 0);
  CHECK(before.err == "run r1 has the priority -5\n");
  CHECK(before.out.empty());
  Finished json = fleet.Warpsmith({"priority", "r1", "7", "-o", "json"});
  CHECK(json == 0);
  CHECK(nlohmann::json::parse(json.out)["priority"] == 7);
  CHECK(fleet.List("r1")->runs(0).priority() == 7);
  CHECK(fleet.Warpsmith({"priority", "r1", "much"}) == 2);
  CHECK(fleet.Warpsmith({"priority", "r1"}) == 2);
  CHECK(fleet.Warpsmith({"priority", "r9", "1"}) == 4);
  Finished wrong_priority = fleet.Warpsmith({"priority", "r1", "1001"});
  CHECK(wrong_priority == 2);
  CHECK_THAT(wrong_priority.err, Contains("a priority of 1001: give -1000 to 1000"));
  Finished none = fleet.Warpsmith({"cancel", "r9"});
  CHECK(none == 4);
  CHECK_THAT(none.err, Contains("r9") && Contains("warpsmith runs"));
  // A worker that is held takes nothing, until it is released.
  const std::string worker = fleet.List()->workers(0).id();
  Finished held = fleet.Warpsmith({"hold", worker, "--reason", "a new fan"});
  CHECK(held == 0);
  CHECK(held.err == "worker " + worker + " is held\n");
  CHECK_THAT(fleet.Warpsmith({"workers"}).out, Contains("idle, held: a new fan"));
  CHECK_THAT(fleet.Warpsmith({"board"}).out, Contains("held: a new fan"));
  // So it is where that is written on the board, in an editor or into its file.
  const auto edit = [&](const std::string& editor) {
    return fleet.Warpsmith({"board", "edit", "--editor", editor});
  };
  Finished released = edit("sed -i 's/| up, held: a new fan |/| release |/'");
  CHECK(released == 0);
  CHECK_THAT(released.err, Contains(": release worker " + worker + ": done"));
  CHECK_FALSE(fleet.List()->workers(0).held());
  CHECK_THAT(edit("true").err, Contains("nothing was changed"));
  CHECK_THAT(edit("false").err, Contains("the editor `false` ended with 1"));
  Finished wrong = edit("sed -i 's/| up |/| gone |/'");
  CHECK(wrong == 1);
  CHECK_THAT(wrong.err, Contains("'gone' is neither a state nor a verb") &&
                            Contains("your page is kept in '"));
  const std::string board = fleet.dir() + "/board.md";
  // What was written and not read yet is in the file; while it is done the page lies beside it.
  const auto on_its_way = [&] {
    if (absl::StrContains(base::ReadFile(board).value_or(""), "hold: a new disk")) return true;
    const std::filesystem::directory_iterator files(fleet.dir());
    return std::any_of(begin(files), end(files), [&](const auto& file) {
      return absl::StartsWith(file.path().filename().string(), "board.") && file.path() != board;
    });
  };
  CHECK(Eventually(absl::Seconds(30), [&] {
    // It may have been written anew since it was read: an editor sees that, and does it again. But
    // one that was read is not written twice: it would be done after the release below.
    if (on_its_way()) return false;
    const auto list = fleet.List();
    if (!list.ok()) return false;
    if (list->workers(0).held_reason() == "a new disk") return true;
    const std::string page = base::ReadFile(board).value_or("");
    if (absl::StrContains(page, "| up |")) {
      CHECK(base::WriteFileAtomically(
                board, absl::StrReplaceAll(page, {{"| up |", "| hold: a new disk |"}}))
                .ok());
    }
    return false;
  }));
  CHECK(fleet.Warpsmith({"release", worker}) == 0);
  CHECK(fleet.Warpsmith({"release", worker}) == 1);
  // The next run is taken up.
  CHECK(fleet.Warpsmith({"submit", set, "--seconds", "2", "--wait"}, absl::Minutes(2)) == 0);
}

// A folder like a KernelBench checkout, with one problem.
std::string WriteBench(const std::string& folder) {
  std::filesystem::create_directories(folder + "/level1");
  std::ofstream(folder + "/level1/25_Swish.py") << R"py(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(32, 1000)]


def get_init_inputs():
    return []
)py";
  return folder;
}

TEST_CASE("a PyTorch module is imported, and judged against PyTorch") {
  const char* python = getenv("WARPSMITH_PYTHON");
  if (python == nullptr) {
    WARN("WARPSMITH_PYTHON is not set: no PyTorch to import with");
    return;
  }
  Fleet fleet(kBin, 1, {"--python", python});
  const std::string bench = WriteBench(fleet.dir() + "/bench");
  const std::string set = fleet.dir() + "/level1.json";
  Finished imported = fleet.Warpsmith({"import", "kernelbench", bench, "--level", "1", "--only",
                                       "25", "--python", python, "--out", set},
                                      absl::Minutes(2));
  INFO(imported.err);
  REQUIRE(imported == 0);
  Finished listed = fleet.Warpsmith({"problems", set});
  CHECK_THAT(listed.out, Contains("level1/25_Swish.py"));

  REQUIRE(fleet.Ready());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "4"}) == 0);
  Finished watched = fleet.Warpsmith({"watch"}, absl::Minutes(4));
  INFO(fleet.Logs());
  REQUIRE(watched == 0);
  auto list = fleet.List("r1");
  REQUIRE(list.ok());
  REQUIRE(list->tasks_size() == 1);
  CHECK_THAT(list->tasks(0).oracle(), Contains("torch"));
  CHECK_FALSE(list->tasks(0).incumbent_blob().empty());
}

TEST_CASE("while `up` is about to start a dead planner again, nobody is told to start one") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const auto planners = Descendants(fleet.up().pid(), "warpsmith-planner");
  REQUIRE(planners.size() == 1);
  fleet.up().Signal(SIGSTOP);
  kill(planners[0], SIGKILL);
  const Finished away = fleet.Warpsmith({"workers"});
  fleet.up().Signal(SIGCONT);
  CHECK(away == 3);
  CHECK_THAT(away.err, Contains("is starting it") && !Contains("start one"));
  CHECK(fleet.Ready());
  // Its end does not wait for a client that is connected and idle.
  const base::Instant before = base::Now();
  fleet.Down();
  CHECK(base::Now() - before < absl::Seconds(5));
  CHECK_THAT(fleet.Warpsmith({"workers"}).err, Contains("start one"));
}

TEST_CASE("up --detach comes back when it is up, and down ends it") {
  Folder folder;
  const std::vector<std::string> dir = {kBin + "/warpsmith", "--dir", folder.path()};
  auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), dir.begin(), dir.end());
    return RunToEnd(arguments, absl::Seconds(60));
  };
  // From a shell that holds a lock, which ends with the shell.
  const std::string lock = folder.path() + "/lock";
  Finished up = RunToEnd({"/bin/sh", "-c",
                          "exec 9>" + lock + "; flock -n 9 || exit 99; " + dir[0] + " --dir " +
                              dir[2] + " up --detach --device host --workers 1"},
                         absl::Seconds(60));
  REQUIRE(up == 0);
  CHECK_THAT(up.err, Contains("warpsmith down"));
  CHECK(RunToEnd({"/usr/bin/flock", "-n", lock, "true"}, absl::Seconds(10)) == 0);
  CHECK(with({"workers"}) == 0);
  CHECK(with({"down"}) == 0);
  CHECK(with({"workers"}) == 3);
  Finished again = with({"down"});
  CHECK(again == 4);
  CHECK_THAT(again.err, Contains("nothing is up"));
}

TEST_CASE("wrong command lines and files say what is wrong, where, and what to do") {
  Folder folder;
  auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
    return folder.path() + "/" + name;
  };
  const std::string dir = "--dir=" + folder.path();
  const std::string cyclic = write("bad_graph.json", R"({"name": "s", "problems": [{"name": "p",
      "graph": ["input x: f32[R] ~ normal", "y: f32[r: R] = x[r, r]", "output y"],
      "workloads": [{"name": "default", "dims": {"R": 4}}]}]})");
  struct {
    std::vector<std::string> arguments;
    int code;
    const char* says;
  } cases[] = {
      {{}, 2, "SUBCOMMAND"},
      {{"frobnicate"}, 2, "frobnicate"},
      {{"submit"}, 2, "FILE is required"},
      {{"submit", "--seconds", "-3", "x.json"}, 2, "--seconds"},
      {{"submit", "--seconds", "0", "x.json"}, 2, "give 2 to 604800 seconds"},
      {{"submit", "--policy", "magic", "x.json"}, 2, "magic"},
      {{"submit", "no_such_file.json"}, 4, "no_such_file.json"},
      {{"problems", write("empty.json", "")}, 2, "empty.json"},
      {{"problems", write("not.json", "{\"name\": ")}, 2, "not.json"},
      {{"problems", write("field.json", R"({"name": "s", "colour": "red"})")}, 2, "colour"},
      {{"problems", cyclic}, 2, "problem 'p'"},
      {{"problems", folder.path()}, -1, ""},
      {{"watch"}, 3, "warpsmith up"},
      {{"show", "x"}, 3, "warpsmith up"},
      {{"--planner", "127.0.0.1:1", "board"}, 3, "127.0.0.1:1"},
      {{"--planner", "127.0.0.1:1", "board"}, 3, "Without --planner"},
      {{"up", "--workers", "many"}, 2, "--workers"},
      {{"up", "--device", "tpu"}, 2, "--device 'tpu'"},
      {{"down"}, 4, "nothing is up"},
      {{"completion", "tcsh"}, 2, "tcsh"},
      {{"import", "kernelbench", "/nonexistent", "--level", "1", "--out", "x.json"},
       4,
       "/nonexistent"},
      {{"export", "--format", "tar"}, 2, "tar"},
      {{"board", "-o", "xml"}, 2, "xml"},
  };
  for (auto& c : cases) {
    c.arguments.insert(c.arguments.begin(), dir);
    Finished finished = Warpsmith(c.arguments);
    INFO(c.arguments.back() << ": " << finished.err);
    if (c.code >= 0) {
      CHECK(finished.code == c.code);
    } else {
      CHECK(finished.code != 0);
    }
    CHECK_THAT(finished.err, Contains(c.says));
    CHECK(finished.out.empty());
  }
}

Finished Shell(const std::string& command) {
  return RunToEnd({"/bin/bash", "-c", "PATH=" + kBin + ":$PATH; " + command});
}

TEST_CASE("output that does not arrive is an error, a reader that goes early is none") {
  Folder folder;
  const std::string set = WriteSmallSet(folder.path());
  Finished full = Shell("warpsmith problems " + set + " > /dev/full");
  CHECK(full == 1);
  CHECK_THAT(full.err, Contains("cannot write to standard output"));
  Finished early = Shell("warpsmith problems " + set + " -o json | head -c 1");
  CHECK(early == 0);
  CHECK(early.err.empty());
}

TEST_CASE("what needs no state needs no folder for it") {
  const std::string bare = "env -i " + kBin + "/warpsmith ";
  CHECK(Shell(bare + "version") == 0);
  CHECK(Shell(bare + "completion bash") == 0);
  for (const char* command : {"up", "down", "board"}) {
    Finished finished = Shell(bare + command);
    CHECK(finished == 2);
    CHECK_THAT(finished.err, Contains("--dir"));
  }
}

TEST_CASE("Python finds what PYTHONPATH says, and the Python part") {
  Folder folder;
  std::filesystem::create_directories(folder / "bench/level1");
  std::ofstream(folder / "bench/level1/1_x.py") << "\n";
  const std::string python = folder / "python";
  std::ofstream(python) << "#!/bin/sh\necho \"path $PYTHONPATH\" >&2\nexit 1\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  Finished finished = Shell("PYTHONPATH=/mine warpsmith import kernelbench " + (folder / "bench") +
                            " --level 1 --out x.json --python " + python);
  CHECK(finished == 1);
  CHECK_THAT(finished.err, Contains("/python:/mine"));
}

TEST_CASE("a planner that cannot start says why, and on a wrong command line ends up") {
  Folder folder;
  const std::vector<std::string> argv = {kBin + "/warpsmith", "--dir", folder.path(), "up"};
  auto up = [&](std::vector<std::string> more) {
    more.insert(more.begin(), argv.begin(), argv.end());
    return RunToEnd(more, absl::Seconds(10));
  };
  // A wrong command line is one with --detach as without it.
  CHECK(up({"--device", "cuda:0,cuda:0", "--workers", "1"}) == 2);
  CHECK(up({"--device", "tpu", "--workers", "1", "--detach"}) == 2);
  // A damaged state is waited for: somebody may bring it back.
  std::ofstream(folder.path() + "/warpsmith.db") << std::string(8192, 'x');
  Process other({argv[0], argv[1], argv[2], argv[3], "--workers", "0"});
  CHECK(Eventually(absl::Seconds(10), [&] {
    const std::string said = other.Errors();
    return said.find("/warpsmith.db: ") != said.npos && said.find("not a database") != said.npos;
  }));
  std::filesystem::remove(folder.path() + "/warpsmith.db");
  CHECK(Eventually(absl::Seconds(10), [&] {
    return IsUp(other) && RunToEnd({argv[0], argv[1], argv[2], "workers"}) == 0;
  }));
  other.Signal(SIGTERM);
  CHECK(other.Wait(absl::Seconds(10)) == 0);
}

TEST_CASE("a damaged store is checked, and gone on with") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--arch", "host"}) == 0);
  CHECK(fleet.Warpsmith({"store", "check"}) == 0);
  Finished running = fleet.Warpsmith({"store", "accept-loss", "--yes"});
  CHECK(running == 1);
  CHECK_THAT(running.err, Contains("warpsmith down"));
  const std::string copy = fleet.dir() + "/backup";
  CHECK(fleet.Warpsmith({"store", "backup", copy}) == 0);
  CHECK(fleet.Warpsmith({"store", "backup", copy}) == 1);
  CHECK(RunToEnd({kBin + "/warpsmith", "--dir", copy, "store", "check"}) == 0);
  CHECK(fleet.Down() == 0);

  // A bit of a problem turns over.
  const std::string database = fleet.dir() + "/warpsmith.db";
  std::string bytes = *base::ReadFile(database);
  const size_t at = bytes.find("x times its logistic function.");
  REQUIRE(at != bytes.npos);
  bytes[at] ^= 1;
  std::ofstream(database) << bytes;
  Finished check = fleet.Warpsmith({"store", "check"});
  CHECK(check == 1);
  CHECK_THAT(check.out, Contains("it is not what was written") && Contains("r1/swish@host") &&
                            Contains("its problem is lost"));
  CHECK_THAT(check.err, Contains("warpsmith store accept-loss"));
  Finished json = fleet.Warpsmith({"store", "check", "-o", "json"});
  CHECK(json == 1);
  const auto report = nlohmann::json::parse(json.out);
  CHECK(report["whole"] == false);
  CHECK(report["meaning"].size() == 1);
  Finished asked = fleet.Warpsmith({"store", "accept-loss"});
  CHECK(asked == 1);
  CHECK_THAT(asked.err, Contains("nothing was changed") && Contains("--yes"));
  CHECK(*base::ReadFile(database) == bytes);
  Finished accepted = fleet.Warpsmith({"store", "accept-loss", "--yes"});
  CHECK(accepted == 0);
  CHECK_THAT(accepted.err, Contains("warpsmith.db.generation-1"));
  CHECK(fleet.Warpsmith({"store", "check"}) == 0);

  // The rest is worked on.
  REQUIRE(fleet.Warpsmith({"up", "--detach", "--workers", "1", "--device", "host"}) == 0);
  const auto list = fleet.List("r1");
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    CHECK((task.state() == v1::FAILED) == (task.id() == "r1/swish@host"));
  }
  CHECK(fleet.Warpsmith({"cancel", "r1"}) == 0);
  CHECK(fleet.Warpsmith({"down"}) == 0);
  CHECK(RunToEnd({kBin + "/warpsmith", "--dir", copy, "store", "check"}) == 0);
  CHECK(RunToEnd({kBin + "/warpsmith", "--dir", fleet.dir() + "/none", "store", "check"}) == 4);
}

TEST_CASE("up has the planner serve its page, and says where") {
  const Folder folder;
  const auto warpsmith = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--dir", folder.path()});
    return Warpsmith(arguments);
  };
  const Finished up =
      warpsmith({"up", "--workers", "0", "--listen-page", "127.0.0.1:0", "--detach"});
  REQUIRE(up == 0);
  const auto page = base::ReadFile(folder / "planner.page");
  REQUIRE(page.ok());
  const std::string url =
      absl::StrCat("http://", std::string(absl::StripAsciiWhitespace(*page)), "/");
  CHECK_THAT(up.err, Contains("warpsmith: page " + url + "\n"));
  const Finished fetched = RunToEnd({"curl", "--silent", "--show-error", "--fail", url});
  CHECK(fetched == 0);
  CHECK_THAT(fetched.out, Contains("<title>Warpsmith"));
  CHECK(warpsmith({"down"}) == 0);
  CHECK_FALSE(base::ReadFile(folder / "planner.page").ok());

  // Not for others without certificates, which `up` has none of.
  const Finished open = warpsmith({"up", "--workers", "0", "--listen-page", "0.0.0.0:7490"});
  CHECK(open == 2);
  CHECK_THAT(open.err, Contains("the planner cannot run as it was started"));
}

TEST_CASE("the worker's flags are checked") {
  Folder folder;
  auto worker = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {kBin + "/warpsmith-worker", "--dir", folder.path()});
    return RunToEnd(arguments);
  };
  Finished device = worker({"--device", "abacus"});
  CHECK(device.code != 0);
  CHECK_THAT(device.err, Contains("abacus"));
  Finished python = worker({"--device", "host", "--python", "/no/such/python"});
  CHECK(python == 2);
  CHECK_THAT(python.err, Contains("/no/such/python"));
  Finished name = worker({"--device", "host", "--name", "a b"});
  CHECK(name == 2);
  CHECK_THAT(name.err, Contains("--name"));
  CHECK(worker({"--list-devices"}) == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
