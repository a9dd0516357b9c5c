// Plans whose steps run beside each other; that they give the right answers is what the property
// test finds.
#include "worker/codegen/plan/branches.h"

#include <algorithm>

#include "common/problem/lanes.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

v1::Plan PlanOf(const graph::Graph& graph, bool branches, bool programmatic = false) {
  v1::Schedule schedule = OpByOpSchedule(graph, TestTarget());
  schedule.mutable_launch()->set_branches(branches);
  schedule.mutable_launch()->set_programmatic(programmatic);
  auto plan = Lower(graph, schedule, TestTarget());
  INFO(plan.status());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

using Steps = std::vector<int>;

Steps AfterOf(const v1::Plan& plan, int step) {
  return Steps(plan.steps(step).after().begin(), plan.steps(step).after().end());
}

// n, then three that read it, then what reads these.
graph::Graph Projections() {
  return ParseOrDie({"input x: f32[32, 32] ~ normal", "n: f32[i: 32, j: 32] = x[i, j] * 2",
                     "q: f32[i: 32] = sum[j: 32](n[i, j])", "k: f32[j: 32] = sum[i: 32](n[i, j])",
                     "v: f32[i: 32] = max[j: 32](n[i, j])", "y: f32[i: 32] = q[i] * k[i] + v[i]",
                     "output y"});
}

TEST_CASE("what reads one tensor runs beside each other", "[codegen]") {
  const graph::Graph graph = Projections();
  const v1::Plan plan = PlanOf(graph, true);
  REQUIRE(plan.steps_size() == 5);
  Steps lanes;
  for (const v1::Step& step : plan.steps()) lanes.push_back(static_cast<int>(step.lane()));
  // The last goes on behind what came last, and waits for the others.
  CHECK(lanes == Steps{0, 0, 1, 2, 2});
  CHECK(AfterOf(plan, 1).empty());
  CHECK(AfterOf(plan, 2) == Steps{0});
  CHECK(AfterOf(plan, 3) == Steps{0});
  CHECK(AfterOf(plan, 4) == Steps{1, 2});
  Check(
      graph,
      [] {
        v1::Schedule schedule = OpByOpSchedule(Projections(), TestTarget());
        schedule.mutable_launch()->set_branches(true);
        return schedule;
      }(),
      1);
  const v1::Plan in_order = PlanOf(graph, false);
  for (const v1::Step& step : in_order.steps()) {
    CHECK(step.lane() == 0);
    CHECK(step.after().empty());
  }
}

TEST_CASE("kernels overlap what is before them in their lane, if nobody else meets there",
          "[codegen]") {
  const v1::Plan plan = PlanOf(Projections(), true, true);
  const auto lanes = problem::LanesOf(plan);
  REQUIRE(lanes.ok());
  for (int i = 0; i < plan.steps_size(); ++i) {
    INFO(i);
    CHECK(plan.steps(i).launch().programmatic() == lanes->turns[i].may_overlap);
  }
  // Two chains.
  const v1::Plan chains =
      PlanOf(ParseOrDie({"input x: f32[64] ~ normal", "input z: f32[64] ~ normal",
                         "a: f32 = sum[i: 64](x[i])", "b: f32 = sum[i: 64](z[i])",
                         "y: f32[i: 64] = x[i] * a[]", "u: f32[i: 64] = z[i] * b[]", "output y, u"}),
             true, true);
  REQUIRE(chains.steps_size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(chains.steps(i).lane() == static_cast<uint32_t>(i % 2));
    CHECK(chains.steps(i).launch().programmatic() == (i >= 2));
  }
}

TEST_CASE("memory is shared by what follows each other anyway, and not by what runs beside it",
          "[codegen]") {
  const auto workspaces = [](const v1::Plan& plan) {
    return std::count_if(
        plan.buffers().begin(), plan.buffers().end(),
        [](const v1::Buffer& buffer) { return buffer.kind() == v1::Buffer::WORKSPACE; });
  };
  const graph::Graph chain = ParseOrDie(
      {"input x: f32[64] ~ normal", "a: f32 = sum[i: 64](x[i])", "b: f32[i: 64] = x[i] * a[]",
       "c: f32 = sum[i: 64](b[i])", "d: f32[i: 64] = x[i] * c[]", "e: f32 = sum[i: 64](d[i])",
       "f: f32[i: 64] = x[i] * e[]", "g: f32 = sum[i: 64](f[i])", "output g"});
  CHECK(workspaces(PlanOf(chain, true)) == workspaces(PlanOf(chain, false)));
  const graph::Graph beside = ParseOrDie({"input x: f32[64] ~ normal", "a: f32 = sum[i: 64](x[i])",
                                          "b: f32[i: 64] = x[i] * a[]", "c: f32 = max[i: 64](x[i])",
                                          "d: f32[i: 64] = x[i] * c[]", "output b, d"});
  CHECK(workspaces(PlanOf(beside, false)) == 1);
  CHECK(workspaces(PlanOf(beside, true)) == 2);
}

// Steps that fill and copy, by hand.
v1::Plan Memory(const std::vector<std::pair<int, int>>& copies) {
  v1::Plan plan;
  for (int i = 0; i < 8; ++i) plan.add_buffers()->set_kind(v1::Buffer::WORKSPACE);
  for (const auto& [from, to] : copies) {
    v1::Copy& copy = *plan.add_steps()->mutable_copy();
    copy.set_from(from);
    copy.set_to(to);
  }
  LayOverLanes({}, false, plan);
  return plan;
}

// Whether step `later` has to wait for step `earlier`: through lanes and what their steps wait for.
bool Waits(const v1::Plan& plan, int later, int earlier) {
  for (int i = earlier; i < later; ++i) {
    const auto after = AfterOf(plan, later);
    const bool at_once = plan.steps(i).lane() == plan.steps(later).lane() ||
                         std::count(after.begin(), after.end(), i) > 0;
    if (at_once && (i == earlier || Waits(plan, i, earlier))) return true;
  }
  return false;
}

TEST_CASE("steps wait for all that they depend on", "[codegen]") {
  CHECK(Waits(Memory({{0, 1}, {1, 2}}), 1, 0));        // reads what was written
  CHECK(Waits(Memory({{0, 1}, {2, 1}}), 1, 0));        // writes it again
  CHECK(Waits(Memory({{0, 1}, {2, 0}}), 1, 0));        // writes what is read
  CHECK_FALSE(Waits(Memory({{0, 1}, {0, 2}}), 1, 0));  // reads the same
  // Any plan of copies, and more branches than lanes.
  for (int drawn = 0; drawn < 300; ++drawn) {
    uint32_t random = drawn * 2654435761u + 1;
    const auto below = [&random](int n) {
      random = random * 1664525u + 1013904223u;
      return static_cast<int>((random >> 16) % n);
    };
    std::vector<std::pair<int, int>> copies;
    for (int i = 0; i < 12; ++i) {
      const int from = below(8);
      copies.push_back({from, (from + 1 + below(7)) % 8});
    }
    const v1::Plan plan = Memory(copies);
    INFO(plan.DebugString());
    REQUIRE(problem::LanesOf(plan).ok());
    for (int later = 0; later < 12; ++later) {
      for (int earlier = 0; earlier < later; ++earlier) {
        const auto& [from, to] = copies[later];
        const auto& [was_from, was_to] = copies[earlier];
        if (from == was_to || to == was_to || to == was_from) CHECK(Waits(plan, later, earlier));
      }
    }
  }
}

TEST_CASE("cooperative launches wait for each other", "[codegen]") {
  v1::Plan plan;
  for (int i = 0; i < 4; ++i) plan.add_buffers()->set_kind(v1::Buffer::WORKSPACE);
  for (int i = 0; i < 4; ++i) {
    v1::Launch& launch = *plan.add_steps()->mutable_launch();
    launch.set_cooperative(i != 1);
    launch.add_arguments()->set_buffer(i);
  }
  LayOverLanes({}, true, plan);
  CHECK(Waits(plan, 2, 0));
  CHECK(Waits(plan, 3, 2));
  CHECK_FALSE(Waits(plan, 1, 0));
  for (const v1::Step& step : plan.steps()) CHECK_FALSE(step.launch().programmatic());
}

}  // namespace
}  // namespace warpsmith::codegen
