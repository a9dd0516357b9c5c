// SIGKILL at random moments: nothing that was accepted is lost, work goes on and ends.
#include <signal.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/e2e/fleet.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;

// What the planner was seen to hold. Each later look must hold at least that.
class Witness {
 public:
  explicit Witness(const Fleet& fleet) : fleet_(fleet) {}

  // False: the planner is away.
  bool Look() {
    auto list = fleet_.List("r1");
    if (!list.ok()) return false;
    done_ = list->runs_size() == 1 && list->runs(0).done();
    for (const v1::Task& task : list->tasks()) {
      Seen& seen = seen_[task.id()];
      INFO("task " << task.id());
      CHECK(task.fence() >= seen.fence);
      CHECK(task.trials() >= seen.trials);
      CHECK((task.incumbent_blob().empty() ? 0 : 1) >= (seen.incumbent ? 1 : 0));
      seen.fence = task.fence();
      seen.trials = task.trials();
      seen.incumbent = seen.incumbent || !task.incumbent_blob().empty();
    }
    return true;
  }
  // As Look, with every trial by its id.
  void LookClosely() {
    if (!Look()) return;
    for (auto& [id, seen] : seen_) {
      auto task = fleet_.GetTask(id);
      if (!task.ok()) return;
      std::set<std::string> ids;
      for (const v1::Trial& trial : task->trials().trials()) {
        INFO("trial " << trial.id() << " of " << id << " was recorded twice");
        CHECK(ids.insert(trial.id()).second);
      }
      for (const std::string& trial : seen.trial_ids) {
        INFO("trial " << trial << " of " << id << " was lost");
        CHECK(ids.count(trial) == 1);
      }
      seen.trial_ids = std::move(ids);
    }
  }
  bool done() const { return done_; }
  int tasks() const { return static_cast<int>(seen_.size()); }

 private:
  struct Seen {
    int64_t fence = 0, trials = 0;
    bool incumbent = false;
    std::set<std::string> trial_ids;
  };
  const Fleet& fleet_;
  std::map<std::string, Seen> seen_;
  bool done_ = false;
};

TEST_CASE("planner, worker and judge may be killed at any moment") {
  constexpr const char* kVictims[] = {"warpsmith-planner", "warpsmith-worker", "warpsmith-judge"};
  constexpr int kRounds = 2;  // each victim that often
  const uint64_t seed = Catch::rngSeed() != 0 ? Catch::rngSeed() : 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);

  Fleet fleet(kBin, 2);
  REQUIRE(fleet.Ready());
  const std::string set = WriteSmallSet(fleet.dir());
  REQUIRE(fleet.Warpsmith({"submit", set, "--seconds", "8"}).code == 0);
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
    const absl::Time until = absl::Now() + moment;
    while (absl::Now() < until) witness.LookClosely();
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

}  // namespace
}  // namespace warpsmith::e2e
