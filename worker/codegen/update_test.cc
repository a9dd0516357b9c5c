// States that are updated: in place, only where they change, and with products rounded as where
// every operation is a kernel of its own.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

using Lines = std::vector<std::string>;

graph::Graph ParseOrDie(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  return *graph;
}

TEST_CASE("what a state keeps is not touched", "[codegen]") {
  const struct {
    const char* what;
    Lines graph;
    bool partial;
  } cases[] = {
      {"a slice along an outer axis",
       {"input x: bf16[3, 5, 16] ~ normal", "state s: bf16[3, 40, 16] ~ normal",
        "n: bf16[b: 3, t: 40, d: 16] = select(7 <= t and t < 12, x[b, t - 7, d], s[b, t, d])",
        "y: bf16[b: 3, t: 5, d: 16] = x[b, t, d] * 2", "output y", "update s = n"},
       true},
      {"what is written stands last",
       {"input x: f32[16] ~ normal", "state s: f32[40, 16] ~ normal",
        "n: f32[t: 40, d: 16] = select(t < 39, s[t, d], x[d])", "output x", "update s = n"},
       true},
      {"slots that a table names",
       {"input x: f16[4, 24] ~ normal", "input at: i64[4] ~ integers(0, 30)",
        "state s: f16[30, 24] ~ normal", "last: i64[n: 30] = max[t: 4](select(at[t] == n, t, -1))",
        "n: f16[n: 30, d: 24] = select(last[n] >= 0, x[last[n], d], s[n, d])", "output x",
        "update s = n"},
       true},
      {"two states at once, one of them on the other side",
       {"input x: f32[8, 16] ~ normal", "state s: f32[8, 16] ~ normal",
        "state z: f32[8, 16] ~ normal", "n: f32[t: 8, d: 16] = select(t == 2, x[t, d], s[t, d])",
        "m: f32[t: 8, d: 16] = select(t < 5, z[t, d], x[t, d] * 3)", "output x", "update s = n",
        "update z = m"},
       true},
      {"a slice of rows that no vector fits",
       {"input x: f32[15] ~ normal", "state s: f32[40, 15] ~ normal",
        "n: f32[t: 40, d: 15] = select(3 <= t and t < 9, x[d], s[t, d])", "output x",
        "update s = n"},
       false},
      {"nothing changes",
       {"input x: f32[16] ~ normal", "state s: f32[40, 16] ~ normal",
        "n: f32[t: 40, d: 16] = select(t < 0, x[d], s[t, d])", "output x", "update s = n"},
       true},
      {"lanes of one vector",
       {"input x: f32[8] ~ normal", "state s: f32[8, 15] ~ normal",
        "n: f32[t: 8, d: 15] = select(d == 6, x[t], s[t, d])", "output x", "update s = n"},
       false},
      {"another element stays",
       {"input x: f32[8, 16] ~ normal", "state s: f32[8, 16] ~ normal",
        "n: f32[t: 8, d: 16] = select(t == 2, x[t, d], s[7 - t, d])", "output x", "update s = n"},
       false},
      {"the new values are an output, too",
       {"input x: f32[16] ~ normal", "state s: f32[8, 16] ~ normal",
        "n: f32[t: 8, d: 16] = select(t == 2, x[d], s[t, d])", "output n", "update s = n"},
       false},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const graph::Graph graph = ParseOrDie(c.graph);
    const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    const auto plan = Lower(graph, schedule, TestTarget());
    REQUIRE(plan.status().message() == "");
    INFO(plan->source());
    CHECK(absl::StrContains(plan->source(), "in_s") != c.partial);  // the old values are not read
    const absl::Status status = RunAndCompare(graph, schedule, 3);
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("products are rounded before they are added where a state or a decision is made of them",
          "[codegen]") {
  const struct {
    const char* what;
    Lines graph;
    bool separate;
  } cases[] = {
      {"a state",
       {"input g: f32[64] ~ normal", "state m: bf16[64] ~ normal",
        "n: bf16[i: 64] = bf16(f32(m[i]) * 0.9 + g[i] * 0.1)", "output g", "update m = n"},
       true},
      {"a sign",
       {"input g: f32[64] ~ normal", "input m: f32[64] ~ normal",
        "y: f32[i: 64] = sign(g[i] * 0.3 - m[i] * 0.7)", "output y"},
       true},
      {"a comparison of what another map computes",
       {"input g: f32[64] ~ normal", "t: f32[i: 64] = g[i] * 0.3 - 0.2",
        "y: f32[i: 64] = select(t[i] < 0.1, 1, t[i])", "output y"},
       true},
      {"a comparison of what is read",
       {"input g: f32[64] ~ normal", "y: f32[i: 64] = select(g[i] < 0.1, 1, g[i] * 2 + 1)",
        "output y"},
       false},
      {"a plain sum",
       {"input g: f32[64] ~ normal", "y: f32[i: 64] = g[i] * 0.3 - 0.2", "output y"},
       false},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const graph::Graph graph = ParseOrDie(c.graph);
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    CHECK(schedule.groups(0).precision().separate() == c.separate);
    for (bool separate : {true, false}) {
      schedule.mutable_groups(0)->mutable_precision()->set_separate(separate);
      const auto plan = Lower(graph, schedule, TestTarget());
      REQUIRE(plan.status().message() == "");
      CHECK(absl::StrContains(plan->source(), "ws::product(") == separate);
      CHECK(RunAndCompare(graph, schedule, 3).message() == "");
    }
  }
}

}  // namespace
}  // namespace warpsmith::codegen
