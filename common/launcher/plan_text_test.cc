// Plans as text; and, with WARPSMITH_PYTHON (as scripts/test.sh sets it), the launcher that reads
// them.
#include "common/launcher/plan_text.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/launcher/source.h"

namespace warpsmith::launcher {
namespace {

using nlohmann::json;

v1::Plan MadePlan() {
  v1::Plan plan;
  plan.set_workload("the \"large\" one\n");
  for (const auto kind : {v1::Buffer::INPUT, v1::Buffer::PARAM, v1::Buffer::STATE,
                          v1::Buffer::OUTPUT, v1::Buffer::WORKSPACE}) {
    v1::Buffer& buffer = *plan.add_buffers();
    buffer.set_kind(kind);
    buffer.set_tensor(kind == v1::Buffer::PARAM ? "_0.weight" : "x");
    buffer.set_dtype("f32");
    buffer.add_shape(8);
    buffer.set_bytes(32);
  }
  v1::Fill& fill = *plan.add_steps()->mutable_fill();
  fill.set_buffer(4);
  fill.set_pattern(0xffffffff);
  fill.set_bytes(int64_t{1} << 40);
  v1::Launch& launch = *plan.add_steps()->mutable_launch();
  launch.set_entry("k");
  for (int i = 0; i < 3; ++i) launch.add_grid(i + 1), launch.add_block(32), launch.add_cluster(1);
  launch.set_cooperative(true);
  launch.add_arguments()->set_buffer(3);
  launch.add_arguments()->set_i64(std::numeric_limits<int64_t>::min());
  launch.add_arguments()->set_i32(-1);
  launch.add_arguments()->set_f32(-std::numeric_limits<float>::infinity());
  v1::TensorMap& map = *launch.add_arguments()->mutable_map();
  map.set_buffer(4);
  map.set_dtype("bf16");
  map.set_swizzle(128);
  for (int i = 2; i < 4; ++i) map.add_sizes(i), map.add_box(8 * i);
  map.add_strides(16);
  v1::Copy& copy = *plan.add_steps()->mutable_copy();
  copy.set_from(0);
  copy.set_to(3);
  copy.set_bytes(32);
  return plan;
}

TEST_CASE("a plan's text is JSON", "[launcher]") {
  const auto text = PlanText(MadePlan());
  REQUIRE(text.ok());
  const json plan = json::parse(*text);
  CHECK(plan["workload"] == "the \"large\" one\n");
  CHECK(plan["buffers"][1] == json({"param", "0.weight", "f32", {8}}));
  CHECK(plan["buffers"][4] == json({"workspace", "x", 32}));
  CHECK(plan["steps"][0] ==
        json({{"fill", 4}, {"pattern", 0xffffffff}, {"bytes", int64_t{1} << 40}}));
  const json& launch = plan["steps"][1];
  CHECK(launch["grid"] == json({1, 2, 3}));
  CHECK(launch["cooperative"] == 1);
  CHECK(launch["arguments"].dump() ==
        R"([["buffer",3],["i64",-9223372036854775808],["i32",-1],["f32",4286578688],)"
        R"(["map",[4,0,2,[2,3],[16],[16,24],128]]])");
  CHECK(plan["steps"][2] == json({{"copy", 0}, {"to", 3}, {"bytes", 32}}));
}

TEST_CASE("a tensor map says of its window", "[launcher]") {
  v1::Plan plan = MadePlan();
  v1::TensorMap& map =
      *plan.mutable_steps(1)->mutable_launch()->mutable_arguments(4)->mutable_map();
  map.add_sizes(4), map.add_strides(48);
  map.mutable_window()->add_lower(-1);
  map.mutable_window()->add_upper(0);
  map.mutable_window()->add_strides(2);
  CHECK(json::parse(*PlanText(plan))["steps"][1]["arguments"][4].dump() ==
        R"(["map",[4,0,2,[2,3,4],[16,48],[16,24],128,[[-1],[0],[2]]]])");
}

TEST_CASE("steps of other lanes say so", "[launcher]") {
  v1::Plan plan = MadePlan();
  CHECK_FALSE(json::parse(*PlanText(plan))["steps"][0].contains("lane"));
  plan.mutable_steps(1)->set_lane(2);
  plan.mutable_steps(1)->add_after(0);
  const json steps = json::parse(*PlanText(plan))["steps"];
  CHECK(steps[0]["lane"] == 0);
  CHECK(steps[1]["lane"] == 2);
  CHECK(steps[1]["after"] == json({0}));
  CHECK(steps[2]["after"] == json::array());
  plan.mutable_steps(1)->set_after(0, 1);
  CHECK(PlanText(plan).status().message() ==
        "step 1: it waits for step 1, which is not before it; name earlier steps of other lanes");
}

TEST_CASE("plans that point nowhere are refused", "[launcher]") {
  const auto refusal = [](v1::Plan plan) { return std::string(PlanText(plan).status().message()); };
  v1::Plan plan = MadePlan();
  plan.mutable_steps(1)->mutable_launch()->clear_grid();
  CHECK(refusal(plan) == "launch of k: grid, block and cluster need three numbers");
  plan = MadePlan();
  plan.mutable_steps(1)->mutable_launch()->add_arguments();
  CHECK(refusal(plan) == "launch of k: an argument has no value");
  plan.mutable_steps(1)->mutable_launch()->mutable_arguments(5)->set_buffer(5);
  CHECK(refusal(plan) == "launch of k: the plan has no buffer 5, it has 5");
  plan = MadePlan();
  plan.mutable_steps(0)->mutable_fill()->set_buffer(-1);
  CHECK(refusal(plan) == "the plan has no buffer -1, it has 5");
  plan = MadePlan();
  plan.add_steps();
  CHECK(refusal(plan) == "the plan has an empty step");
  plan.mutable_buffers(0)->clear_kind();
  CHECK(refusal(plan) == "buffer 'x' has no kind");
}

TEST_CASE("the launcher runs plans on the processor", "[launcher]") {
  CHECK(Files().at("launcher.py").find("class Solution:") != std::string::npos);
  const char* python = std::getenv("WARPSMITH_PYTHON");
  if (python == nullptr) {
    WARN("WARPSMITH_PYTHON is not set: the launcher was not run");
    return;
  }
  const std::string command =
      std::string(python) + " " + WARPSMITH_SOURCE_DIR + "/python/tests/check_launcher.py";
  CHECK(std::system(command.c_str()) == 0);
}

}  // namespace
}  // namespace warpsmith::launcher
