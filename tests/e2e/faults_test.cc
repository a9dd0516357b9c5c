// SIGKILL at random moments: nothing that was accepted is lost, work goes on and ends.
#include <signal.h>

#include <catch2/catch.hpp>
#include <random>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/address.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/witness.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;

TEST_CASE("planner, worker and judge may be killed at any moment") {
  constexpr const char* kVictims[] = {"warpsmith-planner", "warpsmith-worker", "warpsmith-judge"};
  constexpr int kRounds = 2;  // each victim that often
  const uint64_t seed = Catch::rngSeed() != 0 ? Catch::rngSeed() : 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);

  Fleet fleet(kBin, 2);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "8"}) == 0);
  Witness witness(fleet);

  std::vector<std::string> order;
  for (int i = 0; i < kRounds; ++i)
    order.insert(order.end(), std::begin(kVictims), std::end(kVictims));
  std::shuffle(order.begin(), order.end(), random);
  int killed = 0;
  for (const std::string& victim : order) {
    // A moment within a second or so of work, with eyes open.
    const absl::Duration moment =
        absl::Milliseconds(std::uniform_int_distribution<>(100, 1500)(random));
    const base::Instant until = base::Now() + moment;
    while (base::Now() < until) witness.LookClosely();
    std::vector<pid_t> pids;
    REQUIRE(Eventually(absl::Seconds(30), [&] {
      pids = Descendants(fleet.up().pid(), victim);
      return !pids.empty() || witness.done();
    }));
    if (pids.empty()) break;
    kill(pids[random() % pids.size()], SIGKILL);
    ++killed;
    REQUIRE(Eventually(absl::Seconds(60), [&] { return witness.Look(); }));
  }
  CHECK(killed >= 3);
  const bool ended = Eventually(absl::Minutes(3), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(fleet.Logs());
  REQUIRE(ended);
  witness.LookClosely();
  CHECK(witness.tasks() == 4);

  auto list = fleet.List("r1");
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    auto whole = fleet.GetTask(task.id());
    REQUIRE(whole.ok());
    CHECK(whole->incumbent().solution().plans_size() > 0);
  }
  CHECK(fleet.Down() == 0);
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
