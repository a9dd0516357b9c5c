// Sums of rows into places that keys name, on the host device against the oracle.
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

struct Case {
  const char* what;
  Lines graph;
};

const Case kCases[] = {
    {"rows of a table, keys twice and outside",
     {"input k: i64[60] ~ integers(-3, 14)", "input v: f32[60, 24] ~ normal",
      "y: f32[i: 9, j: 24] = sum[r: 60](select(k[r] == i, v[r, j], 0))", "output y"}},
    {"with the table that they are added to, and its type",
     {"input k: i64[40] ~ integers(0, 12)", "input v: f32[40, 16] ~ normal",
      "input t: f16[12, 16] ~ normal",
      "s: f32[i: 12, j: 16] = sum[r: 40](select(i == k[r], v[r, j], 0))",
      "y: f16[i: 12, j: 16] = f16(f32(t[i, j]) + s[i, j])", "output y"}},
    {"keys that wrap once, as PyTorch's do",
     {"input k: i64[2, 25] ~ integers(-7, 7)", "input v: f32[50, 7] ~ normal",
      "y: f32[i: 7, j: 7] = sum[r: 50](select(select(k[r / 25, r % 25] < 0, k[r / 25, r % 25] + 7, "
      "k[r / 25, r % 25]) == i, v[r, j], 0))",
      "output y"}},
    {"one element a place",
     {"input k: i64[300] ~ integers(0, 50)", "input v: f32[300] ~ normal",
      "y: f32[i: 50] = sum[r: 300](select(k[r] == i, v[r], 0))", "output y"}},
    {"how often",
     {"input k: i64[200] ~ integers(0, 40)", "y: i64[i: 37] = sum[r: 200](i64(k[r] == i))",
      "output y"}},
    {"batches with keys of their own",
     {"input k: i64[5, 30] ~ integers(-1, 9)", "input v: f32[5, 30, 8] ~ normal",
      "y: f32[b: 5, i: 8, j: 8] = sum[r: 30](select(k[b, r] == i, v[b, r, j], 0))", "output y"}},
    {"a batch that lies innermost",
     {"input k: i64[30, 6] ~ integers(0, 9)", "input v: f32[30, 6] ~ normal",
      "y: f32[i: 9, b: 6] = sum[r: 30](select(k[r, b] == i, v[r, b], 0))", "output y"}},
    {"places innermost",
     {"input k: i64[30] ~ integers(0, 9)", "input v: f32[6, 30] ~ normal",
      "y: f32[b: 6, i: 9] = sum[r: 30](select(k[r] == i, v[b, r], 0))", "output y"}},
    {"places of two axes",
     {"input k: i64[60] ~ integers(-1, 6)", "input l: i64[60] ~ integers(0, 9)",
      "input v: f32[60, 4] ~ normal",
      "y: f32[h: 5, w: 8, j: 4] = sum[r: 60](select(l[r] == w and k[r] == h, v[r, j], 0))",
      "output y"}},
    {"rows of two axes, some of which do not count",
     {"input k: i64[12, 5] ~ integers(0, 20)", "input m: f32[12, 5] ~ normal",
      "input v: f32[12, 5, 4] ~ normal",
      "y: f32[i: 20, j: 4] = sum[s: 12, t: 5](select(m[s, t] > 0, select(k[s, t] == i, v[s, t, j], "
      "0), 0))",
      "output y"}},
    {"the other branch, behind a cast",
     {"input k: i64[50] ~ integers(0, 20)", "input v: f16[50, 4] ~ normal",
      "y: f32[i: 20, j: 4] = sum[r: 50](f32(select(k[r] != i, f16(0), v[r, j])))", "output y"}},
    {"keys of 32 bits, some places away",
     {"input k: i32[50] ~ integers(0, 20)", "input v: f32[50, 4] ~ normal",
      "y: f32[i: 10, j: 4] = sum[r: 50](select(k[r] == i32(i + 6), v[r, j], 0))", "output y"}},
    {"keys that overflow where they are moved",
     {"input k: i64[50] ~ integers(0, 9)", "input v: f32[50, 4] ~ normal",
      "y: f32[i: 9, j: 4] = sum[r: 50](select(k[r] * 9223372036854775807 == i + 1, v[r, j], 0))",
      "output y"}},
    {"places that indexes alone name",
     {"input v: f32[60, 4] ~ normal",
      "y: f32[i: 20, j: 4] = sum[r: 60](select(r * 7 % 23 == i, v[r, j], 0))", "output y"}},
    {"a condition on what is added, and the place in it",
     {"input k: i64[50] ~ integers(0, 9)", "input v: f32[50, 4] ~ normal",
      "input w: f32[9] ~ normal",
      "y: f32[i: 9, j: 4] = sum[r: 50](select(k[r] == i and v[r, j] > 0, v[r, j] * w[i], 0))",
      "output y"}},
    {"two sums by the same keys",
     {"input k: i64[70] ~ integers(0, 9)", "input v: f32[70, 4] ~ normal",
      "s: f32[i: 9, j: 4] = sum[r: 70](select(k[r] == i, v[r, j], 0))",
      "q: f32[i: 9, j: 4] = sum[r: 70](select(k[r] == i, v[r, j] * v[r, j], 0))",
      "y: f32[i: 9, j: 4] = q[i, j] - s[i, j] * s[i, j]", "output y, s"}},
    {"integers and doubles",
     {"input k: i64[50] ~ integers(0, 9)", "input v: f64[50, 4] ~ normal",
      "input n: i8[50, 4] ~ integers(-128, 127)",
      "y: f64[i: 9, j: 4] = sum[r: 50](select(k[r] == i, v[r, j], 0))",
      "z: i8[i: 9, j: 4] = sum[r: 50](select(k[r] == i, n[r, j], 0))", "output y, z"}},
    {"rows that are made on the way",
     {"input k: i64[40] ~ integers(0, 9)", "input v: f32[40, 8] ~ normal",
      "m: f32[r: 40] = sum[j: 8](v[r, j])", "c: f32[r: 40, j: 8] = exp(v[r, j] - m[r] / 8)",
      "y: f32[i: 9, j: 8] = sum[r: 40](select(k[r] == i, c[r, j], 0))", "output y"}},
    {"one list that has nearly all",
     {"input k: i64[900] ~ integers(-8, 3)", "input v: f32[900, 4] ~ normal",
      "y: f32[i: 40, j: 4] = sum[r: 900](select(select(k[r] < 0, 17, k[r]) == i, v[r, j], 0))",
      "output y"}},
    {"long lists in batches, of which some rows count nowhere",
     {"input k: i64[3, 500] ~ integers(-2, 3)", "input v: f32[3, 500, 2] ~ normal",
      "y: f32[b: 3, i: 2, j: 2] = sum[r: 500](select(k[b, r] == i, v[b, r, j], 0))", "output y"}},
    {"more rows than a tile of keys has",
     {"input k: i64[5000] ~ integers(0, 100)", "input v: f32[5000] ~ normal",
      "y: f32[i: 100] = sum[r: 5000](select(k[r] == i, v[r], 0))", "output y"}},
    {"a state that rows are added to in its place",
     {"inout t: f32[12, 8] ~ normal", "input k: i64[40] ~ integers(0, 12)",
      "input v: f32[40, 8] ~ normal",
      "s: f32[i: 12, j: 8] = sum[r: 40](select(k[r] == i, v[r, j], 0))",
      "new: f32[i: 12, j: 8] = t[i, j] + s[i, j]", "update t = new"}},
};

// What is written in one kernel; rows that a reduce makes are made before.
v1::Schedule Scattered(const graph::Graph& graph, const v1::Group& knobs) {
  v1::Schedule schedule;
  std::vector<int> results = graph.outputs;
  for (const auto& update : graph.updates) results.push_back(update.value);
  for (int tensor = 0; tensor < static_cast<int>(graph.tensors.size()); ++tensor) {
    const graph::Tensor& t = graph.tensors[tensor];
    if (t.name == "m" && t.node >= 0) schedule.add_groups()->add_roots(t.name);
  }
  for (int result : results) {
    // Of several types each has a kernel.
    const bool apart = graph.tensors[result].name == "z";
    if (schedule.groups_size() == 0 || !schedule.groups().rbegin()->has_scatter() || apart)
      *schedule.add_groups() = knobs;
    schedule.mutable_groups()->rbegin()->add_roots(graph.tensors[result].name);
  }
  return schedule;
}

TEST_CASE("rows are added to the places that they name", "[codegen]") {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Case& c : kCases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* knobs :
         {"scatter { block_threads: 64 }", "scatter { block_threads: 32 part_rows: 8 unroll: 4 }",
          "scatter { vector_bytes: 4 part_rows: 65536 } precision { accumulator: ACCUMULATOR_F64 "
          "}"}) {
      v1::Group group;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &group));
      trials.push_back({graph, Scattered(graph, group), 3});
      names.push_back(absl::StrCat(c.what, ": ", knobs));
    }
  }
  const std::vector<absl::Status> results = RunAndCompareAll(trials);
  for (size_t t = 0; t < trials.size(); ++t) {
    INFO(names[t] << "\n" << results[t].message());
    CHECK(results[t].ok());
  }
}

TEST_CASE("what is not selected may be anything", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input k: i64[60] ~ integers(0, 30)", "input v: f32[60, 8] ~ normal",
                  "y: f32[i: 9, j: 8] = sum[r: 60](select(k[r] == i, v[r, j], 0))", "output y"});
  v1::Schedule schedule;
  schedule.add_groups()->add_roots("y");
  schedule.mutable_groups(0)->mutable_scatter();
  const std::vector<absl::Status> results = RunAndCompareAll({{graph, schedule, 5, true}});
  INFO(results[0].message());
  CHECK(results[0].ok());
}

TEST_CASE("random graphs with rows that are added to places", "[codegen]") {
  graph::RandomGraphOptions options;
  options.scatters = true;
  options.max_elements = 1024;
  const char* const knobs[] = {"", "part_rows: 8", "vector_bytes: 4 block_threads: 32 unroll: 2"};
  std::vector<Trial> trials;
  int scatters = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Trial trial{graph::RandomGraph(seed, options), {}, seed};
    trial.schedule = seed % 2 == 0 ? OpByOpSchedule(trial.graph, TestTarget())
                                   : DefaultSchedule(trial.graph, TestTarget());
    for (int g = 0; g < trial.schedule.groups_size(); ++g) {
      v1::Schedule changed = trial.schedule;
      v1::ScatterKnobs* const own = changed.mutable_groups(g)->mutable_scatter();
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs[seed % 3], own));
      if (!Lower(trial.graph, changed, TestTarget()).ok()) continue;
      trial.schedule = changed;
      ++scatters;
    }
    trials.push_back(std::move(trial));
  }
  CHECK(scatters >= 12);
  const std::vector<absl::Status> results = RunAndCompareAll(trials);
  for (size_t t = 0; t < trials.size(); ++t) {
    INFO(absl::StrJoin(graph::Print(trials[t].graph), "\n") << "\n"
                                                            << trials[t].schedule.DebugString());
    INFO(results[t].message());
    CHECK(results[t].ok());
  }
}

TEST_CASE("what is no scatter", "[codegen]") {
  const Case cases[] = {
      {"no keys", {"input x: f32[4, 8] ~ normal", "y: f32[r: 4] = sum[c: 8](x[r, c])", "output y"}},
      {"another value elsewhere",
       {"input k: i64[50] ~ integers(0, 9)", "input v: f32[50] ~ normal",
        "y: f32[i: 9] = sum[r: 50](select(k[r] == i, v[r], 1))", "output y"}},
      {"places that are less than the key",
       {"input k: i64[50] ~ integers(0, 9)", "input v: f32[50] ~ normal",
        "y: f32[i: 9] = sum[r: 50](select(i < k[r], v[r], 0))", "output y"}},
      {"the largest",
       {"input k: i64[50] ~ integers(0, 9)", "input v: f32[50] ~ normal",
        "y: f32[i: 9] = max[r: 50](select(k[r] == i, v[r], 0))", "output y"}},
      {"keys by the place itself",
       {"input k: i64[50, 9] ~ integers(0, 9)", "input v: f32[50] ~ normal",
        "y: f32[i: 9] = sum[r: 50](select(k[r, i] == i, v[r], 0))", "output y"}},
  };
  for (const Case& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    v1::Schedule schedule;
    schedule.add_groups()->add_roots("y");
    schedule.mutable_groups(0)->mutable_scatter();
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(c.what << ": " << plan.status().message());
    CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

v1::Group::SkeletonCase DefaultOf(const Lines& lines) {
  const graph::Graph graph = ParseOrDie(lines);
  const v1::Schedule schedule = DefaultSchedule(graph, Target());
  const auto infos = Describe(graph, schedule, Target());
  INFO(infos.status().message() << schedule.DebugString());
  REQUIRE(infos.ok());
  REQUIRE(infos->size() == 1);
  return infos->front().skeleton;
}

TEST_CASE("many rows are listed, few are looked through", "[codegen]") {
  CHECK(DefaultOf({"input k: i64[1688] ~ integers(0, 65536)", "input v: bf16[1688, 4096] ~ normal",
                   "s: f32[i: 65536, j: 4096] = sum[r: 1688](select(k[r] == i, f32(v[r, j]), 0))",
                   "z: f32[i: 65536, j: 4096] = 0",
                   "y: bf16[i: 65536, j: 4096] = bf16(z[i, j] + s[i, j])", "output y"}) ==
        v1::Group::kScatter);
  CHECK(DefaultOf({"input k: i64[64, 8] ~ integers(0, 128)", "input v: f32[64, 8] ~ normal",
                   "y: f32[b: 64, i: 128] = sum[r: 8](select(k[b, r] == i, v[b, r], 0))",
                   "output y"}) != v1::Group::kScatter);
}

}  // namespace
}  // namespace warpsmith::codegen
