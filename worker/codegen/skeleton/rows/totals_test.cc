// Sums over rows beside what is done along them (totals), on the host device against the oracle.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

graph::Graph GraphOf(const std::string& text) {
  return ParseOrDie(Lines(absl::StrSplit(text, '\n', absl::SkipEmpty())));
}

v1::Schedule ScheduleOf(const graph::Graph& graph, const std::string& knobs) {
  v1::Schedule schedule;
  v1::Group* group = schedule.add_groups();
  REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, group));
  for (int output : graph.outputs) group->add_roots(graph.tensors[output].name);
  return schedule;
}

// Gradients of a layer norm of R rows of K elements.
std::string LayerNorm(int rows, int k, const std::string& type) {
  return absl::StrReplaceAll(
      "input dy: @T[@R, @K] ~ normal\n"
      "input x: @T[@R, @K] ~ normal\n"
      "input mean: f32[@R] ~ normal(0, 0.1)\n"
      "input rstd: f32[@R] ~ uniform(0.5, 1.5)\n"
      "param w: @T[@K] ~ normal(1, 0.1)\n"
      "h: f32[r: @R, c: @K] = (f32(x[r, c]) - mean[r]) * rstd[r]\n"
      "a: f32[r: @R] = sum[c: @K](f32(dy[r, c]) * f32(w[c]))\n"
      "b: f32[r: @R] = sum[c: @K](f32(dy[r, c]) * f32(w[c]) * h[r, c])\n"
      "dx: @T[r: @R, c: @K] = @T(rstd[r] * (f32(dy[r, c]) * f32(w[c]) - (a[r] + h[r, c] * b[r]) / "
      "@K))\n"
      "dw: f32[c: @K] = sum[r: @R](f32(dy[r, c]) * h[r, c])\n"
      "dweight: @T[c: @K] = @T(dw[c])\n"
      "db: f32[c: @K] = sum[r: @R](f32(dy[r, c]))\n"
      "dbias: @T[c: @K] = @T(db[c])\n"
      "output dx, dweight, dbias",
      {{"@T", type}, {"@R", absl::StrCat(rows)}, {"@K", absl::StrCat(k)}});
}

struct Case {
  const char* what;
  std::string graph;
  int least = 4;  // schedules of kKnobs that lower
};

// Of kinds that one table of knobs fits.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int k : {2, 31, 64, 257, 1000}) {
    cases.push_back({"a layer norm", LayerNorm(5, k, "f32")});
    cases.push_back({"a layer norm of many rows", LayerNorm(67, k, "bf16")});
  }
  cases.push_back({"one row", LayerNorm(1, 515, "f16")});
  cases.push_back({"as many rows as elements", LayerNorm(64, 64, "f32")});
  cases.push_back({"fp64", LayerNorm(33, 66, "f64")});
  cases.push_back({"sums need the row's results",
                   "input x: f32[9, 40] ~ normal\n"
                   "m: f32[r: 9] = max[c: 40](x[r, c])\n"
                   "s: f32[r: 9] = sum[c: 40](exp(x[r, c] - m[r]))\n"
                   "t: f32[c: 40] = sum[r: 9](exp(x[r, c] - m[r]) / s[r])\n"
                   "output s, t"});
  cases.push_back({"several types and combiners",
                   "input x: f32[21, 24] ~ normal\n"
                   "input i: i32[21, 24] ~ integers(-5, 5)\n"
                   "s: f32[r: 21] = sum[c: 24](x[r, c])\n"
                   "hi: f32[c: 24] = max[r: 21](x[r, c] * 2)\n"
                   "top, at: f32[c: 24] = argmax[r: 21](x[r, c])\n"
                   "n: i32[c: 24] = sum[r: 21](i[r, c])\n"
                   "output s, hi, top, at, n"});
  cases.push_back({"what is behind the sums reads memory",
                   "input x: f32[12, 48] ~ normal\n"
                   "input old: bf16[48] ~ normal\n"
                   "s: f32[r: 12] = sum[c: 48](x[r, c])\n"
                   "t: f32[c: 48] = sum[r: 12](x[r, c] * s[r])\n"
                   "u: f32[c: 48] = sum[r: 12](x[r, c])\n"
                   "g: bf16[c: 48] = bf16(f32(old[c]) * 0.5 + t[c] / (1 + abs(u[c])))\n"
                   "output s, g, u"});
  cases.push_back({"for each batch: rows of a segment",
                   "input dy: f32[3, 6, 40] ~ normal\n"
                   "input x: f32[3, 6, 40] ~ normal\n"
                   "param w: f32[3, 40] ~ normal\n"
                   "a: f32[b: 3, s: 6] = sum[c: 40](dy[b, s, c] * w[b, c] * x[b, s, c])\n"
                   "dx: f32[b: 3, s: 6, c: 40] = dy[b, s, c] * w[b, c] - x[b, s, c] * a[b, s]\n"
                   "dscale: f32[b: 3, c: 40] = sum[s: 6](dy[b, s, c] * x[b, s, c])\n"
                   "dshift: f32[b: 3, c: 40] = sum[s: 6](dy[b, s, c])\n"
                   "output dx, dscale, dshift"});
  cases.push_back(
      {"over the batch: rows of a segment lie apart",
       "input dy: f32[4, 3, 5, 24] ~ normal\n"
       "input p: f32[4, 3, 5, 24] ~ uniform(0, 1)\n"
       "a: f32[b: 4, h: 3, i: 5] = sum[j: 24](dy[b, h, i, j] * p[b, h, i, j])\n"
       "ds: f32[b: 4, h: 3, i: 5, j: 24] = p[b, h, i, j] * (dy[b, h, i, j] - a[b, h, i])\n"
       "bias: f32[h: 3, i: 5, j: 24] = sum[b: 4](p[b, h, i, j] * (dy[b, h, i, j] - a[b, h, i]))\n"
       "output ds, bias"});
  cases.push_back({"over batch and queries",
                   "input dy: f32[4, 3, 5, 24] ~ normal\n"
                   "a: f32[b: 4, h: 3, i: 5] = sum[j: 24](dy[b, h, i, j] * dy[b, h, i, j])\n"
                   "bias: f32[h: 3, j: 24] = sum[b: 4, i: 5](dy[b, h, i, j] * a[b, h, i])\n"
                   "output a, bias"});
  cases.push_back({"places of two axes, stored in another order",
                   "input x: f32[8, 4, 12] ~ normal\n"
                   "a: f32[r: 8] = sum[h: 4, c: 12](x[r, h, c])\n"
                   "t: f32[h: 4, c: 12] = sum[r: 8](x[r, h, c] * a[r])\n"
                   "u: f32[c: 12, h: 4] = t[h, c] + 1\n"
                   "output a, u"});
  return cases;
}

const char* const kKnobs[] = {
    "",
    "rows {}",
    "rows { block_threads: 64 threads_per_row: 16 register_vectors: 1 shared_vectors: 63 }",
    "rows { block_threads: 128 threads_per_row: 32 blocks_per_sm: 1 rows_at_once: 2 }",
    "rows { block_threads: 96 threads_per_row: 32 register_vectors: 2 shared_vectors: 8 unroll: 2 "
    "}",
    "rows { block_threads: 32 threads_per_row: 32 blocks_per_row: 2 meeting: MEETING_CLUSTER "
    "register_vectors: 1 shared_vectors: 15 }",
    "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 meeting: MEETING_COUNTER "
    "blocks_per_sm: 1 register_vectors: 8 }",
    "rows { results: RESULTS_CARRIED threads_per_row: 64 }",
    "rows { vector_bytes: 4 } precision { accumulator: ACCUMULATOR_COMPENSATED }",
    "rows {} precision { accumulator: ACCUMULATOR_F64 }",
};

TEST_CASE("sums over rows beside sums along them", "[codegen]") {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Case& c : Cases()) {
    const graph::Graph graph = GraphOf(c.graph);
    int lowered = 0;
    std::string refusals;
    for (const char* knobs : kKnobs) {
      Trial trial{graph, ScheduleOf(graph, knobs), 7};
      const auto plan = Lower(graph, trial.schedule, TestTarget());
      if (!plan.ok()) {
        absl::StrAppend(&refusals, knobs, ": ", plan.status().message(), "\n");
        CHECK(absl::StrContains(plan.status().message(), "group "));
        continue;
      }
      CHECK(absl::StrContains(plan->source(), "rows_total<"));
      ++lowered;
      for (bool special : {false, true}) {
        trial.special = special;
        trials.push_back(trial);
        names.push_back(absl::StrCat(c.what, ": ", knobs, special ? ", NaNs and infinities" : ""));
      }
    }
    INFO(c.what << "\n" << refusals);
    CHECK(lowered >= c.least);
  }
  const auto statuses = RunAndCompareAll(trials);
  for (size_t i = 0; i < statuses.size(); ++i) {
    INFO(names[i] << "\n" << absl::StrJoin(graph::Print(trials[i].graph), "\n"));
    CHECK(statuses[i].message() == "");
  }
}

// What a total may not be read by, and what no thread could keep.
TEST_CASE("sums over rows that are refused say why", "[codegen]") {
  struct {
    const char* what;
    std::string graph, knobs, says;
  } cases[] = {
      {"a row needs the sum over all rows",
       "input x: f32[8, 16] ~ normal\n"
       "a: f32[r: 8] = sum[c: 16](x[r, c])\n"
       "t: f32[c: 16] = sum[r: 8](x[r, c])\n"
       "y: f32[r: 8, c: 16] = x[r, c] - a[r] - t[c]\n"
       "output y, t",
       "rows {}", "a sum over the rows that it belongs to"},
      {"a sum along rows of a sum over rows",
       "input x: f32[8, 16] ~ normal\n"
       "a: f32[r: 8] = sum[c: 16](x[r, c])\n"
       "t: f32[c: 16] = sum[r: 8](x[r, c] * a[r])\n"
       "b: f32[r: 8] = sum[c: 16](x[r, c] * t[c])\n"
       "output b",
       "rows {}", "group 'b'"},
      {"rows that are not kept", LayerNorm(8, 512, "f32"),
       "rows { block_threads: 32 threads_per_row: 32 register_vectors: 1 shared_vectors: 1 }",
       "rows.register_vectors and rows.shared_vectors keep 64 of the 256 vectors"},
      {"columns", LayerNorm(8, 512, "f32"), "columns {}", "columns reduce one way"},
      {"too many in fp32 with a counter", LayerNorm(512, 64, "f32"),
       "rows { block_threads: 64 threads_per_row: 64 vector_bytes: 4 blocks_per_row: 2 meeting: "
       "MEETING_COUNTER blocks_per_sm: 1 }",
       "precision.accumulator F64"},
  };
  for (const auto& c : cases) {
    const graph::Graph graph = GraphOf(c.graph);
    const auto plan = Lower(graph, ScheduleOf(graph, c.knobs), TestTarget());
    INFO(c.what << ": " << plan.status().message());
    REQUIRE(plan.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(plan.status().message(), c.says));
    CHECK(absl::StrContains(plan.status().message(), "group "));
  }
}

// The estimate takes one pass where there is something to save, and leaves few long rows alone.
TEST_CASE("where sums over rows join those along them", "[codegen]") {
  struct {
    int rows, elements;
    const char* type;
    bool one;
  } cases[] = {{20480, 2048, "f32", true},  {10240, 8192, "bf16", true}, {4096, 1024, "bf16", true},
               {65536, 128, "bf16", true},  {2048, 16384, "f16", true},  {8, 1 << 20, "f32", false},
               {64, 1 << 18, "bf16", false}};
  for (const auto& c : cases) {
    const graph::Graph graph = GraphOf(LayerNorm(c.rows, c.elements, c.type));
    const auto infos = Describe(graph, DefaultSchedule(graph, Target{}), Target{});
    REQUIRE(infos.ok());
    INFO(c.rows << " rows of " << c.elements << ", " << c.type);
    int running = 0;
    for (const GroupInfo& info : *infos) running += info.blocks > 0;
    CHECK((running == 1) == c.one);
    if (c.one) CHECK(infos->back().workspace_bytes < graph.tensors[0].bytes());
  }
}

// A block adds up few rows in fp32: the error does not grow with the rows.
TEST_CASE("sums over many rows keep their digits", "[codegen]") {
  const graph::Graph graph = GraphOf(
      "input x: f32[40000, 4] ~ uniform(0, 1)\n"
      "s: f32[r: 40000] = sum[c: 4](x[r, c])\n"
      "t: f32[c: 4] = sum[r: 40000](x[r, c])\n"
      "output s, t");
  const Trial trial{graph, ScheduleOf(graph, "rows {}"), 5, false, 4e-7};
  for (const absl::Status& status : RunAndCompareAll({trial})) CHECK(status.message() == "");
}

}  // namespace
}  // namespace warpsmith::codegen
