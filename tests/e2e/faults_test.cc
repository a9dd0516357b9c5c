// SIGKILL at random moments: nothing that was accepted is lost, work goes on and ends.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/address.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/witness.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;

constexpr const char* kVictims[] = {"warpsmith-planner", "warpsmith-worker", "warpsmith-judge"};

struct Fault {
  std::string victim;
  bool stops;  // for a while; else it is killed
};

// Of a run of four tasks: each victim is killed once and stopped once. More would park tasks, as
// they are that three workers were lost with, whoever killed those.
std::vector<Fault> FaultsOfARun(std::mt19937_64& random) {
  std::vector<Fault> faults;
  for (const char* victim : kVictims) {
    for (bool stops : {false, true}) faults.push_back({victim, stops});
  }
  std::shuffle(faults.begin(), faults.end(), random);
  return faults;
}

constexpr int kFaults = 12;  // two runs', if nobody says how many

int FaultsWanted() {
  const char* text = std::getenv("WARPSMITH_FAULTS");
  int wanted = kFaults;
  INFO("WARPSMITH_FAULTS is '" << (text == nullptr ? "" : text)
                               << "'; a number from 1 on is wanted");
  REQUIRE((text == nullptr || (absl::SimpleAtoi(text, &wanted) && wanted > 0)));
  return wanted;
}

// A stop is mostly for less than anybody would notice, at times for longer than a lease lasts.
void Hit(pid_t pid, bool stops, std::mt19937_64& random) {
  if (!stops) {
    kill(pid, SIGKILL);
    return;
  }
  const int longest = random() % 8 == 0 ? 25'000 : 3'000;
  const auto pause = absl::Milliseconds(std::uniform_int_distribution<>(50, longest)(random));
  kill(pid, SIGSTOP);
  absl::SleepFor(pause);
  kill(pid, SIGCONT);
}

// One run, and faults at random moments of it; how many.
int Torment(Fleet& fleet, const std::string& set, const std::string& run_id,
            std::mt19937_64& random) {
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    return fleet.Warpsmith({"submit", set, "--seconds", "8", "--request-id", run_id}) == 0;
  }));
  Witness witness(fleet, run_id);
  int faults = 0;
  for (const Fault& fault : FaultsOfARun(random)) {
    // A moment within a second or so of work, with eyes open.
    const absl::Duration moment =
        absl::Milliseconds(std::uniform_int_distribution<>(100, 1500)(random));
    const base::Instant until = base::Now() + moment;
    while (base::Now() < until) witness.LookClosely();
    std::vector<pid_t> pids;
    REQUIRE(Eventually(absl::Seconds(30), [&] {
      pids = Descendants(fleet.up().pid(), fault.victim);
      return !pids.empty() || witness.done();
    }));
    if (pids.empty()) break;
    // One that is hit each time looks sick, and is released by who knows better.
    const auto list = fleet.List();
    for (int w = 0; list.ok() && w < list->workers_size(); ++w) {
      if (list->workers(w).quarantined()) fleet.Warpsmith({"release", list->workers(w).id()});
    }
    Hit(pids[random() % pids.size()], fault.stops, random);
    ++faults;
    REQUIRE(Eventually(absl::Seconds(60), [&] { return witness.Look(); }));
  }
  const bool ended = Eventually(absl::Minutes(3), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(fleet.Logs());
  REQUIRE(ended);
  witness.LookClosely();
  CHECK(witness.tasks() == 4);

  auto tasks = fleet.List(run_id);
  REQUIRE(tasks.ok());
  for (const v1::Task& task : tasks->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    auto whole = fleet.GetTask(task.id());
    REQUIRE(whole.ok());
    CHECK(whole->incumbent().solution().plans_size() > 0);
  }
  return faults;
}

// WARPSMITH_FAULTS=N: at least so many, run after run; some seventeen a minute.
TEST_CASE("planner, worker and judge may be killed or stopped at any moment") {
  const uint64_t seed = Catch::rngSeed() != 0 ? Catch::rngSeed() : 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Fleet fleet(kBin, 2);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  const int wanted = FaultsWanted();
  int faults = 0;
  for (int run = 1; faults < wanted; ++run) {
    INFO("run " << run << ", after " << faults << " faults");
    const int more = Torment(fleet, set, absl::StrCat("r", run), random);
    CHECK(more >= 3);  // the run doesn't end before
    faults += more;
    if (wanted > kFaults) std::cerr << faults << " faults in " << run << " runs" << std::endl;
  }
  CHECK(fleet.Down() == 0);
}

TEST_CASE("a worker whose judge does not start is quarantined, and works when it is mended") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  // A worker with a judge of its own beside it.
  const support::TemporaryFolder bin;
  for (const auto& file : std::filesystem::directory_iterator(kBin)) {
    const std::string name = file.path().filename();
    if (name == "warpsmith-worker") std::filesystem::copy_file(file, bin / name);
    if (name != "warpsmith-worker") std::filesystem::create_symlink(file, bin / name);
  }
  const std::string judge = bin / "warpsmith-judge";
  std::filesystem::remove(judge);
  std::ofstream(judge) << "#!/bin/sh\nexit 1\n";
  std::filesystem::permissions(judge, std::filesystem::perms::owner_all);
  const std::vector<std::string> command = {
      bin / "warpsmith-worker", "--dir", fleet.dir(), "--device", "host", "--name", "sick"};
  auto worker = std::make_unique<Process>(command);
  const auto said = [&](const std::string& text) {
    return worker->Errors().find(text) != std::string::npos;
  };
  const auto quarantined = [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == 1 && list->workers(0).quarantined();
  };
  REQUIRE(fleet.Warpsmith(
              {"submit", WriteSmallSet(fleet.dir()), "--seconds", "8", "--arch", "host"}) == 0);
  REQUIRE(Eventually(absl::Seconds(60), quarantined));
  // What it gave up is not of the tasks' budgets.
  const auto tasks = fleet.List();
  REQUIRE(tasks.ok());
  for (const auto& task : tasks->tasks()) CHECK(task.seconds_spent() == 0);
  CHECK(Eventually(absl::Seconds(10), [&] { return said("gives this worker nothing: 3 diff"); }));

  const Finished workers = fleet.Warpsmith({"workers"});
  CHECK(workers == 0);
  CHECK_THAT(workers.out, Catch::Contains("quarantined: r1/") && Catch::Contains("(gave it up), "));
  CHECK_THAT(workers.err, Catch::Contains("`warpsmith release sick`"));
  const auto json = nlohmann::json::parse(fleet.Warpsmith({"workers", "-o", "json"}).out);
  CHECK(json["workers"][0]["quarantined"] == true);
  CHECK(json["workers"][0]["ledger"].size() == 3);
  CHECK(json["workers"][0]["ledger"][0]["cause"] == "GIVEN_UP");
  CHECK_THAT(fleet.Warpsmith({"board"}).out, Catch::Contains("**1 quarantined**"));
  CHECK_THAT(fleet.Warpsmith({"runs", "r1"}).err, Catch::Contains("warpsmith release sick"));
  const Finished nobody = fleet.Warpsmith({"release", "nobody"});
  CHECK(nobody == 4);
  CHECK_THAT(nobody.err, Catch::Contains("no task 'nobody'") && Catch::Contains("nor is there"));

  // It goes by the worker's name, and by what is on the disk.
  kill(Descendants(fleet.up().pid(), "warpsmith-planner").at(0), SIGKILL);
  worker->Signal(SIGKILL);
  worker->Wait(absl::Seconds(10));
  worker = std::make_unique<Process>(command);
  REQUIRE(Eventually(absl::Seconds(60), [&] { return said("gives this worker nothing: 3 diff"); }));
  REQUIRE(Eventually(absl::Seconds(60), quarantined));

  Process watch({kBin + "/warpsmith", "--dir", fleet.dir(), "watch", "r1"});
  CHECK(Eventually(absl::Seconds(30), [&] {
    return watch.Errors().find("every worker for 'host' is quarantined") != std::string::npos;
  }));
  std::filesystem::rename(bin / "warpsmith-judge", bin / "broken");
  std::filesystem::create_symlink(kBin + "/warpsmith-judge", judge);
  const Finished released = fleet.Warpsmith({"release", "sick", "--reason", "a new judge"});
  CHECK(released == 0);
  CHECK(released.err == "worker sick is released\n");
  CHECK(fleet.Warpsmith({"release", "sick"}) == 1);
  INFO(worker->Errors());
  CHECK(watch.Wait(absl::Minutes(5)) == 0);
  CHECK(said("gives this worker work again"));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait(absl::Seconds(30)) == 0);
}

TEST_CASE("two workers of one name: one works, the other waits for the name and then takes it") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const auto address = rpc::ReadAddress(fleet.dir());
  REQUIRE(address.ok());
  const support::TemporaryFolder folders[2];
  const auto worker = [&](const support::TemporaryFolder& folder) {
    return std::vector<std::string>{kBin + "/warpsmith-worker",
                                    "--dir",
                                    folder.path(),
                                    "--planner",
                                    *address,
                                    "--device",
                                    "host",
                                    "--name",
                                    "w"};
  };
  const auto live = [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == 1 && list->workers(0).healthy();
  };
  Process first(worker(folders[0]));
  REQUIRE(Eventually(absl::Seconds(60), live));
  Process second(worker(folders[1]));
  const auto refused = [](const Process& process) {
    return process.Errors().find("another process is at work under the name 'w'") !=
           std::string::npos;
  };
  REQUIRE(Eventually(absl::Seconds(60), [&] { return refused(second); }));

  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "4"}) == 0);
  Witness witness(fleet);
  // One that is killed and started again has its name at once.
  REQUIRE(Eventually(absl::Seconds(60), [&] { return witness.Look() && witness.trials() > 0; }));
  first.Signal(SIGKILL);
  first.Wait(absl::Seconds(10));
  Process again(worker(folders[0]));
  const bool ended = Eventually(absl::Minutes(3), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(fleet.Logs());
  INFO(again.Errors() << second.Errors());
  REQUIRE(ended);
  CHECK_FALSE(refused(again));
  const auto list = fleet.List("r1");
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
  }
  // Who leaves in good order leaves the name to whoever waits for it.
  again.Signal(SIGTERM);
  CHECK(again.Wait(absl::Seconds(30)) == 0);
  CHECK(Eventually(absl::Seconds(60), live));
  second.Signal(SIGTERM);
  CHECK(second.Wait(absl::Seconds(30)) == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
