// Maps that turn their inputs, by the tile skeleton, on the host device against the oracle.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

struct Case {
  const char* what;
  std::vector<std::string> graph;
};

const Case kCases[] = {
    {"a transposed matrix",
     {"input x: f32[48, 80] ~ normal", "y: f32[j: 80, i: 48] = x[i, j]", "output y"}},
    {"odd extents",
     {"input x: f32[37, 53] ~ normal", "y: f32[j: 53, i: 37] = x[i, j]", "output y"}},
    {"the innermost axis goes out",
     {"input x: f16[6, 10, 14, 2] ~ normal", "y: f16[d: 2, a: 6, b: 10, c: 14] = x[a, b, c, d]",
      "output y"}},
    {"the innermost axis of three stays",
     {"input x: f32[12, 18, 3] ~ normal", "y: f32[b: 18, a: 12, c: 3] = x[a, b, c]", "output y"}},
    {"bytes",
     {"input x: i8[64, 96] ~ integers(-100, 100)", "y: i8[j: 96, i: 64] = x[i, j]", "output y"}},
    {"odd bytes",
     {"input x: i8[33, 45] ~ integers(-100, 100)", "y: i8[j: 45, i: 33] = x[i, j]", "output y"}},
    {"doubles", {"input x: f64[20, 36] ~ normal", "y: f64[j: 36, i: 20] = x[i, j]", "output y"}},
    {"something computed on the way, with an input in the output's order and a bias",
     {"input x: f32[40, 64] ~ normal", "input z: f32[64, 40] ~ normal", "param b: f32[40] ~ normal",
      "y: f32[j: 64, i: 40] = tanh(x[i, j]) + z[j, i] * b[i]", "output y"}},
    {"two inputs, each in an order of its own",
     {"input x: f32[12, 20, 28] ~ normal", "input z: bf16[28, 12, 20] ~ normal",
      "y: f32[b: 20, c: 28, a: 12] = x[a, b, c] + f32(z[c, a, b])", "output y"}},
    {"two outputs",
     {"input x: f32[24, 56] ~ normal", "y: f32[j: 56, i: 24] = x[i, j]",
      "h: bf16[j: 56, i: 24] = bf16(x[i, j] * 2)", "output y, h"}},
    {"a pixel shuffle",
     {"input x: f32[2, 12, 6, 10] ~ normal",
      "y: f32[n: 2, c: 3, h: 12, w: 20] = x[n, c * 4 + h % 2 * 2 + w % 2, h / 2, w / 2]",
      "output y"}},
    {"flipped",
     {"input x: f32[30, 44] ~ normal", "y: f32[j: 44, i: 30] = x[29 - i, j]", "output y"}},
    {"a slice, turned",
     {"input x: f32[30, 44] ~ normal", "y: f32[j: 40, i: 24] = x[i + 3, j + 2]", "output y"}},
};

TEST_CASE("tiles", "[codegen]") {
  for (const Case& c : kCases) {
    const auto graph = graph::Parse(c.graph, {});
    INFO(c.what << ": " << graph.status().message());
    REQUIRE(graph.ok());
    for (const char* knobs :
         {"tile { block_threads: 64 line_bytes: 64 box_bytes: 4096 }",
          "tile { block_threads: 32 line_bytes: 32 box_bytes: 1024 raster_input: true }",
          "tile { block_threads: 64 line_bytes: 128 vector_bytes: 4 }"}) {
      v1::Schedule schedule;
      v1::Group* group = schedule.add_groups();
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, group));
      for (int output : graph->outputs) group->add_roots(graph->tensors[output].name);
      const absl::Status status = RunAndCompare(*graph, schedule, 3);
      INFO(knobs << "\n" << status.message());
      CHECK(status.ok());
    }
  }
}

// What the skeleton tile makes of a copy by itself.
GroupInfo DefaultOf(const std::vector<std::string>& text) {
  const auto graph = graph::Parse(text, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  const Target target;
  const auto infos = Describe(*graph, DefaultSchedule(*graph, target), target);
  INFO(infos.status().message());
  REQUIRE(infos.ok());
  REQUIRE(infos->size() == 1);
  return infos->front();
}

TEST_CASE("a turned tensor of a few megabytes keeps every multiprocessor busy", "[codegen]") {
  const GroupInfo info = DefaultOf({"input x: f32[4, 96, 2170] ~ normal",
                                    "y: f32[n: 4, p: 2170, c: 96] = x[n, c, p]", "output y"});
  CHECK(info.skeleton == v1::Group::kTile);
  CHECK(info.blocks >= 3 * Target{}.sm_count);
}

TEST_CASE("short lines that no wide access divides are moved by boxes", "[codegen]") {
  const GroupInfo info = DefaultOf({"input x: bf16[480, 45, 6, 20, 3, 34] ~ normal",
                                    "y: bf16[a: 480, b: 45, d: 20, e: 3, c: 6, f: 34] = "
                                    "x[a, b, c, d, e, f]",
                                    "output y"});
  CHECK(info.skeleton == v1::Group::kTile);
}

TEST_CASE("short lines whose neighbours are read long after are moved by boxes", "[codegen]") {
  const GroupInfo far =
      DefaultOf({"input x: f32[42, 11, 1742, 7, 22] ~ normal",
                 "y: f32[d: 7, a: 42, c: 1742, b: 11, e: 22] = x[a, b, c, d, e]", "output y"});
  CHECK(far.skeleton == v1::Group::kTile);
  const GroupInfo near =
      DefaultOf({"input x: f32[80000, 7, 11, 22] ~ normal",
                 "y: f32[a: 80000, c: 11, b: 7, d: 22] = x[a, b, c, d]", "output y"});
  CHECK(near.skeleton == v1::Group::kMap);
}

TEST_CASE("rows of bytes that only narrow vectors divide are moved by boxes", "[codegen]") {
  const GroupInfo info =
      DefaultOf({"input x: i8[7, 34, 13, 2, 86760] ~ integers(-100, 100)",
                 "y: i8[a: 7, c: 13, d: 2, b: 34, e: 86760] = x[a, b, c, d, e]", "output y"});
  CHECK(info.skeleton == v1::Group::kTile);
}

}  // namespace
}  // namespace warpsmith::codegen
