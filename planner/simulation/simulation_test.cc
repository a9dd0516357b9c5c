// WARPSMITH_SEED=N planner_simulation_test runs that seed alone and tells what happens;
// WARPSMITH_SEEDS=N-M runs those, some 80 worker-hours a second on a core.
// WARPSMITH_FLEET=10000x100000 runs them with that many workers and tasks in place of a few.
#include "planner/simulation/simulation.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::planner::simulation {
namespace {

constexpr int64_t kFleetsFaultyMs = 1'800'000;
// Set for a process that only tells the digest of WARPSMITH_SEED's history.
constexpr char kDigestVariable[] = "WARPSMITH_SIMULATION_DIGEST";

std::string DigestOf(uint64_t seed) {
  Simulation simulation(seed);
  const std::vector<std::string> violations = simulation.Run();
  CHECK(absl::StrJoin(violations, "; ") == "");
  return absl::StrCat(absl::Hex(simulation.Digest(), absl::kZeroPad16));
}

std::string Output(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char line[1000];
  while (std::fgets(line, sizeof line, pipe) != nullptr) output += line;
  CHECK(pclose(pipe) == 0);
  return output;
}

}  // namespace

TEST_CASE("the planner keeps its promises under crashes, pauses and a bad network") {
  if (std::getenv(kDigestVariable) != nullptr) return;
  spdlog::set_level(spdlog::level::off);
  const char* only = std::getenv("WARPSMITH_SEED");
  const char* range = std::getenv("WARPSMITH_SEEDS");
  const char* fleet = std::getenv("WARPSMITH_FLEET");
  Scale scale;
  if (fleet != nullptr) {
    INFO("WARPSMITH_FLEET is '" << fleet << "'; workers x tasks are wanted, as 10000x100000");
    REQUIRE(std::sscanf(fleet, "%dx%d", &scale.workers, &scale.tasks) == 2);
    REQUIRE((scale.workers > 0 && scale.tasks > 0));
    scale.faulty_ms = kFleetsFaultyMs;
  }
  uint64_t first = 1, last = std::getenv("WARPSMITH_TEST_THOROUGH") == nullptr ? 500 : 5000;
  if (only != nullptr) first = last = std::strtoull(only, nullptr, 10);
  if (range != nullptr) {
    REQUIRE(std::sscanf(range, "%" SCNu64 "-%" SCNu64, &first, &last) == 2);
    only = range;
  }
  int64_t deaths = 0, refusals = 0, accepted = 0, worker_ms = 0;
  int64_t quarantines = 0, faults = 0, lifted = 0, archived = 0, prioritized = 0;
  PlannerHost::Counts alone, sharing;
  int64_t shared = 0, shared_ms = 0, lost_histories = 0, longest_without_ms = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Simulation simulation(seed, scale, /*trace=*/only != nullptr && range == nullptr);
    const std::vector<std::string> violations = simulation.Run();
    if (!violations.empty()) {
      FAIL("seed " << seed << " at " << simulation.now_ms()
                   << " ms: " << absl::StrJoin(violations, "; ")
                   << "\nreproduce: " << (fleet == nullptr ? "" : "WARPSMITH_FLEET=")
                   << (fleet == nullptr ? "" : fleet) << " WARPSMITH_SEED=" << seed
                   << " planner_simulation_test");
    }
    (simulation.sharing() > 0 ? sharing : alone).Add(simulation.planners());
    shared += simulation.sharing() > 0;
    shared_ms += simulation.sharing() > 0 ? simulation.worker_ms() : 0;
    lost_histories += simulation.lost_history();
    longest_without_ms = std::max(longest_without_ms, simulation.longest_without_ms());
    deaths += simulation.deaths();
    refusals += simulation.refusals();
    accepted += simulation.checker().accepted();
    quarantines += simulation.checker().quarantines();
    faults += simulation.checker().faults();
    lifted += simulation.checker().lifted();
    archived += simulation.checker().archived();
    prioritized += simulation.checker().prioritized();
    worker_ms += simulation.worker_ms();
  }
  std::printf(
      "%s\n",
      absl::StrCat(last - first + 1, " seeds, ", worker_ms / 3'600'000,
                   " worker-hours: ", alone.crashes + sharing.crashes, " planner crashes, ",
                   alone.pauses + sharing.pauses, " pauses, ", deaths, " worker deaths, ", refusals,
                   " leases refused, ", accepted, " incumbents accepted, ", quarantines,
                   " quarantines, ", faults, " of them for a card, ", lifted, " of them lifted, ",
                   archived, " runs archived, ", prioritized, " priorities changed")
          .c_str());
  std::printf(
      "%s\n",
      absl::StrCat(shared, " seeds, ", shared_ms / 3'600'000,
                   " worker-hours of these with planners that share a store: ", sharing.crashes,
                   " crashes, ", sharing.pauses, " pauses, ", sharing.stuck, " strands stuck, ",
                   sharing.away, " times a store away, ", sharing.slow, " times slow, ",
                   sharing.left, " times told to end, ", sharing.takeovers, " takeovers, ",
                   sharing.rivals, " of them from a living one, ", sharing.deposed, " begun anew, ",
                   sharing.refused, " commits refused, ", sharing.untold, " answers not given, ",
                   lost_histories, " stale copies brought back, ", sharing.gave_up,
                   " planners gave up; longest ", longest_without_ms, " ms without a leader")
          .c_str());
  if (only == nullptr) {
    // The faults do happen: a simulation of a quiet world would prove nothing.
    CHECK(alone.crashes > 700);
    CHECK(alone.pauses > 200);
    CHECK(sharing.crashes > 500);
    CHECK(sharing.pauses > 150);
    CHECK(sharing.takeovers > 500);
    CHECK(sharing.rivals > 50);
    CHECK(sharing.refused > 10);
    CHECK(lost_histories > 5);
    CHECK(deaths > 1000);
    CHECK(refusals > 100);
    CHECK(accepted > 5000);
    CHECK(quarantines > 100);
    CHECK(faults > 50);
    CHECK(lifted > 0);
    CHECK(archived > 100);
    CHECK(prioritized > 1000);
  }
}

// Where calls are stretched, and with so many leases that each look at all would be seen.
TEST_CASE("a fleet's planner keeps its promises, too") {
  if (std::getenv(kDigestVariable) != nullptr) return;
  spdlog::set_level(spdlog::level::off);
  Simulation simulation(24, {.workers = 1'200, .tasks = 1'500, .faulty_ms = 300'000});
  const std::vector<std::string> violations = simulation.Run();
  CHECK(absl::StrJoin(violations, "; ") == "");
  CHECK(simulation.planners().crashes > 0);
  CHECK(simulation.deaths() > 100);
  CHECK(simulation.checker().accepted() > 1'000);
}

TEST_CASE("the same seed gives the same log and the same answers, in another process too") {
  spdlog::set_level(spdlog::level::off);
  if (std::getenv(kDigestVariable) != nullptr) {
    std::printf("%s\n",
                DigestOf(std::strtoull(std::getenv("WARPSMITH_SEED"), nullptr, 10)).c_str());
    std::fflush(stdout);
    return;
  }
  for (const uint64_t seed : {3, 5, 8}) {
    const std::string digest = DigestOf(seed);
    CHECK(DigestOf(seed) == digest);
    CHECK_THAT(Output(absl::StrCat(kDigestVariable, "=1 WARPSMITH_SEED=", seed, " /proc/", getpid(),
                                   "/exe 'the same seed*' 2>&1")),
               Catch::Contains(digest));
  }
  CHECK(DigestOf(3) != DigestOf(5));
}

}  // namespace warpsmith::planner::simulation
