// What is generated, run on the host device against the oracle: random graphs under default and
// random schedules, and graphs that reach each skeleton's corners.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/random_schedule.h"
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

// Cases by default; WARPSMITH_CODEGEN_CASES multiplies them.
int Cases(int n) {
  const char* more = std::getenv("WARPSMITH_CODEGEN_CASES");
  return more != nullptr ? n * std::atoi(more) : n;
}

void Check(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed) {
  const absl::Status status = RunAndCompare(graph, schedule, seed);
  INFO(absl::StrJoin(graph::Print(graph), "\n") << "\n" << schedule.DebugString());
  INFO(status.message());
  CHECK(status.ok());
}

TEST_CASE("random graphs under the default schedule", "[codegen]") {
  for (int seed = 1; seed <= Cases(25); ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed);
    Check(graph, DefaultSchedule(graph, TestTarget()), seed);
  }
}

TEST_CASE("random graphs node by node", "[codegen]") {
  for (int seed = 1001; seed <= 1000 + Cases(6); ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed);
    Check(graph, OpByOpSchedule(graph, TestTarget()), seed);
  }
}

TEST_CASE("random graphs under random knobs and rewrites", "[codegen]") {
  int lowered = 0, refused = 0;
  for (int seed = 2001; lowered < Cases(40); ++seed) {
    Random random(seed);
    const graph::Graph graph = graph::RandomGraph(seed);
    v1::Schedule schedule;
    for (const std::string& rewrite : ApplicableRewrites(graph)) {
      if (random.OneIn(2)) schedule.add_rewrites(rewrite);
    }
    const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
    *schedule.mutable_groups() = DefaultSchedule(rewritten, TestTarget()).groups();
    schedule.mutable_launch()->set_programmatic(random.OneIn(2));
    const auto infos = Describe(rewritten, schedule, TestTarget());
    INFO(infos.status().message());
    REQUIRE(infos.ok());
    bool changed = false;
    for (int g = 0; g < schedule.groups_size(); ++g) {
      for (int attempt = 0; attempt < 20; ++attempt) {
        v1::Schedule trial = schedule;
        *trial.mutable_groups(g) = RandomKnobs(schedule.groups(g), (*infos)[g], random);
        const auto plan = Lower(rewritten, trial, TestTarget());
        if (plan.ok()) {
          schedule = trial;
          changed = true;
          break;
        }
        ++refused;
        // Refusals are of the schedule, and say which group and knob.
        INFO(plan.status().message());
        CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
        CHECK(absl::StrContains(plan.status().message(), "group '"));
      }
    }
    if (!changed) continue;
    ++lowered;
    Check(graph, schedule, seed);
  }
  CHECK(refused > 0);
}

struct Corner {
  const char* name;
  Lines graph;
  std::vector<const char*> knobs;  // text format, merged into every group
};

TEST_CASE("corners of the skeletons", "[codegen]") {
  const Lines softmax = {"input x: f32[7, 1003] ~ normal", "m: f32[r: 7] = max[c: 1003](x[r, c])",
                         "s: f32[r: 7] = sum[c: 1003](exp(x[r, c] - m[r]))",
                         "y: f32[r: 7, c: 1003] = exp(x[r, c] - m[r]) / s[r]", "output y"};
  const Lines norm = {
      "input x: f32[3, 4096] ~ normal(2, 1)",
      "param w: f32[4096] ~ normal",
      "t: f32[r: 3] = sum[c: 4096](x[r, c])",
      "mean: f32[r: 3] = t[r] / 4096",
      "q: f32[r: 3] = sum[c: 4096]((x[r, c] - mean[r]) * (x[r, c] - mean[r]))",
      "y: f32[r: 3, c: 4096] = (x[r, c] - mean[r]) * rsqrt(q[r] / 4096 + 1e-5) * w[c]",
      "output y, mean"};
  const Lines group_norm = {"input x: f32[2, 12, 40] ~ normal",
                            "param w: f32[12] ~ normal",
                            "t: f32[n: 2, g: 3] = sum[d: 4, p: 40](x[n, g * 4 + d, p])",
                            "q: f32[n: 2, g: 3] = sum[d: 4, p: 40]((x[n, g * 4 + d, p] - t[n, g] / "
                            "160) * (x[n, g * 4 + d, p] - t[n, g] / 160))",
                            "y: f32[n: 2, c: 12, p: 40] = (x[n, c, p] - t[n, c / 4] / 160) * "
                            "rsqrt(q[n, c / 4] / 160 + 1e-5) * w[c]",
                            "output y"};
  const Lines batch_norm = {"input x: f32[5, 6, 36] ~ normal",
                            "state running: f32[6] ~ normal",
                            "state steps: i64 ~ constant(3)",
                            "t: f32[c: 6] = sum[n: 5, p: 36](x[n, c, p])",
                            "mean: f32[c: 6] = t[c] / 180",
                            "y: f32[n: 5, c: 6, p: 36] = x[n, c, p] - mean[c]",
                            "now: f32[c: 6] = 0.9 * running[c] + 0.1 * mean[c]",
                            "next: i64 = steps[] + 1",
                            "output y",
                            "update running = now",
                            "update steps = next"};
  const Lines columns = {
      "input x: f32[3, 50, 24] ~ normal", "m: f32[a: 3, c: 24] = max[k: 50](x[a, k, c])",
      "s: f32[a: 3, c: 24] = sum[k: 50](exp(x[a, k, c] - m[a, c]))",
      "y: f32[a: 3, k: 50, c: 24] = x[a, k, c] - m[a, c] - log(s[a, c])", "output y"};
  const Lines column_sum = {"input x: f32[2, 300, 20] ~ normal",
                            "v, i: f32[a: 2, c: 20] = argmax[k: 300](x[a, k, c])", "output v, i"};
  const Lines total = {"input x: f32[50000] ~ normal", "t: f32 = sum[k: 50000](x[k] * x[k])",
                       "y: f32 = sqrt(t[])", "output y"};
  const Lines argmin = {"input x: f32[9, 513] ~ integers(0, 9)",
                        "v, i: f32[r: 9] = argmin[c: 513](x[r, c])", "output i, v"};
  const Lines ragged = {"input x: f32[37, 131] ~ normal",
                        "s: f32[r: 37] = sum[c: 131](abs(x[r, c]))",
                        "y: f32[r: 37, c: 131] = x[r, c] / s[r]", "output y"};
  const Lines pool = {"input x: f32[2, 3, 19, 22] ~ normal",
                      "y: f32[n: 2, c: 3, h: 18, w: 21] = max[p: 4, q: 4](select(0 <= h + p - 1 "
                      "and h + p - 1 < 19 and 0 <= w + q - 1 and "
                      "w + q - 1 < 22, x[n, c, h + p - 1, w + q - 1], -inf))",
                      "output y"};
  const Lines pool3 = {"input x: f32[1, 2, 9, 10, 12] ~ normal",
                       "s: f32[n: 1, c: 2, d: 5, h: 5, w: 6] = sum[i: 3, j: 3, k: 3](select(0 <= d "
                       "* 2 + i - 1 and d * 2 + i - 1 < 9 and 0 <= h * 2 + j - 1 "
                       "and h * 2 + j - 1 < 10 and 0 <= w * 2 + k - 1 and w * 2 + k - 1 < 12, x[n, "
                       "c, d * 2 + i - 1, h * 2 + j - 1, w * 2 + k - 1], 0))",
                       "y: f32[n: 1, c: 2, d: 5, h: 5, w: 6] = s[n, c, d, h, w] / 27", "output y"};
  const Lines pool1 = {"input x: f32[3, 90] ~ normal",
                       "y: f32[r: 3, c: 77] = max[q: 8](select(0 <= c + q * 3 - 4 and c + q * 3 - "
                       "4 < 90, x[r, c + q * 3 - 4], -inf))",
                       "output y"};
  const Lines pool_and_more = {
      "input x: f32[2, 3, 20, 150] ~ normal",
      "r: f32[n: 2, c: 3, h: 20, w: 150] = max(x[n, c, h, w], 0)",
      "y: f32[n: 2, c: 3, h: 18, w: 143] = sum[p: 3, q: 4](r[n, c, h + p, w + q * 2 + 1])",
      "z: f32[n: 2, c: 3, h: 18, w: 143] = y[n, c, h, w] / 12 + r[n, c, h, w]", "output z"};
  const Lines pool_long = {"input x: f32[5, 1200] ~ normal",
                           "y: f32[r: 5, c: 1175] = sum[q: 7](x[r, c + q * 4 + 1])", "output y"};
  const Lines dilated = {"input x: f32[1, 2, 27, 28, 40] ~ normal",
                         "y: f32[n: 1, c: 2, d: 11, h: 11, w: 18] = max[i: 3, j: 3, k: 3](select(0 "
                         "<= d * 2 + i * 3 - 1 and 0 <= h * 2 + j * 3 "
                         "- 1 and 0 <= w * 2 + k * 3 - 1, x[n, c, d * 2 + i * 3 - 1, h * 2 + j * 3 "
                         "- 1, w * 2 + k * 3 - 1], -inf))",
                         "output y"};
  const Lines halved = {"input x: f32[3, 24, 40] ~ normal",
                        "y: f32[n: 3, h: 12, w: 20] = max[i: 2, j: 2](x[n, h * 2 + i, w * 2 + j])",
                        "z: f32[n: 3, h: 12, w: 20] = y[n, h, w] * 2", "output z"};
  const Lines half = {"input x: f16[6, 200] ~ normal", "m: f32[r: 6] = max[c: 200](f32(x[r, c]))",
                      "s: f32[r: 6] = sum[c: 200](exp(f32(x[r, c]) - m[r]))",
                      "y: f16[r: 6, c: 200] = f16(exp(f32(x[r, c]) - m[r]) / s[r])", "output y"};
  const Corner corners[] = {
      {"softmax of ragged rows",
       softmax,
       {"", "rows { online: true }",
        "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 4 meeting: MEETING_COUNTER "
        "blocks_per_sm: 2 register_vectors: 1 shared_vectors: 1 }",
        "rows { block_threads: 32 threads_per_row: 32 blocks_per_row: 2 meeting: MEETING_CLUSTER "
        "online: true }",
        "rows { block_threads: 128 threads_per_row: 16 blocks_per_sm: 1 shared_vectors: 3 }",
        "rows { vector_bytes: 4 } precision { accumulator: ACCUMULATOR_COMPENSATED }"}},
      {"norm with weights along the row",
       norm,
       {"",
        "rows { block_threads: 128 threads_per_row: 128 blocks_per_row: 8 meeting: MEETING_COUNTER "
        "blocks_per_sm: 2 }",
        "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 4 meeting: MEETING_CLUSTER "
        "blocks_per_sm: 1 shared_vectors: 2 }",
        "rows { block_threads: 64 threads_per_row: 64 rows_at_once: 2 register_vectors: 2 "
        "shared_vectors: 2 }",
        "rows { rows_at_once: 2 block_threads: 64 threads_per_row: 64 blocks_per_row: 4 meeting: "
        "MEETING_COUNTER blocks_per_sm: 2 }"}},
      {"group norm by position",
       group_norm,
       {"", "rows { block_threads: 64 threads_per_row: 32 blocks_per_sm: 1 }"}},
      {"batch norm with states", batch_norm, {"", "rows { block_threads: 32 }"}},
      {"log softmax over columns",
       columns,
       {"", "columns { online: true }",
        "columns { block_threads: 64 thread_rows: 16 blocks_per_sm: 1 register_vectors: 2 }",
        "columns { vector_bytes: 4 }"}},
      {"argmax over columns, split",
       column_sum,
       {"", "columns { block_threads: 64 thread_rows: 8 split: 5 }",
        "columns { block_threads: 32 thread_rows: 1 split: 1 }"}},
      {"a whole tensor in two passes",
       total,
       {"",
        "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 12 meeting: "
        "MEETING_SECOND_PASS } precision { accumulator: ACCUMULATOR_F64 }",
        "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 8 meeting: MEETING_COUNTER "
        "blocks_per_sm: 2 }"}},
      {"argmin with ties",
       argmin,
       {"",
        "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 meeting: "
        "MEETING_SECOND_PASS }"}},
      {"ragged rows",
       ragged,
       {"", "rows { block_threads: 64 threads_per_row: 8 }", "rows { vector_bytes: 8 }"}},
      {"window of two axes",
       pool,
       {"", "window { outputs: 5 }", "window { outputs: 4 vector_bytes: 16 }",
        "window { outputs: 1 vector_bytes: 8 }"}},
      {"window of three axes",
       pool3,
       {"", "window { outputs: 3 }", "window { outputs: 2 vector_bytes: 8 }"}},
      {"window of one axis", pool1, {"", "window { outputs: 6 }"}},
      {"window with maps around it",
       pool_and_more,
       {"", "window { vector_bytes: 8 outputs: 5 }", "window { vector_bytes: 4 outputs: 3 }"}},
      {"long window of one axis",
       pool_long,
       {"", "window { vector_bytes: 8 }", "window { vector_bytes: 4 }"}},
      {"16-bit elements",
       half,
       {"", "rows { shared_vectors: 1 register_vectors: 1 block_threads: 32 threads_per_row: 8 }"}},
  };
  for (const Corner& corner : corners) {
    const graph::Graph graph = ParseOrDie(corner.graph);
    for (const char* knobs : corner.knobs) {
      INFO(corner.name << ": " << knobs);
      v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      // Knobs are for the reduction; maps around it keep their defaults.
      const auto infos = Describe(graph, schedule, TestTarget());
      REQUIRE(infos.ok());
      for (int g = 0; g < schedule.groups_size(); ++g) {
        const GroupInfo& info = (*infos)[g];
        if (info.reduces) schedule.mutable_groups(g)->MergeFrom(merged);
      }
      Check(graph, schedule, 5);
    }
  }
}

TEST_CASE("maps: views, broadcasts, gathers, types", "[codegen]") {
  const Lines graphs[] = {
      {"input x: f32[6, 8] ~ normal", "y: f32[i: 8, j: 6] = x[j, i]", "output y"},
      {"input x: f32[6, 8] ~ normal", "y: f32[i: 48] = x[i / 8, i % 8]",
       "z: f32[i: 48] = exp(y[i])", "output z, y"},
      {"input x: f32[3, 7] ~ normal",
       "y: f32[i: 3, j: 9] = select(1 <= j and j < 8, x[i, j - 1], 0)", "output y"},
      {"input x: f32[5, 12] ~ normal", "input w: f32[12] ~ normal",
       "y: f32[i: 5, j: 12] = x[i, 11 - j] * w[j]", "output y"},
      {"input t: f32[20, 6] ~ normal", "input n: i64[9] ~ integers(0, 20)",
       "y: f32[i: 9, j: 6] = t[n[i], j]", "output y"},
      {"input x: bf16[40] ~ normal", "y: f32[i: 40] = f32(x[i]) * 2", "b: bool[i: 40] = y[i] < 0",
       "output y, b"},
      {"input x: f32[30] ~ normal", "k: i64[i: 30] = i * i % 7",
       "y: f32[i: 30] = x[k[i]] + f32(k[i])", "output y, k"},
      {"input x: i32[16] ~ integers(-50, 50)", "y: i32[i: 16] = x[i] / 7 * 3 + x[i] % 7",
       "output y"},
      {"input x: i8[130] ~ integers(-128, 128)", "input b: u8[130] ~ integers(0, 256)",
       "w: i8[i: 130] = x[i] * x[i] + 100 - abs(x[i]) / -3 % 5 + i8(b[i])",
       "v: u8[i: 130] = b[i] * b[i] - 7 + max(b[i], 3) / 2 + -b[i]",
       "y: f32[i: 130] = f32(x[i]) * 0.5 + f32(b[i])", "c: bool[i: 130] = x[i] < 0 or b[i] == 7",
       "output w, v, y, c"},
      {"input x: f32[70] ~ normal(0, 200)", "q: i8[i: 70] = i8(round(x[i]))",
       "r: u8[i: 70] = u8(log(x[i]) * 50)", "t: i8[i: 70] = i8(i * 3)", "output q, r, t"},
      {"input t: bf16[256, 24] ~ normal", "input n: u8[33] ~ integers(0, 256)",
       "y: bf16[i: 33, j: 24] = t[i64(n[i]), j]", "output y"},
      {"input x: i8[9, 100] ~ integers(-128, 128)", "input b: u8[9, 100] ~ integers(0, 256)",
       "s: i8[r: 9] = sum[c: 100](x[r, c])", "p: u8[r: 9] = prod[c: 100](b[r, c] * 2 + 1)",
       "m, n: i8[r: 9] = argmin[c: 100](x[r, c])", "k: u8[c: 100] = max[r: 9](b[r, c])",
       "z: i8[r: 9, c: 100] = x[r, c] - s[r] + m[r]", "output s, p, m, n, k, z"},
      {"input x: f32[4, 4] ~ normal", "output x"},
      {"input x: f32[33] ~ normal",
       "a: f32[i: 33] = pow(x[i], 2) + pow(abs(x[i]), 0.5) + pow(x[i], 3)", "output a"},
      {"state a: f32[8] ~ normal", "state b: f32[8] ~ normal", "na: f32[i: 8] = b[i] * 2",
       "nb: f32[i: 8] = a[i] + 1", "output na", "update a = na", "update b = nb"},
  };
  int number = 0;
  for (const Lines& lines : graphs) {
    const graph::Graph graph = ParseOrDie(lines);
    Check(graph, DefaultSchedule(graph, TestTarget()), ++number);
  }
}

TEST_CASE("NaN and infinities go through reductions", "[codegen]") {
  const Lines lines = {"input x: f32[4, 70] ~ normal",
                       "z: f32[r: 4, c: 70] = select(r == 1 and c == 33, nan, select(r == 2, -inf, "
                       "select(r == 3 and c == 5, inf, x[r, c])))",
                       "m: f32[r: 4] = max[c: 70](z[r, c])",
                       "v, i: f32[r: 4] = argmax[c: 70](z[r, c])",
                       "s: f32[r: 4] = sum[c: 70](exp(z[r, c] - m[r]))",
                       "output m, v, i, s"};
  const graph::Graph graph = ParseOrDie(lines);
  for (const char* knobs : {"", "rows { online: true }"}) {
    v1::Schedule schedule;
    v1::Group* group = schedule.add_groups();
    REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, group));
    for (const char* root : {"m", "v", "i", "s"}) group->add_roots(root);
    Check(graph, schedule, 3);
  }
}

// Graphs whose indexes are larger than their tensors, whose maps stand between what is joined, and
// whose windows are beside loops: each was wrong once.
TEST_CASE("large indexes and joined reduces and windows beside loops", "[codegen]") {
  const Corner cases[] = {
      {"positions as numbers beyond an int",
       {"input x: f32[30] ~ normal", "k: i64[i: 30] = i * 100000000",
        "y: f32[i: 30] = f32(i * 100000000) / 1000000000 + x[i]",
        "z: f32[i: 30] = select(i * 200000000 < 3000000000, x[i], 0)", "output k, y, z"},
       {""}},
      {"positions of rows as numbers beyond an int",
       {"input x: f32[30, 64] ~ normal", "s: f32[r: 30] = sum[c: 64](x[r, c])",
        "t: f32[r: 30] = s[r] + f32(r * 100000000) / 1000000000",
        "y: f32[r: 30, c: 64] = x[r, c] - s[r] + f32(r * 100000000 + c) / 1000000000",
        "output y, t"},
       {""}},
      {"positions of columns as numbers beyond an int",
       {"input x: f32[30, 64] ~ normal", "s: f32[c: 64] = sum[r: 30](x[r, c])",
        "y: f32[r: 30, c: 64] = x[r, c] - s[c] + f32(r * 100000000 + c * 100000000) / 1000000000",
        "output y"},
       {""}},
      {"online with maps between the maximum and the sum",
       {"input x: f32[9, 200] ~ normal", "m: f32[r: 9] = max[c: 200](x[r, c])",
        "d: f32[r: 9, c: 200] = x[r, c] - m[r]", "e: f32[r: 9, c: 200] = exp(d[r, c])",
        "s: f32[r: 9] = sum[c: 200](e[r, c])", "y: f32[r: 9, c: 200] = e[r, c] / s[r]", "output y"},
       {"rows { online: true }"}},
      {"online with two sums of one maximum",
       {"input x: f32[9, 200] ~ normal", "m: f32[r: 9] = max[c: 200](x[r, c])",
        "e: f32[r: 9, c: 200] = exp(x[r, c] - m[r])", "s: f32[r: 9] = sum[c: 200](e[r, c])",
        "t: f32[r: 9] = sum[c: 200](exp(x[r, c] - m[r]))",
        "y: f32[r: 9, c: 200] = e[r, c] / s[r] + t[r]", "output y"},
       {"rows { online: true }"}},
      {"a window beside loops over the same elements",
       {"input x: f16[840] ~ normal",
        "r: f32[i: 420] = max[k: 4](select(0 <= i * 2 + k - 1 and i * 2 + k - 1 < 840, f32(x[i * 2 "
        "+ k - 1]), -inf))",
        "t: f32 = max[k: 420](r[k])", "y: f32[i: 420] = r[i] - t[]", "output y"},
       {"window { outputs: 2 vector_bytes: 1 }"}},
      {"a window with small results of wide elements",
       {"input x: f32[4, 57, 113] ~ normal",
        "p: f32[n: 4, h: 8, w: 16] = max[i: 8, j: 8](x[n, h * 7 + i, w * 7 + j])",
        "y: f64[n: 4, h: 8, w: 16] = f64(p[n, h, w])", "output y"},
       {"window { vector_bytes: 16 outputs: 2 }"}},
  };
  for (const Corner& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* knobs : c.knobs) {
      INFO(c.name << ": " << knobs);
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
      if (merged.skeleton_case() != v1::Group::SKELETON_NOT_SET && schedule.groups_size() > 1) {
        schedule.clear_groups();
        for (int output : graph.outputs)
          schedule.add_groups()->add_roots(graph.tensors[output].name);
      }
      for (auto& group : *schedule.mutable_groups()) group.MergeFrom(merged);
      Check(graph, schedule, 7);
    }
  }
}

// Too large to run here: what must not be computed in an int.
TEST_CASE("indexes that an int does not hold", "[codegen]") {
  struct Case {
    Lines graph;
    const char* knobs;
    bool wide;
  };
  const Case cases[] = {
      {{"input x: f32[4294967296] ~ normal", "y: f32[i: 4294967296] = x[i] * 2", "output y"},
       "",
       true},
      {{"input x: f32[2000, 1000000] ~ normal", "s: f32[c: 1000000] = sum[k: 2000](x[k, c])",
        "output s"},
       "columns { split: 1000 }",
       false},
      // Partial results: 4096 for each column.
      {{"input x: f32[2000, 1000000] ~ normal", "s: f32[c: 1000000] = sum[k: 2000](x[k, c])",
        "output s"},
       "columns { split: 4096 }",
       true},
      // Small once it is divided.
      {{"input x: f32[70000, 40000] ~ normal", "input q: f32[5] ~ normal",
        "s: f32[r: 70000] = sum[k: 40000](x[r, k])",
        "y: f32[r: 70000, k: 40000] = x[r, k] - s[r] * q[(r * 40000 + k) / 7 % 5]", "output y"},
       "",
       true},
  };
  for (const Case& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    v1::Schedule schedule = DefaultSchedule(graph, Target{});
    v1::Group merged;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(c.knobs, &merged));
    schedule.mutable_groups(0)->MergeFrom(merged);
    const auto plan = Lower(graph, schedule, Target{});
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    INFO(plan->source());
    CHECK(absl::StrContains(plan->source(), "using Index = long long;") == c.wide);
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

// Blocks' partial results of two sums lie side by side.
TEST_CASE("two sums of one column", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: i32[96] ~ integers(-20, 20)", "a: i32 = sum[k: 96](x[k])",
                  "b: i32 = sum[k: 96](x[k] * x[k])", "output a, b"});
  v1::Schedule schedule;
  v1::Group& group = *schedule.add_groups();
  REQUIRE(google::protobuf::TextFormat::ParseFromString(
      "roots: ['a', 'b'] columns { block_threads: 32 thread_rows: 8 split: 8 }", &group));
  Check(graph, schedule, 1);
}

TEST_CASE("what a stage computes is carried along or computed again", "[codegen]") {
  for (const int columns : {300, 257, 64, 8}) {
    const graph::Graph graph = ParseOrDie(
        {absl::StrCat("input x: bf16[37, ", columns, "] ~ normal(0, 4)"),
         absl::StrCat("z: f32[r: 37, c: ", columns,
                      "] = select(c <= r * 9, 5 * tanh(f32(x[r, c]) / 5), -inf)"),
         absl::StrCat("m: f32[r: 37] = max[c: ", columns, "](z[r, c])"),
         absl::StrCat("s: f32[r: 37] = sum[c: ", columns, "](exp(z[r, c] - m[r]))"),
         absl::StrCat("y: f32[r: 37, c: ", columns, "] = exp(z[r, c] - m[r]) / s[r]"), "output y"});
    for (const char* knobs :
         {"rows { results: RESULTS_CARRIED }", "rows { results: RESULTS_AGAIN }",
          "rows { results: RESULTS_CARRIED block_threads: 64 threads_per_row: 16 blocks_per_sm: 2 "
          "}",
          "rows { results: RESULTS_CARRIED register_vectors: 1 shared_vectors: 1 }"}) {
      v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      REQUIRE(schedule.groups_size() == 1);
      schedule.mutable_groups(0)->MergeFrom(merged);
      INFO(columns << " columns, " << knobs);
      Check(graph, schedule, columns);
    }
  }
}

// A softmax over scores and a sink behind them: the concatenation needs no memory of its own.
TEST_CASE("first schedules have the rewrites that cost no accuracy where they save time",
          "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[64, 3000] ~ normal", "input sink: f32[64] ~ normal",
       "z: f32[r: 64, c: 3001] = select(c < 3000, x[r, c], sink[r])",
       "m: f32[r: 64] = max[c: 3001](z[r, c])", "s: f32[r: 64] = sum[c: 3001](exp(z[r, c] - m[r]))",
       "y: f32[r: 64, c: 3000] = exp(x[r, c] - m[r]) / s[r]", "output y"});
  const v1::Schedule schedule = FirstSchedule(graph, Target{});
  CHECK(schedule.rewrites_size() == 1);
  CHECK(schedule.groups_size() == 1);
  Check(graph, FirstSchedule(graph, TestTarget()), 1);
}

TEST_CASE("maps read and write neighbours in few accesses", "[codegen]") {
  struct Case {
    const char* what;
    Lines lines;
    std::vector<const char*> has;
  };
  const Case cases[] = {
      {"halves of a row, rotated",
       {"input x: bf16[64, 128] ~ normal", "input c: f32[128] ~ normal",
        "r: f32[i: 64, j: 128] = select(j < 64, -f32(x[i, j + 64]), f32(x[i, j - 64]))",
        "y: bf16[i: 64, j: 128] = bf16(r[i, j] * c[j])", "output y"},
       {"ws::load<8, ws::bf16", "ws::load<8, float", "ws::store<8, ws::bf16"}},
      {"two values a byte, side by side",
       {"input x: u8[64, 64] ~ integers(0, 256)",
        "y: bf16[i: 64, j: 128] = bf16(f32(select(j % 2 == 0, i64(x[i, j / 2]) % 16, i64(x[i, j / "
        "2]) / 16)))",
        "output y"},
       {"ws::load<4, unsigned char", "ws::store<8, ws::bf16"}},
  };
  for (const Case& c : cases) {
    const graph::Graph graph = ParseOrDie(c.lines);
    const v1::Schedule schedule = DefaultSchedule(graph, Target{});
    const auto plan = Lower(graph, schedule, Target{});
    REQUIRE(plan.status().message() == "");
    INFO(c.what << "\n" << plan->source());
    for (const char* text : c.has) CHECK(absl::StrContains(plan->source(), text));
    Check(graph, schedule, 1);
  }
}

// Each value of a row twice what it is made of, where it is spelled: work must not double with it.
TEST_CASE("long chains of values of a row", "[codegen]") {
  constexpr int kLinks = 40;
  Lines lines = {"input x: f32[9, 200] ~ uniform(0, 0.01)", "a0: f32[r: 9] = sum[c: 200](x[r, c])"};
  for (int i = 1; i <= kLinks; ++i) {
    lines.push_back(absl::StrCat("a", i, ": f32[r: 9] = a", i - 1, "[r] * 0.5 + a", i - 1,
                                 "[r] * a", i - 1, "[r] * 0.1"));
  }
  lines.push_back(absl::StrCat("y: f32[r: 9, c: 200] = x[r, c] - a", kLinks, "[r]"));
  lines.push_back("output y");
  const graph::Graph graph = ParseOrDie(lines);
  v1::Schedule schedule;
  schedule.add_groups()->add_roots("y");
  Check(graph, schedule, 1);
}

TEST_CASE("what a schedule may not say", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[64, 512] ~ normal", "s: f32[r: 64] = sum[c: 512](x[r, c])",
       "y: f32[r: 64, c: 512] = x[r, c] / s[r]", "t: f32 = sum[r: 64](s[r])", "output y, t"});
  struct Case {
    const char* schedule;
    const char* message;
  };
  const Case cases[] = {
      {"groups { roots: 'y' }", "no group writes output 't'"},
      {"groups { roots: 'q' }", "no tensor 'q'"},
      {"groups { roots: 'x' }", "is an input"},
      {"groups { roots: ['y', 't'] }", "give it a group of its own"},
      {"groups { roots: ['y', 's'] } groups { roots: ['s', 't'] }", "written by group 0 already"},
      {"groups { roots: 'y' } groups { roots: 't' } groups { roots: 's' }",
       "put that group before it"},
      {"groups { roots: ['y', 's'] rows { vector_bytes: 12 } } groups { roots: 't' }",
       "1, 2, 4, 8 or 16"},
      {"groups { roots: ['y', 's'] rows { block_threads: 100 } } groups { roots: 't' }",
       "multiple of 32"},
      {"groups { roots: ['y', 's'] rows { block_threads: 4096 } } groups { roots: 't' }",
       "32 to 1024"},
      {"groups { roots: ['y', 's'] rows { unroll: -1 } } groups { roots: 't' }",
       "rows.unroll is -1"},
      {"groups { roots: ['y', 's'] rows { online: true } } groups { roots: 't' }", "online needs"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 "
       "meeting: MEETING_SECOND_PASS } } groups { roots: 't' }",
       "SECOND_PASS is for one meeting"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 9 "
       "meeting: MEETING_COUNTER blocks_per_sm: 4 } } groups { roots: 't' }",
       "power of two or a multiple of 32"},
      {"groups { roots: ['y', 's'] rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 64 "
       "meeting: MEETING_COUNTER blocks_per_sm: 1 } } groups { roots: 't' }",
       "2 to 4"},
      {"groups { roots: ['y', 's'] rows { shared_vectors: 64 block_threads: 512 } } groups { "
       "roots: 't' }",
       "shared memory"},
      {"groups { roots: ['y', 's'] rows { block_threads: 1024 blocks_per_sm: 3 } } groups { roots: "
       "'t' }",
       "2048 threads"},
      {"groups { roots: ['y', 's'] map {} } groups { roots: 't' }",
       "group 'y': roots 'y' and 's' of a map group have"},
      {"groups { roots: 's' } groups { roots: 'y' rows {} } groups { roots: 't' }",
       "group 'y': it has no reduce"},
      {"rewrites: 'fly:y' groups { roots: 'y' }", "unknown"},
      {"rewrites: 'single_pass_variance:s' groups { roots: 'y' }", "does not apply"},
  };
  for (const Case& c : cases) {
    v1::Schedule schedule;
    INFO(c.schedule);
    REQUIRE(google::protobuf::TextFormat::ParseFromString(c.schedule, &schedule));
    const absl::Status status = RunAndCompare(graph, schedule, 1);
    INFO(status.message());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), c.message));
  }
}

TEST_CASE("the same schedule gives the same bytes", "[codegen]") {
  for (int seed : {3, 14, 159}) {
    const graph::Graph graph = graph::RandomGraph(seed);
    const v1::Schedule schedule = DefaultSchedule(graph, Target{});
    const auto a = Lower(graph, schedule, Target{}), b = Lower(graph, schedule, Target{});
    REQUIRE(a.ok());
    CHECK(a->SerializeAsString() == b->SerializeAsString());
    CHECK(DefaultSchedule(graph, Target{}).SerializeAsString() == schedule.SerializeAsString());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
