#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_join.h"
#include "planner/core/simulation_fleet.h"

namespace warpsmith::planner::simulation {

// WARPSMITH_SEED=N planner_simulation_test runs that seed alone and tells what happens.
TEST_CASE("the planner keeps its promises under crashes, pauses and a bad network") {
  constexpr uint64_t kSeeds = 400;
  const char* only = std::getenv("WARPSMITH_SEED");
  const uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const uint64_t last = only == nullptr ? kSeeds : first;
  int64_t crashes = 0, deaths = 0, refusals = 0, accepted = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Simulation simulation(seed);
    simulation.set_trace(only != nullptr);
    const std::vector<std::string> violations = simulation.Run();
    if (!violations.empty()) {
      FAIL("seed " << seed << " at " << simulation.now_ms()
                   << " ms: " << absl::StrJoin(violations, "; ")
                   << "\nreproduce: WARPSMITH_SEED=" << seed << " planner_simulation_test");
    }
    crashes += simulation.crashes();
    deaths += simulation.deaths();
    refusals += simulation.refusals();
    accepted += simulation.checker().accepted();
  }
  std::printf(
      "%llu seeds: %lld planner crashes, %lld worker deaths, %lld leases refused, "
      "%lld incumbents accepted\n",
      static_cast<unsigned long long>(last - first + 1), static_cast<long long>(crashes),
      static_cast<long long>(deaths), static_cast<long long>(refusals),
      static_cast<long long>(accepted));
  if (only == nullptr) {
    // The faults do happen: a simulation of a quiet world would prove nothing.
    CHECK(crashes > 1000);
    CHECK(deaths > 1000);
    CHECK(refusals > 100);
    CHECK(accepted > 5000);
  }
}

}  // namespace warpsmith::planner::simulation
