// States that are updated: in place, only where they change, by the pass that reads them, and with
// products rounded as where every operation is a kernel of its own.
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

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
       true},
      {"nothing changes",
       {"input x: f32[16] ~ normal", "state s: f32[40, 16] ~ normal",
        "n: f32[t: 40, d: 16] = select(t < 0, x[d], s[t, d])", "output x", "update s = n"},
       true},
      {"lanes of one vector",
       {"input x: f32[8] ~ normal", "state s: f32[8, 15] ~ normal",
        "n: f32[t: 8, d: 15] = select(d == 6, x[t], s[t, d])", "output x", "update s = n"},
       true},
      {"lanes that data parts",
       {"input x: f32[8, 16] ~ normal", "state s: f32[8, 16] ~ normal",
        "n: f32[t: 8, d: 16] = select(x[t, d] > 0, x[t, d], s[t, d])", "output x", "update s = n"},
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

// Who writes runs, not what is written; where a state cannot be overwritten at once, it is copied
// first.
// A vector lies in one row though its width does not divide the row.
TEST_CASE("vectors of one row at a place that a table names", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input at: i64[1] ~ integers(0, 12)", "state s: u8[12, 12] ~ integers(0, 20)",
                  "last: i64[n: 12] = max[t: 1](select(at[t] == n, t, -1))",
                  "n: u8[n: 12, d: 12] = select(last[n] < 0, s[n, d], s[n, d] * 7)", "output at",
                  "update s = n"});
  for (const int bytes : {4, 8}) {
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    for (v1::Group& group : *schedule.mutable_groups())
      group.mutable_map()->set_vector_bytes(bytes);
    INFO(schedule.DebugString());
    CHECK(RunAndCompare(graph, schedule, 3).message() == "");
  }
}

TEST_CASE("places that a table names", "[codegen]") {
  const Lines keys = {"input x: f16[9, 24] ~ normal", "input at: i64[9] ~ integers(-4, 8)",
                      "state s: f16[30, 24] ~ normal"};
  const std::string last = "last: i64[n: 30] = max[t: 9](select(at[t] == n, t, -1))";
  const std::string doubled = "y: f16[t: 9, d: 24] = f16(f32(x[t, d]) * 2)";
  const std::string now = "n: f16[n: 30, d: 24] = select(last[n] >= 0, y[last[n], d], s[n, d])";
  struct Case {
    const char* what;
    Lines graph;
    int launches, copies;  // -1: any; an output that is an input is a copy
  };
  std::vector<Case> cases = {
      {"what is written is an output, too: some twice, some outside", keys, 1, 0},
      {"places that count from the end, as they are imported",
       {"input x: f16[9, 24] ~ normal", "input at: i64[9] ~ integers(-30, 30)",
        "state s: f16[30, 24] ~ normal",
        "last: i64[n: 30] = max[t: 9](select(select(at[t] < 0, at[t] + 30, at[t]) == n, t, -1))",
        "n: f16[n: 30, d: 24] = select(0 <= last[n], x[last[n], d], s[n, d])", "output x",
        "update s = n"},
       1,
       1},
      {"a table of blocks and one of places in them",
       {"input x: f32[3, 4, 8] ~ normal", "input block: i64[3] ~ integers(0, 4)",
        "input at: i64[3, 4] ~ integers(0, 6)", "state s: f32[4, 2, 6, 8] ~ normal",
        "last: i64[b: 4, p: 6] = max[i: 3, j: 4](select(block[i] == b and at[i, j] == p, i * 4 + "
        "j, -1))",
        "n: f32[b: 4, h: 2, p: 6, d: 8] = select(last[b, p] >= 0, "
        "x[last[b, p] / 4, last[b, p] % 4, d] + f32(h), s[b, h, p, d])",
        "output x", "update s = n"},
       1,
       1},
      {"what it was decides what it becomes",
       {"input x: f32[9, 8] ~ normal", "input at: i64[9] ~ integers(0, 5)",
        "state s: f32[7, 8] ~ normal", "last: i64[n: 7] = max[t: 9](select(at[t] == n, t, -1))",
        "n: f32[n: 7, d: 8] = select(last[n] >= 0, s[n, d] * 0.5 + x[last[n], d], s[n, d])",
        "output x", "update s = n"},
       1,
       1},
      {"a table for each element, of a part of the rows",
       {"input x: f32[5, 6] ~ normal", "input at: i64[5, 6] ~ integers(0, 9)",
        "state s: f32[8, 9] ~ normal",
        "last: i64[r: 8, c: 9] = max[k: 6](select(r < 5 and at[min(r, 4), k] == c, k, -1))",
        "n: f32[r: 8, c: 9] = select(last[r, c] < 0, s[r, c], x[min(r, 4), last[r, c]])",
        "output x", "update s = n"},
       1,
       1},
      {"the new values are an output",
       {"input x: f32[9, 8] ~ normal", "input at: i64[9] ~ integers(0, 12)",
        "input s: f32[12, 8] ~ normal", "last: i64[n: 12] = max[t: 9](select(at[t] == n, t, -1))",
        "n: f32[n: 12, d: 8] = select(last[n] >= 0, x[last[n], d], s[n, d])", "output n"},
       1,
       1},
      {"another root needs what was there",
       {"input x: f32[9, 8] ~ normal", "input at: i64[9] ~ integers(0, 9)",
        "state s: f32[9, 8] ~ normal", "last: i64[n: 9] = max[t: 9](select(at[t] == n, t, -1))",
        "n: f32[n: 9, d: 8] = select(last[n] >= 0, x[last[n], d], s[n, d])",
        "y: f32[t: 9, d: 8] = s[8 - t, d] + x[t, d]", "output y", "update s = n"},
       -1,
       -1},
      {"a slice and what is made for it",
       {"input x: bf16[2, 5, 16] ~ normal", "input v: bf16[2, 5, 16] ~ normal",
        "state s: bf16[2, 40, 16] ~ normal", "state z: bf16[2, 40, 16] ~ normal",
        "y: bf16[b: 2, t: 5, d: 16] = bf16(f32(x[b, t, d]) * 0.5)",
        "n: bf16[b: 2, t: 40, d: 16] = select(7 <= t and t < 12, y[b, t - 7, d], s[b, t, d])",
        "m: bf16[b: 2, t: 40, d: 16] = select(7 <= t and t < 12, v[b, t - 7, d], z[b, t, d])",
        "output y", "update s = n", "update z = m"},
       1,
       0},
  };
  for (const std::string& line : {last, doubled, now}) cases[0].graph.push_back(line);
  for (const char* line : {"output y", "update s = n"}) cases[0].graph.push_back(line);
  for (const Case& c : cases) {
    INFO(c.what);
    const graph::Graph graph = ParseOrDie(c.graph);
    const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    const auto plan = Lower(graph, schedule, TestTarget());
    REQUIRE(plan.status().message() == "");
    INFO(schedule.DebugString() << plan->source());
    int launches = 0, copies = 0;
    for (const v1::Step& step : plan->steps()) {
      launches += step.has_launch();
      copies += step.has_copy();
    }
    if (c.launches >= 0) CHECK(launches == c.launches);
    if (c.copies >= 0) CHECK(copies == c.copies);
    // A kernel for each node: each writer raises the number of the last at the place that it names.
    const auto apart = Lower(graph, OpByOpSchedule(graph, TestTarget()), TestTarget());
    REQUIRE(apart.status().message() == "");
    CHECK(absl::StrContains(apart->source(), "ws::global_max(") == (graph.Find("last") >= 0));
    std::vector<Trial> trials;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      trials.push_back({graph, schedule, seed, seed > 3});
      trials.push_back({graph, OpByOpSchedule(graph, TestTarget()), seed, seed > 3});
    }
    for (const absl::Status& status : RunAndCompareAll(trials)) CHECK(status.message() == "");
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

// The last strips of an axis are moved back over the ones before: what two threads compute may not
// be updated in place.
TEST_CASE("a state that strips of windows update", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: f32[3, 60, 90] ~ normal", "state s: f32[3, 58, 87] ~ normal",
                  "u: f32[r: 3, h: 58, c: 87] = max[p: 3, q: 4](x[r, h + p, c + q])",
                  "now: f32[r: 3, h: 58, c: 87] = s[r, h, c] * 0.5 + u[r, h, c]",
                  "z: f32[r: 3] = s[r, 0, 0]", "output z", "update s = now"});
  for (int bytes : {4, 8}) {
    v1::Schedule schedule;
    schedule.add_groups()->add_roots("z");
    v1::Group* windows = schedule.add_groups();
    windows->add_roots("now");
    windows->mutable_window()->set_vector_bytes(bytes);
    windows->mutable_window()->set_outputs(4);
    Check(graph, schedule, 1);
  }
}

// A step of an optimiser: what the next forward reads is made of what the update writes, at the
// same place.
TEST_CASE("states that a kernel updates where it reads them need no copies", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input g: bf16[1000] ~ normal", "state p: f32[1000] ~ normal",
                  "state m: f32[1000] ~ normal", "nm: f32[i: 1000] = m[i] * 0.9 + f32(g[i]) * 0.1",
                  "np: f32[i: 1000] = p[i] * 0.99 - nm[i] * 0.01", "w: bf16[i: 1000] = bf16(np[i])",
                  "output w", "update p = np", "update m = nm"});
  const v1::Schedule schedule = DefaultSchedule(graph, Target{});
  CHECK(schedule.groups_size() == 1);
  const auto plan = Lower(graph, schedule, Target{});
  REQUIRE(plan.status().message() == "");
  CHECK(plan->steps_size() == 1);
  CHECK(plan->buffers_size() == 4);
  Check(graph, schedule, 1);
  // Another element of it is read: the new values have a place of their own.
  const graph::Graph shifted =
      ParseOrDie({"state p: f32[1000] ~ normal", "np: f32[i: 1000] = p[i] * 0.99",
                  "w: f32[i: 1000] = np[i] + p[999 - i]", "output w", "update p = np"});
  const v1::Schedule both = DefaultSchedule(shifted, Target{});
  CHECK(Lower(shifted, both, Target{})->steps_size() > both.groups_size());
  Check(shifted, both, 1);
}

// What is stored first may be what the next root reads, in every skeleton that has rows.
TEST_CASE("a state that another root of its row reads", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: f32[24, 64] ~ normal", "state p: f32[24] ~ normal",
                  "np: f32[r: 24] = sum[k: 64](x[r, k])", "w: f32[r: 24] = p[r] * 2 + np[r]",
                  "output w", "update p = np"});
  for (const char* skeleton : {"map {}", "rows {}", "fold {}"}) {
    v1::Schedule schedule;
    v1::Group& group = *schedule.add_groups();
    REQUIRE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("roots: ['np', 'w'] ", skeleton), &group));
    INFO(skeleton);
    Check(graph, schedule, 1);
  }
}

// What needs no result of a stage is written while the stage reads, so that rows and columns of it
// can be cut over blocks, and states be updated in place.
TEST_CASE("elements are written by the pass that reduces them", "[codegen]") {
  struct {
    const char* what;
    Lines graph;
    std::vector<std::string> knobs;
    size_t launches;
    bool in_place;
  } const cases[] = {
      {"a step of an optimiser and its norm",
       {"input g: bf16[1000] ~ normal", "state p: bf16[1000] ~ normal",
        "state m: f32[1000] ~ normal",
        "np: bf16[i: 1000] = bf16(f32(p[i]) - 0.1 * (m[i] + f32(g[i])))",
        "nm: f32[i: 1000] = 0.9 * m[i] + f32(g[i])", "d: f32[i: 1000] = f32(np[i]) - f32(p[i])",
        "s: f32[] = sum[i: 1000](d[i] * d[i])", "output s", "update p = np", "update m = nm"},
       {"rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 4 meeting: "
        "MEETING_SECOND_PASS }"},
       2,
       true},
      {"a gradient and the sum of its rows",
       {"input x: f32[300, 40] ~ normal", "y: f32[r: 300, c: 40] = max(x[r, c], 0)",
        "b: f32[c: 40] = sum[r: 300](max(x[r, c], 0))", "output y, b"},
       {"columns { split: 3 }", "columns { split: 1 register_vectors: 2 }", ""},
       2,
       false},
      {"rows that share a block, the last one short of company",
       {"state x: f32[13, 24] ~ normal", "y: f32[r: 13, k: 24] = x[r, k] * 2 + 1",
        "s: f32[r: 13] = sum[k: 24](x[r, k])", "output s", "update x = y"},
       {"rows { block_threads: 32 threads_per_row: 4 }",
        "rows { block_threads: 32 threads_per_row: 32 }"},
       1,
       false},
  };
  for (const auto& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (size_t k = 0; k < c.knobs.size(); ++k) {
      v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
      REQUIRE(schedule.groups_size() == 1);
      v1::Group knobs;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(c.knobs[k], &knobs));
      schedule.mutable_groups(0)->MergeFrom(knobs);
      INFO(c.what << ", " << c.knobs[k]);
      const auto plan = Lower(graph, schedule, TestTarget());
      INFO(plan.status().message());
      REQUIRE(plan.ok());
      if (k == 0) {
        const auto launches = std::count_if(plan->steps().begin(), plan->steps().end(),
                                            [](const v1::Step& step) { return step.has_launch(); });
        CHECK(static_cast<size_t>(launches) == c.launches);
        if (c.in_place) CHECK(plan->steps_size() == launches);  // nothing is copied
      }
      Check(graph, schedule, static_cast<int>(k) + 1);
    }
  }
}

}  // namespace
}  // namespace warpsmith::codegen
