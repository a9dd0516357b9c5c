#include "common/problem/lanes.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace warpsmith::problem {
namespace {

struct Laid {
  bool launch;
  uint32_t lane;
  std::vector<uint32_t> after;
};

v1::Plan PlanOf(const std::vector<Laid>& steps) {
  v1::Plan plan;
  for (const Laid& laid : steps) {
    v1::Step& step = *plan.add_steps();
    if (laid.launch) step.mutable_launch();
    if (!laid.launch) step.mutable_fill();
    step.set_lane(laid.lane);
    for (const uint32_t before : laid.after) step.add_after(before);
  }
  return plan;
}

TEST_CASE("a plan of one lane needs no events", "[lanes]") {
  const auto lanes = LanesOf(PlanOf({{false, 0, {}}, {true, 0, {}}, {true, 0, {}}}));
  REQUIRE(lanes.ok());
  CHECK(lanes->count == 1);
  for (const Turn& turn : lanes->turns) CHECK_FALSE(turn.awaited);
  CHECK_FALSE(lanes->turns[1].may_overlap);  // behind a fill
  CHECK(lanes->turns[2].may_overlap);
}

TEST_CASE("kernels overlap where nothing meets between them", "[lanes]") {
  const auto lanes = LanesOf(PlanOf({{true, 0, {}},     // 0
                                     {true, 2, {}},     // 1: beside it
                                     {true, 0, {}},     // 2: behind 0
                                     {true, 2, {2}},    // 3: behind 1, after 2
                                     {true, 0, {}},     // 4: behind 2, whose end is recorded
                                     {true, 2, {}},     // 5: behind 3
                                     {true, 0, {}}}));  // 6: behind 4
  REQUIRE(lanes.ok());
  CHECK(lanes->count == 3);
  std::vector<int> awaited, may_overlap;
  for (int i = 0; i < 7; ++i) {
    if (lanes->turns[i].awaited) awaited.push_back(i);
    if (lanes->turns[i].may_overlap) may_overlap.push_back(i);
  }
  CHECK(awaited == std::vector<int>{2});
  CHECK(may_overlap == std::vector<int>{2, 5, 6});
}

TEST_CASE("lanes that are none say which step is wrong", "[lanes]") {
  const auto refusal = [](const std::vector<Laid>& steps) {
    return std::string(LanesOf(PlanOf(steps)).status().message());
  };
  CHECK(refusal({{true, 0, {}}, {true, 4, {}}}) == "step 1: lane 4; a plan has lanes 0 to 3");
  CHECK(absl::StrContains(refusal({{true, 0, {}}, {true, 1, {1}}}),
                          "step 1: it waits for step 1, which is not before it"));
  CHECK(absl::StrContains(refusal({{true, 0, {4000000000u}}}), "which is not before it"));
  CHECK(absl::StrContains(refusal({{true, 1, {}}, {true, 1, {0}}}),
                          "step 1: it waits for step 0 of its own lane, 1"));
  CHECK(absl::StrContains(refusal({{true, 1, {}}, {true, 0, {0, 0, 0, 0}}}),
                          "step 1: it waits for 4 steps, at most 3"));
}

}  // namespace
}  // namespace warpsmith::problem
