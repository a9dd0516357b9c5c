// Graphs that reach the corners of skeletons and of index arithmetic, run on the host device
// against the oracle.
#include <google/protobuf/text_format.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

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
  // What is exponentiated is not what is read.
  const Lines held = {
      "input x: f32[5, 29, 42] ~ normal",
      "param b: f32[29] ~ normal",
      "m: f32[a: 5, c: 42] = max[k: 29](x[a, k, c] + b[k])",
      "s: f32[a: 5, c: 42] = sum[k: 29](exp(x[a, k, c] + b[k] - m[a, c]))",
      "y: f32[a: 5, k: 29, c: 42] = exp(x[a, k, c] + b[k] - m[a, c]) / s[a, c] * b[k]",
      "output y"};
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
      {"softmax over columns of five lines, held where all is kept",
       held,
       {"", "columns { block_threads: 64 thread_rows: 4 blocks_per_sm: 1 register_vectors: 8 }",
        "columns { block_threads: 64 thread_rows: 4 register_vectors: 7 }",
        "columns { block_threads: 32 thread_rows: 1 register_vectors: 29 vector_bytes: 4 }"}},
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
      // Two halves that each take much, of which all lanes of a vector want the same.
      {"input x: bf16[5, 48] ~ normal", "input g: bf16[5, 24] ~ normal",
       "u: f32[i: 5, j: 24] = f32(x[i, j])", "e: f32[i: 5, j: 24] = erf(u[i, j] * 0.7)",
       "a: f32[i: 5, j: 24] = f32(g[i, j]) * f32(x[i, j + 24]) * (e[i, j] + u[i, j] * exp(u[i, j] "
       "* "
       "u[i, j] * -0.5) * 0.4)",
       "b: f32[i: 5, j: 24] = (f32(g[i, j]) * u[i, j] + 1) * (e[i, j] + 1) * 0.5 - u[i, j]",
       "y: bf16[i: 5, j: 48] = bf16(select(j < 24, a[i, j], b[i, j - 24]))", "output y"},
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
      // Random numbers: of places in order, far apart and below zero, and one for several.
      {"input x: f32[9, 130] ~ normal", "input s: i64[2] ~ integers(0, 9007199254740992)",
       "y: f32[i: 9, j: 130] = x[i, j] * f32(3000000 <= random(s[0], i * 130 + j))",
       "u: f32[i: 9, j: 130] = f32(random(s[1], j * 3000000007 - i)) * 5.9604645e-8",
       "b: bool[i: 9, j: 130] = random(-s[0], j / 4) % 2 == 0", "output y, u, b"},
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

// A floor division by a power of two is a shift, also of what is negative, and of a power that is
// read; what is left a mask.
TEST_CASE("quotients of powers of two are shifts", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: i32[4096] ~ integers(-2147483648, 2147483647)",
                  "input s: i32[4096] ~ integers(0, 80)", "input b: i8[4096] ~ integers(-128, 128)",
                  "y: i32[i: 4096] = i32(i64(x[i]) / i64(exp2(f64(min(i64(s[i]), 62))))) % 16",
                  "z: i32[i: 4096] = x[i] / 64 - x[i] % 64", "q: i8[i: 4096] = b[i] / 8 - b[i] % 4",
                  "d: f16[i: 4096] = f16(x[i] % 16 - i32(b[i]) % 8)", "output y, z, q, d"});
  const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
  const auto plan = Lower(graph, schedule, TestTarget());
  REQUIRE(plan.ok());
  CHECK(!absl::StrContains(plan->source(), "floor_div"));
  CHECK(!absl::StrContains(plan->source(), "floor_mod"));
  CHECK(!absl::StrContains(plan->source(), "exp2"));
  CHECK(!absl::StrContains(plan->source(), "from_double"));
  CHECK(RunAndCompareAll({{graph, schedule, 3, false, 0}})[0].message() == "");
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

TEST_CASE("the tanh of a softplus is made of one exponential", "[codegen]") {
  const char* const kSoftplus[] = {"select(20 < x[i], x[i], log1p(exp(x[i])))", "log1p(exp(x[i]))"};
  std::vector<Trial> trials;
  for (const char* type : {"f32", "f64"}) {
    for (const char* softplus : kSoftplus) {
      for (const bool special : {false, true}) {
        Trial trial;
        trial.graph = ParseOrDie(
            {absl::StrCat("input x: ", type, "[3001] ~ normal(0, 9)"),
             absl::StrCat("y: ", type, "[i: 3001] = x[i] * tanh(", softplus, ")"), "output y"});
        trial.schedule = FirstSchedule(trial.graph, TestTarget());
        trial.special = special;
        trials.push_back(trial);
      }
    }
  }
  const auto makes_tanh = [](const char* softplus) {
    const graph::Graph graph =
        ParseOrDie({"input x: f32[64] ~ normal",
                    absl::StrCat("y: f32[i: 64] = tanh(", softplus, ")"), "output y"});
    const auto plan = Lower(graph, FirstSchedule(graph, TestTarget()), TestTarget());
    REQUIRE(plan.ok());
    return absl::StrContains(plan->source(), "ws::tanh(");
  };
  for (const char* softplus : kSoftplus) CHECK_FALSE(makes_tanh(softplus));
  for (const char* other :
       {"select(15 < x[i], x[i], log1p(exp(x[i])))", "select(x[i] < 20, x[i], log1p(exp(x[i])))",
        "select(20 < 2 * x[i], x[i], log1p(exp(x[i])))", "log1p(exp(2 * x[i])) / 2", "x[i]"})
    CHECK(makes_tanh(other));
  for (const absl::Status& answer : RunAndCompareAll(trials)) {
    INFO(answer.message());
    CHECK(answer.ok());
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

TEST_CASE("maps read and write neighbours in few accesses", "[codegen]") {
  struct Case {
    const char* what;
    Lines lines;
    std::vector<const char*> has;
    bool branches = false;
  };
  const Case cases[] = {
      {"halves of a row, rotated",
       {"input x: bf16[64, 128] ~ normal", "input c: f32[128] ~ normal",
        "r: f32[i: 64, j: 128] = select(j < 64, -f32(x[i, j + 64]), f32(x[i, j - 64]))",
        "y: bf16[i: 64, j: 128] = bf16(r[i, j] * c[j])", "output y"},
       {"ws::load_if<8, ws::bf16", "ws::load<8, float", "ws::store<8, ws::bf16"}},
      // Of which a warp's threads make the same.
      {"two tensors, each with something made of it, one above the other, and a third",
       {"input a: bf16[96, 64] ~ normal", "input b: bf16[40, 64] ~ normal",
        "input c: bf16[200, 64] ~ normal",
        "r: bf16[i: 136, j: 64] = select(i < 96, bf16(tanh(f32(a[i, j]))), "
        "bf16(exp(f32(b[i - 96, j]))))",
        "y: bf16[i: 336, j: 64] = select(i < 136, bf16(f32(r[i, j]) * 0.5), "
        "bf16(f32(c[i - 136, j]) + 1.0))",
        "output y"},
       {"ws::load_if<8, ws::bf16", "ws::store<8, ws::bf16"},
       true},
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
    CHECK(absl::StrContains(plan->source(), "if (!(") == c.branches);
    Check(graph, schedule, 1);
  }
}

// Parts of a tensor that are replaced one after the other, as updates of slices are imported: the
// others are read once, not once for each part, and what is known of the part is not asked again.
TEST_CASE("what stays of parts that are replaced", "[codegen]") {
  constexpr int kParts = 5;
  Lines lines = {"input x: f32[5, 24, 16] ~ normal", "input v: f32[5, 10, 16] ~ normal",
                 "input first: i64[5] ~ integers(0, 14)"};
  std::string before = "x";
  for (int b = 0; b < kParts; ++b) {
    const std::string now = absl::StrCat("s", b);
    lines.push_back(absl::StrCat(now, ": f32[b: 5, t: 24, c: 16] = select(b == ", b,
                                 ", select(t >= first[", b, "] and t < first[", b, "] + 10, v[", b,
                                 ", t - first[", b, "], c], ", before, "[", b, ", t, c]), ", before,
                                 "[b, t, c])"));
    before = now;
  }
  lines.push_back(absl::StrCat("output ", before));
  const graph::Graph graph = ParseOrDie(lines);
  v1::Schedule schedule;
  schedule.add_groups()->add_roots(before);
  const auto plan = Lower(graph, schedule, TestTarget());
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  std::set<std::string> loads;  // of x, of whole vectors and of single elements
  for (absl::string_view line : absl::StrSplit(plan->source(), '\n')) {
    const size_t at = line.find("in_x");
    if (at == absl::string_view::npos || !absl::StrContains(line, "values.")) continue;
    loads.insert(std::string(absl::StripAsciiWhitespace(line)));
  }
  INFO(absl::StrJoin(loads, "\n"));
  CHECK(loads.size() >= 1);
  CHECK(loads.size() <= 2);
  CHECK(RunAndCompareAll({{graph, schedule, 3, false, 0}})[0].message() == "");
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

TEST_CASE("what a stage makes of a column's elements is held where all of them are kept",
          "[codegen]") {
  struct Case {
    const char *y, *knobs;
    bool held;
  };
  for (const Case& c :
       {Case{"exp(x[a, k, c] - m[a, c]) / s[a, c]", "columns { register_vectors: 64 }", true},
        Case{"exp(x[a, k, c] - m[a, c]) / s[a, c]", "columns { register_vectors: 63 }", false},
        // What was read is wanted again.
        Case{"exp(x[a, k, c] - m[a, c]) / s[a, c] * x[a, k, c]", "columns { register_vectors: 64 }",
             false}}) {
    const graph::Graph graph = ParseOrDie(
        {"input x: f32[4, 64, 33] ~ normal", "m: f32[a: 4, c: 33] = max[k: 64](x[a, k, c])",
         "s: f32[a: 4, c: 33] = sum[k: 64](exp(x[a, k, c] - m[a, c]))",
         absl::StrCat("y: f32[a: 4, k: 64, c: 33] = ", c.y), "output y"});
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    REQUIRE(schedule.groups_size() == 1);
    v1::Group merged;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(c.knobs, &merged));
    merged.mutable_columns()->set_thread_rows(1);
    merged.mutable_columns()->set_block_threads(32);
    schedule.mutable_groups(0)->MergeFrom(merged);
    INFO(c.y << ", " << c.knobs);
    Check(graph, schedule, 1);
    const auto plan = Lower(graph, schedule, TestTarget());
    REQUIRE(plan.ok());
    CHECK(absl::StrContains(plan->source(), "values.s0[0] = ") == c.held);
  }
}

}  // namespace
}  // namespace warpsmith::codegen
