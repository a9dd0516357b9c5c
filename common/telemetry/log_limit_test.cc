#include "common/telemetry/log_limit.h"

#include <catch2/catch.hpp>

namespace warpsmith::telemetry {
namespace {

constexpr LogEvent kLeases = {"leases", spdlog::level::info, "a lease"};
constexpr LogEvent kWorkers = {"workers", spdlog::level::warn, "a worker"};
constexpr LogEvent kEnd = {"end", spdlog::level::critical, "the end"};

base::Instant At(double seconds) { return base::Instant(absl::Seconds(seconds)); }

int Taken(LogLimit& limit, const LogEvent& event, int lines, base::Instant at) {
  int taken = 0;
  for (int i = 0; i < lines; ++i) taken += limit.Takes(event, at);
  return taken;
}

}  // namespace

TEST_CASE("of each kind there are some lines at once, and then so many a second") {
  LogLimit limit({.lines_per_second = 2, .lines_at_once = 5});
  CHECK(Taken(limit, kLeases, 100, At(1)) == 5);
  CHECK(Taken(limit, kWorkers, 100, At(1)) == 5);
  CHECK(Taken(limit, kLeases, 100, At(1.4)) == 0);
  CHECK(Taken(limit, kLeases, 100, At(1.5)) == 1);
  CHECK(Taken(limit, kLeases, 100, At(3.5)) == 4);
  // What was saved up is bounded, and a clock that stands back gives nothing.
  CHECK(Taken(limit, kLeases, 100, At(1000)) == 5);
  CHECK(Taken(limit, kLeases, 100, At(990)) == 0);
}

TEST_CASE("how many were left out is told from time to time") {
  LogLimit limit({.lines_per_second = 1, .lines_at_once = 1, .between_told = absl::Seconds(10)});
  CHECK(limit.TakeLeftOut(At(0)).empty());
  CHECK(Taken(limit, kLeases, 8, At(0)) == 1);
  auto out = limit.TakeLeftOut(At(0));
  REQUIRE(out.size() == 1);
  CHECK(out[0].event == &kLeases);
  CHECK(out[0].lines == 7);
  CHECK(limit.TakeLeftOut(At(100)).empty());
  CHECK(Taken(limit, kLeases, 4, At(0)) == 0);
  CHECK(limit.TakeLeftOut(At(9)).empty());
  out = limit.TakeLeftOut(At(10));
  REQUIRE(out.size() == 1);
  CHECK(out[0].lines == 4);
  CHECK(limit.left_out() == 11);
}

TEST_CASE("what is critical is told each time, and without a limit all is") {
  LogLimit limit({.lines_per_second = 1, .lines_at_once = 1});
  CHECK(Taken(limit, kEnd, 1000, At(0)) == 1000);
  LogLimit none({.lines_per_second = 0});
  CHECK(Taken(none, kLeases, 1000, At(0)) == 1000);
}

}  // namespace warpsmith::telemetry
