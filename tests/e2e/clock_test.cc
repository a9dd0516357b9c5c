// Somebody sets the clock of the machine while all are at work: nothing waits longer for it, and no
// lease is lost. The real programs run under libfaketime, which moves the time of day alone.
#include "absl/time/clock.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/moved_date.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;
// Nothing is quiet for as long where nothing happens to the clock: a lease would be lost by then.
constexpr absl::Duration kQuiet = absl::Seconds(25);

// WARPSMITH_CLOCK_ROUNDS: how often the planner ends while the clock goes back; 1 if it is not set.
int Rounds() {
  const char* rounds = getenv("WARPSMITH_CLOCK_ROUNDS");
  return rounds == nullptr ? 1 : std::max(1, std::atoi(rounds));
}

// Of all tasks of a run.
int64_t Trials(const Fleet& fleet, const std::string& run) {
  auto list = fleet.List(run);
  if (!list.ok()) return -1;
  int64_t trials = 0;
  for (const v1::Task& task : list->tasks()) trials += task.trials();
  return trials;
}

bool Done(const Fleet& fleet, const std::string& run) {
  auto list = fleet.List(run);
  return list.ok() && list->runs_size() == 1 && list->runs(0).done();
}

// As Eventually; tells what the programs logged if not.
template <class Condition>
bool Within(absl::Duration limit, const Fleet& fleet, Condition condition) {
  if (Eventually(limit, condition)) return true;
  UNSCOPED_INFO(fleet.Logs());
  return false;
}

void CheckWhole(const Fleet& fleet, const std::string& run) {
  auto list = fleet.List(run);
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    CHECK(task.losses() == 0);
  }
}

TEST_CASE("setting the machine's clock holds nothing up and loses no lease") {
  if (!MovedDate::Works()) {
    WARN("no libfaketime here: scripts/install-deps.sh --tests brings it");
    return;
  }
  MovedDate date;
  Fleet fleet(kBin, 2);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "8"}) == 0);
  REQUIRE(Within(kQuiet, fleet, [&] { return Trials(fleet, "r1") > 0; }));

  for (const int hours : {1, 0, -1, 0, 1, -1}) {
    INFO("set to " << hours << " hours ahead");
    date.Set(absl::Hours(hours));
    // Two reports, since the first may have been on its way.
    for (int report = 0; report < 2; ++report) {
      const int64_t before = Trials(fleet, "r1");
      REQUIRE(
          Within(kQuiet, fleet, [&] { return Trials(fleet, "r1") > before || Done(fleet, "r1"); }));
    }
  }
  REQUIRE(Within(absl::Minutes(2), fleet, [&] { return Done(fleet, "r1"); }));
  CheckWhole(fleet, "r1");

  // The programs did see it: their trials are dated by it.
  auto list = fleet.List("r1");
  REQUIRE(list.ok());
  absl::Time earliest = absl::InfiniteFuture(), latest = absl::InfinitePast();
  for (const v1::Task& task : list->tasks()) {
    auto whole = fleet.GetTask(task.id());
    REQUIRE(whole.ok());
    for (const v1::Trial& trial : whole->trials().trials()) {
      earliest = std::min(earliest, absl::FromUnixMillis(trial.at_unix_ms()));
      latest = std::max(latest, absl::FromUnixMillis(trial.at_unix_ms()));
    }
  }
  CHECK(earliest < absl::Now() - absl::Minutes(50));
  CHECK(latest > absl::Now() + absl::Minutes(50));

  // The planner's end and return, and parked calls, while the clock goes back.
  for (int round = 0; round < Rounds(); ++round) {
    INFO("round " << round);
    date.Set(absl::Hours(1));
    const std::vector<pid_t> planner = Descendants(fleet.up().pid(), "warpsmith-planner");
    REQUIRE(planner.size() == 1);
    kill(planner[0], SIGKILL);
    date.Set(absl::ZeroDuration());
    REQUIRE(Within(kQuiet, fleet, [&] { return fleet.List("r1").ok(); }));
    date.Set(absl::Hours(-1));
    const std::string run = absl::StrCat("r", 2 + round);
    REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "4"}) == 0);
    const bool trials = Within(kQuiet, fleet, [&] { return Trials(fleet, run) > 0; });
    if (!trials && getenv("CLOCK_DEBUG"))
      std::system(
          "for p in $(pgrep warpsmith); do echo == $p $(cat /proc/$p/comm); gdb -p $p -batch -ex "
          "'thread apply all bt 14'; done > /tmp/clock_bt.txt 2>&1");
    REQUIRE(trials);
    REQUIRE(Within(absl::Minutes(2), fleet, [&] { return Done(fleet, run); }));
    CheckWhole(fleet, run);
  }

  int logs = 0;
  for (const auto& log : std::filesystem::directory_iterator(fleet.dir() + "/logs")) {
    const auto text = base::ReadFile(log.path());
    REQUIRE(text.ok());
    CHECK_THAT(*text, !Catch::Contains(" is lost"));                   // a worker, to the planner
    CHECK_THAT(*text, !Catch::Contains("for the time of the lease"));  // a planner, to a worker
    ++logs;
  }
  CHECK(logs >= 3);
  CHECK(fleet.Down() == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
