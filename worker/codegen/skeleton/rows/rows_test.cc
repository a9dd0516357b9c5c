// Means and the squares around them in one meeting, on the host device against the oracle.
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/graph/graph.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

// A layer norm of R rows of K elements; `x` is its input's line after the type and shape, `v` what
// is normalised.
Lines LayerNorm(int rows, int k, const std::string& type, const std::string& x,
                const std::string& v, const std::string& outputs) {
  const std::string text =
      "input x: @T[@R, @K] ~ @X\n"
      "input u: @T[@R, @K] ~ normal\n"
      "input w: f32[@K] ~ normal\n"
      "v: f32[r: @R, k: @K] = @V\n"
      "s: f32[r: @R] = sum[k: @K](v[r, k])\n"
      "mean: f32[r: @R] = s[r] / @K\n"
      "q: f32[r: @R] = sum[k: @K]((v[r, k] - mean[r]) * (v[r, k] - mean[r]))\n"
      "var: f32[r: @R] = q[r] / @K\n"
      "y: @T[r: @R, k: @K] = @T((v[r, k] - mean[r]) * rsqrt(var[r] + 0.00001) * w[k])\n"
      "output @O";
  const std::string filled = absl::StrReplaceAll(text, {{"@T", type},
                                                        {"@R", absl::StrCat(rows)},
                                                        {"@K", absl::StrCat(k)},
                                                        {"@X", x},
                                                        {"@V", v},
                                                        {"@O", outputs}});
  Lines lines;
  for (size_t at = 0; at < filled.size();) {
    const size_t end = std::min(filled.find('\n', at), filled.size());
    lines.push_back(filled.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

v1::Schedule ScheduleOf(const graph::Graph& graph, const std::string& knobs) {
  v1::Schedule schedule;
  v1::Group* group = schedule.add_groups();
  REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, group));
  for (int output : graph.outputs) group->add_roots(graph.tensors[output].name);
  return schedule;
}

struct Case {
  const char* what;
  Lines graph;
  double tolerance = 0;
};

std::vector<Case> Cases() {
  const std::string f32 = "f32(x[r, k])", sum = "f32(x[r, k]) + f32(u[r, k])";
  const std::string all = "y, mean, var";
  std::vector<Case> cases;
  for (int k : {2, 31, 64, 257, 1000, 4099})
    cases.push_back({"rows", LayerNorm(5, k, "f32", "normal", "x[r, k]", all)});
  cases.push_back({"one row", LayerNorm(1, 5000, "f32", "normal", "x[r, k]", all)});
  cases.push_back({"a residual", LayerNorm(4, 600, "f32", "normal", "x[r, k] + u[r, k]", all)});
  cases.push_back({"bf16 and a residual", LayerNorm(3, 1024, "bf16", "normal", sum, "y")});
  cases.push_back({"f16, odd rows", LayerNorm(3, 515, "f16", "normal", f32, "y")});
  cases.push_back({"statistics alone", LayerNorm(7, 900, "f32", "normal", "x[r, k]", "mean, var")});
  cases.push_back(
      {"rows of one value", LayerNorm(3, 520, "f32", "constant(0.1)", "x[r, k]", "var")});
  // Half an ulp of the mean is 5e-4 of the deviation.
  cases.push_back(
      {"a large mean", LayerNorm(3, 1600, "f32", "normal(10000, 1)", "x[r, k]", all), 3e-3});
  cases.push_back({"the deviation beside a large mean",
                   LayerNorm(3, 1600, "f32", "normal(10000, 1)", "x[r, k]", "var")});
  return cases;
}

const char* const kKnobs[] = {
    "rows {}",
    "rows { meet_twice: true }",
    "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 meeting: MEETING_COUNTER "
    "blocks_per_sm: 1 register_vectors: 1 shared_vectors: 3 }",
    "rows { block_threads: 32 threads_per_row: 32 blocks_per_row: 2 meeting: MEETING_CLUSTER "
    "register_vectors: 3 shared_vectors: 5 unroll: 2 }",
    "rows { block_threads: 64 threads_per_row: 32 unroll: 4 blocks_per_sm: 1 }",
    "rows { block_threads: 64 threads_per_row: 64 register_vectors: 1 shared_vectors: 1 unroll: 1 "
    "rows_at_once: 2 blocks_per_sm: 1 }",
    "rows { block_threads: 32 threads_per_row: 1 unroll: 2 }",
    "rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 3 meeting: MEETING_SECOND_PASS }",
    "rows {} precision { accumulator: ACCUMULATOR_F64 }",
    "rows {} precision { accumulator: ACCUMULATOR_COMPENSATED }",
};

TEST_CASE("means and squares in one meeting", "[codegen]") {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Case& c : Cases()) {
    const graph::Graph graph = ParseOrDie(c.graph);
    int lowered = 0;
    for (const char* knobs : kKnobs) {
      Trial trial{graph, ScheduleOf(graph, knobs), 7, false, c.tolerance};
      if (!Lower(graph, trial.schedule, TestTarget()).ok()) continue;
      ++lowered;
      for (bool special : {false, true}) {
        if (special && c.tolerance > 0) continue;
        trial.special = special;
        trials.push_back(trial);
        names.push_back(absl::StrCat(c.what, ": ", knobs, special ? ", NaNs and infinities" : ""));
      }
    }
    INFO(c.what);
    CHECK(lowered >= 4);
  }
  const auto statuses = RunAndCompareAll(trials);
  for (size_t i = 0; i < statuses.size(); ++i) {
    INFO(names[i] << "\n" << absl::StrJoin(graph::Print(trials[i].graph), "\n"));
    CHECK(statuses[i].message() == "");
  }
}

// What is concatenated along rows or of rows, and lines that a table names, are read once as
// vectors and stay on the card; what a vector has two parts of is not.
TEST_CASE("streams of several tensors", "[codegen]") {
  const auto norm = [](Lines inputs, const std::string& element, int64_t rows, int64_t k) {
    inputs.push_back(absl::StrCat("x: bf16[r: ", rows, ", k: ", k, "] = ", element));
    inputs.push_back(
        absl::StrCat("s: f32[r: ", rows, "] = sum[k: ", k, "](f32(x[r, k]) * f32(x[r, k]))"));
    inputs.push_back(absl::StrCat("y: bf16[r: ", rows, ", k: ", k,
                                  "] = bf16(f32(x[r, k]) * rsqrt(s[r] / ", k, ".0 + 1e-5))"));
    inputs.push_back("output y");
    return inputs;
  };
  struct Streams {
    const char* what;
    Lines graph;
    int bytes;  // of an element, of all streams
  };
  const Streams cases[] = {
      {"two along a row",
       norm({"input a: bf16[6, 64] ~ normal", "input b: bf16[6, 192] ~ normal"},
            "select(k < 64, a[r, k], b[r, k - 64])", 6, 256),
       2},
      {"neighbours of an image",
       norm({"input a: bf16[3, 8, 8, 32] ~ normal"},
            "select(k < 64, select(k < 32, a[r / 16, r / 4 % 4 * 2, r % 4 * 2, k], a[r / 16, r / 4 "
            "% 4 * 2 + 1, r % 4 * 2, k - 32]), select(k < 96, a[r / 16, r / 4 % 4 * 2, r % 4 * 2 + "
            "1, k - 64], a[r / 16, r / 4 % 4 * 2 + 1, r % 4 * 2 + 1, k - 96]))",
            48, 128),
       2},
      {"neighbours of an image with a margin of another value",
       norm({"input a: bf16[3, 7, 7, 32] ~ normal"},
            "select(k < 32, select(r / 4 % 4 < 4 and r % 4 * 2 + 1 < 7, a[r / 16, r / 4 % 4 * 2, r "
            "% 4 * 2 + 1, k], -0.5), select(r / 4 % 4 * 2 + 1 < 7, a[r / 16, r / 4 % 4 * 2 + 1, r "
            "% 4 * 2, k - 32], 0))",
            48, 64),
       2},
      {"tokens of two kinds",
       norm({"input a: bf16[2, 160] ~ normal", "input b: bf16[5, 160] ~ normal"},
            "select(r < 2, a[r, k], b[r - 2, k])", 7, 160),
       2},
      {"lines of a table",
       norm({"input i: i64[6] ~ integers(0, 20)", "input a: bf16[20, 160] ~ normal"}, "a[i[r], k]",
            6, 160),
       2},
      {"a vector of both",
       norm({"input a: bf16[6, 60] ~ normal", "input b: bf16[6, 196] ~ normal"},
            "select(k < 60, a[r, k], b[r, k - 60])", 6, 256),
       2},
  };
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Streams& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    INFO(c.what);
    const auto plan = Lower(graph, ScheduleOf(graph, "rows {}"), TestTarget());
    REQUIRE(plan.ok());
    CHECK(absl::StrContains(plan->source(), absl::StrCat("kStreamBytes = ", c.bytes, ";")));
    for (const char* knobs : kKnobs) {
      Trial trial{graph, ScheduleOf(graph, knobs), 9, false, 0};
      if (!Lower(graph, trial.schedule, TestTarget()).ok()) continue;
      trials.push_back(trial);
      names.push_back(absl::StrCat(c.what, ": ", knobs));
    }
  }
  CHECK(trials.size() >= 4 * std::size(cases));
  const auto statuses = RunAndCompareAll(trials);
  for (size_t i = 0; i < statuses.size(); ++i) {
    INFO(names[i] << "\n" << absl::StrJoin(graph::Print(trials[i].graph), "\n"));
    CHECK(statuses[i].message() == "");
  }
}

// Weights of half a byte that lie beside each other along the result: threads have neighbours, and
// read a byte once for both.
TEST_CASE("a sum down columns of half bytes", "[codegen]") {
  const graph::Graph graph = ParseOrDie(
      {"input x: f32[96] ~ normal", "input w: u8[96, 40] ~ integers(0, 256)",
       "q: i32[k: 96, n: 80] = select(n % 2 == 0, i32(w[k, n / 2]) % 16, i32(w[k, n / 2]) / 16)",
       "y: f32[n: 80] = sum[k: 96](x[k] * f32(q[k, n] - 8))", "output y"});
  const v1::Schedule schedule = DefaultSchedule(graph, Target());
  const auto infos = Describe(graph, schedule, Target());
  INFO(infos.status().message());
  REQUIRE(infos.ok());
  CHECK(infos->back().skeleton == v1::Group::kColumns);
  const auto plan = Lower(graph, schedule, Target());
  REQUIRE(plan.ok());
  CHECK(absl::StrContains(plan->source(), ", unsigned char, 0>(column.p"));
  CHECK(absl::StrContains(plan->source(), "[j / 2]"));
  const auto statuses = RunAndCompareAll({{graph, schedule, 3, false, 0}});
  CHECK(statuses[0].message() == "");
}

// Slots beyond a row's: the next one is on its way, and is added up, while a row is written.
TEST_CASE("the next row in shared memory beside this one", "[codegen]") {
  const Lines softmax = {"input x: f32[7, @K] ~ normal",
                         "m: f32[r: 7] = max[k: @K](x[r, k])",
                         "e: f32[r: 7, k: @K] = exp(x[r, k] - m[r])",
                         "s: f32[r: 7] = sum[k: @K](e[r, k])",
                         "y: f32[r: 7, k: @K] = e[r, k] / s[r]",
                         "output y"};
  const std::string f32 = "f32(x[r, k])", all = "y, mean, var";
  struct {
    const char* what;
    Lines graph;
    int slots;         // of a thread, 64 to a block and two blocks to a row
    const char* more;  // knobs
    int ahead, common;
    bool cached = false;
  } cases[] = {
      {"one slot more", LayerNorm(7, 2048, "f32", "normal", "x[r, k]", all), 5, "", 1, 2},
      {"half a row", LayerNorm(7, 2048, "f32", "normal", "x[r, k]", all), 6, "", 2, 2},
      {"three quarters, weights of all", LayerNorm(7, 2048, "f32", "normal", "x[r, k]", "y"), 7,
       "register_vectors: 4", 3, 4},
      {"a whole row, and what is too much", LayerNorm(6, 2048, "f32", "normal", "x[r, k]", all), 9,
       "", 4, 2},
      {"an odd number, the last vectors missing",
       LayerNorm(7, 2000 - 500, "f32", "normal", "x[r, k]", all), 5, "", 2, 2},
      {"vectors missing within a pair", LayerNorm(5, 1960, "f32", "normal", "x[r, k]", all), 7, "",
       3, 2},
      {"one vector a thread", LayerNorm(5, 512, "f32", "normal", "x[r, k]", all), 2,
       "register_vectors: 1", 1, 1},
      {"two meetings", LayerNorm(5, 2048, "f32", "normal", "x[r, k]", all), 7, "meet_twice: true",
       3, 2},
      {"two rows at once", LayerNorm(9, 2048, "f32", "normal", "x[r, k]", all), 7,
       "rows_at_once: 2 meet_twice: true", 3, 2},
      {"bf16 and a residual",
       LayerNorm(5, 4096, "bf16", "normal", "f32(x[r, k]) + f32(u[r, k])", "y"), 12, "", 4, 2},
      {"one row", LayerNorm(1, 2048, "f32", "normal", "x[r, k]", all), 7, "", 3, 2},
      {"more groups than rows", LayerNorm(3, 2048, "f32", "normal", "x[r, k]", all), 7,
       "blocks_per_sm: 8", 3, 2},
      {"a maximum first", softmax, 7, "", 3, 0},
      {"a part that is read again", LayerNorm(5, 4096, "f32", "normal", "x[r, k]", all), 3, "", 0,
       0, true},
  };
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const auto& c : cases) {
    Lines lines = c.graph;
    for (std::string& line : lines) line = absl::StrReplaceAll(line, {{"@K", "2048"}});
    const graph::Graph graph = ParseOrDie(lines);
    const std::string more = c.more;
    const v1::Schedule schedule = ScheduleOf(
        graph,
        absl::StrCat("rows { block_threads: 64 threads_per_row: 64 blocks_per_row: 2 "
                     "meeting: MEETING_COUNTER shared_vectors: ",
                     c.slots, absl::StrContains(more, "register") ? " " : " register_vectors: 2 ",
                     absl::StrContains(more, "per_sm") ? "" : "blocks_per_sm: 1 ", more, " }"));
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(c.what << ": " << plan.status().message());
    REQUIRE(plan.ok());
    const std::string config =
        absl::StrCat("false, ", c.ahead, ", ", c.common, ", ", c.cached ? "true>" : "false>");
    CHECK(absl::StrContains(plan->source(), config));
    for (uint64_t seed : {7, 8}) {
      trials.push_back({graph, schedule, seed, seed == 8, 0});
      names.push_back(c.what);
    }
  }
  const auto statuses = RunAndCompareAll(trials);
  for (size_t i = 0; i < statuses.size(); ++i) {
    INFO(names[i]);
    CHECK(statuses[i].message() == "");
  }
}

// A layer norm's accumulators let two rows be worked on together: threads have two vectors of each.
TEST_CASE("threads of many short rows have enough in flight", "[codegen]") {
  for (const auto& [rows, threads] : {std::pair{400000, 4}, std::pair{400, 8}}) {
    const graph::Graph graph =
        ParseOrDie(LayerNorm(rows, 64, "f16", "normal", "f32(x[r, k])", "y"));
    const auto groups = Describe(graph, ScheduleOf(graph, ""), Target());
    INFO(groups.status());
    REQUIRE(groups.ok());
    CHECK((*groups)[0].resolved.rows().threads_per_row() == threads);
  }
}

TEST_CASE("which stages meet as one", "[codegen]") {
  const Lines before = {"input x: f32[4, 64] ~ normal", "input u: f32[4, 64] ~ normal",
                        "s: f32[r: 4] = sum[k: 64](x[r, k])"};
  struct {
    const char* what;
    Lines lines;
    bool joined;
  } cases[] = {
      {"a product with the reciprocal",
       {"q: f32[r: 4] = sum[k: 64](pow(x[r, k] - s[r] * 0.015625, 2.0))"},
       true},
      {"the mean less the value",
       {"q: f32[r: 4] = sum[k: 64]((s[r] / 64 - x[r, k]) * (s[r] / 64 - x[r, k]))"},
       true},
      {"another count",
       {"q: f32[r: 4] = sum[k: 64]((x[r, k] - s[r] / 63) * (x[r, k] - s[r] / 63))"},
       false},
      {"other values",
       {"q: f32[r: 4] = sum[k: 64]((u[r, k] - s[r] / 64) * (u[r, k] - s[r] / 64))"},
       false},
      {"no squares", {"q: f32[r: 4] = sum[k: 64](abs(x[r, k] - s[r] / 64))"}, false},
      {"squares and something else",
       {"p: f32[r: 4] = sum[k: 64](abs(x[r, k] - s[r] / 64))",
        "o: f32[r: 4] = sum[k: 64]((x[r, k] - s[r] / 64) * (x[r, k] - s[r] / 64))",
        "q: f32[r: 4] = o[r] + p[r]"},
       false},
      {"another sum beside",
       {"p: f32[r: 4] = sum[k: 64](u[r, k])",
        "o: f32[r: 4] = sum[k: 64]((x[r, k] - s[r] / 64) * (x[r, k] - s[r] / 64))",
        "q: f32[r: 4] = o[r] + p[r]"},
       true},
  };
  for (const auto& c : cases) {
    Lines lines = before;
    lines.insert(lines.end(), c.lines.begin(), c.lines.end());
    lines.push_back("output q");
    const graph::Graph graph = ParseOrDie(lines);
    const v1::Schedule schedule = ScheduleOf(graph, "rows {}");
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(c.what << ": " << plan.status().message());
    REQUIRE(plan.ok());
    CAPTURE(plan->source().substr(plan->source().find("RowsConfig"), 80));
    CHECK(absl::StrContains(plan->source(), "joined() { return 1u") == c.joined);
    const auto status = RunAndCompare(graph, schedule, 3);
    INFO(status.message());
    CHECK(status.ok());
    // The knob is there where it does something.
    const auto twice = Lower(graph, ScheduleOf(graph, "rows { meet_twice: true }"), TestTarget());
    CHECK(twice.ok() == c.joined);
  }
}

}  // namespace
}  // namespace warpsmith::codegen
