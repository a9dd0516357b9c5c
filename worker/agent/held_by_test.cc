#include "worker/agent/held_by.h"

#include <catch2/catch.hpp>
#include <functional>

#include "worker/agent/test_problems.h"
#include "worker/codegen/plan/entry.h"

namespace warpsmith::agent {
namespace {

constexpr double kLight = 100;  // us of the copy that the cases are told of

// A map of 2^26 floats that reads and writes 512 MiB in all, on a card whose light is kLight.
State Map(const std::function<void(v1::MapKnobs&)>& edit = nullptr) {
  const codegen::Target card;
  const v1::Problem problem = Gelu(int64_t{1} << 26);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  v1::Schedule schedule;
  auto& group = *schedule.add_groups();
  group.add_roots("y");
  group.mutable_map()->set_block_threads(256);
  group.mutable_map()->set_vector_bytes(16);
  if (edit) edit(*group.mutable_map());
  auto state = MakeState(shared, schedule, card);
  INFO(state.status().ToString());
  REQUIRE(state.ok());
  const double bytes = 8.0 * (1 << 26);
  state->roof = graph::Roof::Of(bytes / (kLight * 1e-6), 1e15);
  state->light_us = kLight;
  return *std::move(state);
}

v1::Profile::Kernel KernelOf(const State& state, const char* root, double us) {
  v1::Profile::Kernel kernel;
  kernel.set_entry(codegen::EntryPrefix(state.graph().Find(root)) + root);
  kernel.set_us(us);
  return kernel;
}

TEST_CASE("what holds a plan is told from counters", "[agent]") {
  struct Case {
    const char* expected;
    std::function<void(v1::Counters&)> edit;
  };
  const double bytes = 8.0 * (1 << 26);
  const Case cases[] = {
      {"memory: at 88 % of its bandwidth", [](v1::Counters& c) { c.set_dram_throughput(0.88); }},
      {"memory: moves 2.5 times the bytes",
       [&](v1::Counters& c) {
         c.set_dram_throughput(0.88);
         c.set_dram_read_bytes(2.5 * bytes);
       }},
      {"compute: fp64 pipe at 91 %", [](v1::Counters& c) { c.set_fp64_active(0.91); }},
      {"compute: special function unit at 60 %",
       [](v1::Counters& c) { c.set_special_active(0.6); }},
      {"instructions: schedulers issue in 80 %", [](v1::Counters& c) { c.set_issue_active(0.8); }},
      {"shared memory: conflicts are 75 %",
       [](v1::Counters& c) {
         c.set_lsu_throughput(0.6);
         c.set_bank_conflicts(0.75);
       }},
      {"load/store unit at 80 %: reads 16 bytes a thread",
       [](v1::Counters& c) { c.set_lsu_throughput(0.8); }},
      {"latency: 20 % of the warps that an SM could hold, by registers (96 registers",
       [](v1::Counters& c) { c.set_warps_active(0.2); }},
      {"latency: no unit is busy (DRAM 40 %", [](v1::Counters&) {}},
  };
  for (const Case& c : cases) {
    State state = Map();
    v1::Profile profile;
    auto& kernel = *profile.add_kernels() = KernelOf(state, "y", 3 * kLight);
    auto& report = *state.report.add_kernels();
    report.set_entry(kernel.entry());
    report.set_registers(96);
    v1::Counters& counters = *kernel.mutable_counters();
    counters.set_dram_read_bytes(bytes);
    counters.set_dram_throughput(0.4);
    counters.set_warps_active(0.6);
    c.edit(counters);
    CHECK_THAT(HeldBy(state, 3 * kLight, profile, 0), Catch::StartsWith(c.expected));
    // Nothing of another workload's kernels.
    CHECK_THAT(HeldBy(state, 3 * kLight, profile, 1), !Catch::StartsWith(c.expected));
  }
}

TEST_CASE("without counters what holds a plan is told from what is known of it", "[agent]") {
  struct Case {
    const char* expected;
    std::function<void(State&)> edit;
  };
  const Case cases[] = {
      {"not known: its bytes take 100.0 of 300.0 us", [](State&) {}},
      {"compute: special functions at 75 % of its rate",
       [](State& state) { state.roof.operations = (1 << 26) / (0.75 * 3 * kLight * 1e-6) * 16; }},
      {"memory: its bytes take 80 % of the time",
       [](State& state) { state.roof = graph::Roof::Of(8.0 * (1 << 26) / (240 * 1e-6), 1e15); }},
      {"latency: 0.5 waves of blocks",
       [](State& state) { state.groups[0].blocks = 8 * state.target.sm_count / 2; }},
      {"memory: reads 4 bytes a thread at once", [](State& state) { state.groups[0].width = 1; }},
      {"memory: reads 16 bytes a thread at once, rows begin where",
       [](State& state) { state.groups[0].aligned = false; }},
      {"spills: 64 bytes",
       [](State& state) {
         auto& kernel = *state.report.add_kernels();
         kernel.set_entry(codegen::EntryPrefix(state.graph().Find("y")) + "y");
         kernel.set_spill_bytes(64);
       }},
  };
  for (const Case& c : cases) {
    State state = Map();
    c.edit(state);
    v1::Profile profile;
    *profile.add_kernels() = KernelOf(state, "y", 3 * kLight);
    CHECK_THAT(HeldBy(state, 3 * kLight, profile, 0), Catch::StartsWith(c.expected));
  }
  // What a library's kernels ask of the card is not known.
  State library = Map();
  library.groups[0].resolved.mutable_contract()->set_math(v1::PRODUCT_LIBRARY);
  v1::Profile product;
  *product.add_kernels() = KernelOf(library, "y", 3 * kLight);
  product.mutable_kernels(0)->mutable_entry()->append("_product");
  CHECK(HeldBy(library, 3 * kLight, product, 0) ==
        "a library's product: its bytes take 100.0 of 300.0 us");
  // A tensor may have such a name.
  CHECK_THAT(HeldBy(Map(), 3 * kLight, product, 0), Catch::StartsWith("not known"));
  CHECK(HeldBy(Map(), 0, {}, 0).empty());
  CHECK_FALSE(HeldBy(Map(), 3 * kLight, {}, 0).empty());
}

TEST_CASE("launching holds what is short", "[agent]") {
  const State state = Map();
  v1::Profile one;
  *one.add_kernels() = KernelOf(state, "y", 3.9);
  CHECK_THAT(HeldBy(state, 3.9, one, 0), Catch::StartsWith("launch: one kernel of 3.9 us"));

  // One node a kernel: softmax has four.
  const v1::Problem problem = Softmax(64, 64);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  auto apart =
      MakeState(shared, codegen::OpByOpSchedule(*shared, codegen::Target()), codegen::Target());
  REQUIRE(apart.ok());
  v1::Profile four;
  for (const char* root : {"m", "e", "s", "y"}) *four.add_kernels() = KernelOf(*apart, root, 2.5);
  CHECK_THAT(HeldBy(*apart, 14, four, 0), Catch::StartsWith("launches: 4 kernels in 14.0 us"));
  // Not where the kernels take the time: then the longest is named with its share.
  for (auto& kernel : *four.mutable_kernels()) kernel.set_us(25);
  four.mutable_kernels(2)->set_us(225);
  CHECK_THAT(HeldBy(*apart, 310, four, 0), Catch::StartsWith("kernel s (75 % of the time): "));
}

TEST_CASE("groups take what their kernels were measured to take", "[agent]") {
  const v1::Problem problem = Softmax(64, 64);
  auto graph = problem::GraphOf(problem, problem.workloads(0));
  auto shared = std::make_shared<const graph::Graph>(*std::move(graph));
  const codegen::Target card;
  auto apart = MakeState(shared, codegen::OpByOpSchedule(*shared, card), card);
  REQUIRE(apart.ok());
  State state = *std::move(apart);
  const std::vector<const char*> roots = {"m", "e", "s", "y"};
  double estimated = 0;  // of shares
  for (int g = 0; g < 4; ++g) {
    estimated += Share(state, g);
    CHECK(Slower(state, g) == 1);
  }
  CHECK(estimated == Approx(1));

  // One takes most of it; together they take the state's time, which launches are part of.
  v1::Profile profile;
  for (const char* root : roots) *profile.add_kernels() = KernelOf(state, root, 4);
  *profile.add_kernels() = KernelOf(state, "s", 28);
  *profile.add_kernels() = KernelOf(state, "s", 1000);
  profile.mutable_kernels(5)->set_workload(1);
  state.time_us = 22;
  TakeTimes(state, profile, 0);
  REQUIRE(state.group_us.size() == 4);
  CHECK(state.group_us[2] == Approx(16));
  CHECK(Share(state, 2) == Approx(16.0 / 22));
  CHECK(Slower(state, 2) == Approx(std::min(10.0, 16e-6 / state.groups[2].seconds)));
  CHECK(Slower(state, 2) > Slower(state, 0));

  // What a move does not touch stays known; what it does is estimated.
  v1::Schedule changed = state.schedule;
  changed.mutable_groups(0)->mutable_rows()->set_block_threads(512);
  const auto moved = MakeState(state, changed);
  REQUIRE(moved.ok());
  CHECK(moved->group_us == std::vector<double>{0, state.group_us[1], 16, state.group_us[3]});
  CHECK(Slower(*moved, 0) == 1);
  CHECK(Share(*moved, 2) > 0.5);
  // No profile says nothing.
  TakeTimes(state, {}, 0);
  CHECK(state.group_us[2] == Approx(16));
}

}  // namespace
}  // namespace warpsmith::agent
