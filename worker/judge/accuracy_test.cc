#include "worker/judge/accuracy.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace warpsmith::judge {
namespace {

TEST_CASE("bytes that floats were rounded to are known, and what is made of them") {
  const auto graph = graph::Parse(
      {
          "input x: f32[8] ~ normal",
          "input b: i8[8] ~ integers(0, 9)",
          "state s: i8[8] ~ integers(0, 9)",
          "rounded: i8[i: 8] = i8(round(x[i]))",
          "larger: i8[i: 8] = max(rounded[i], b[i])",
          "most, place: i8[] = argmax[i: 8](larger[i])",
          "exact: i8[i: 8] = max(b[i], s[i])",
          "wide: i32[i: 8] = i32(rounded[i])",
          "output larger",
          "update s = larger",
      },
      {});
  INFO(graph.status());
  REQUIRE(graph.ok());
  const std::vector<bool> rounded = RoundedFloats(*graph);
  for (const auto& [name, expected] : {std::pair("x", false),
                                       {"b", false},
                                       {"s", false},
                                       {"rounded", true},
                                       {"larger", true},
                                       {"most", true},
                                       {"place", false},
                                       {"exact", false},
                                       {"wide", false}}) {
    INFO(name);
    CHECK(rounded[graph->Find(name)] == expected);
  }
}

TEST_CASE("what is shared is looked at once") {
  constexpr int kDepth = 100;  // 2^100 paths
  graph::Graph graph;
  int last = graph.AddInput(graph::Role::kInput, "x", graph::DType::kI8, {8});
  for (int i = 0; i < kDepth; ++i) {
    const graph::ExprPtr x = graph::Load(graph, last, {graph::Index(0)});
    last = graph.AddMap(absl::StrCat("a", i), {{"i", 8}}, graph::Binary(graph::Op::kMax, x, x));
  }
  graph::ExprPtr e = graph::Load(graph, last, {graph::Index(0)});
  for (int i = 0; i < kDepth; ++i) e = graph::Binary(graph::Op::kMax, e, e);
  last = graph.AddMap("y", {{"i", 8}}, e);
  CHECK_FALSE(RoundedFloats(graph)[last]);
}

}  // namespace
}  // namespace warpsmith::judge
