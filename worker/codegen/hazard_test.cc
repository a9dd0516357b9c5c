// Graphs on which generated code once was wrong, each with schedules that showed it.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

struct Hazard {
  const char* name;
  std::vector<std::string> graph;
  std::vector<const char*> knobs;  // text format, merged into every group of the default schedule
};

const std::vector<Hazard> kHazards = {
    {"constants that differ in the seventh digit are two values of a row",
     {"input x: f64[6, 40] ~ normal", "s: f64[r: 6] = sum[c: 40](x[r, c])",
      "y: f64[r: 6, c: 40] = x[r, c] * (s[r] * 1000.001 - s[r] * 1000)", "output y"},
     {""}},
    {"a window's condition that the first chunk of lanes decides and the second does not",
     {"input x: f32[4, 122] ~ normal",
      "y: f32[r: 4, c: 120] = sum[q: 3](select(c < 70, x[r, c + q], x[r, c + q] * 2))", "output y"},
     {"window { vector_bytes: 8 }", "window { vector_bytes: 16 }",
      "window { vector_bytes: 16 outputs: 2 }"}},
    {"products of indexes wrap",
     {"input x: f32[8] ~ normal", "y: i64[i: 8] = i * 4611686018427387905 % 3",
      "z: i64[i: 8] = (i * 3000000000000000000 + 5) / 7",
      "u: bool[i: 8] = i + 9223372036854775805 < i",
      "v: f32[i: 8] = x[i * 2305843009213693953 * 8 % 8]",
      "w: i64[i: 8] = i % 7 * 1317624576693539401 % 9007199254740993", "output y, z, u, v, w"},
     {""}},
    {"the smallest integer divided by -1 wraps",
     {"input a: i32[4] ~ constant(-2147483648)", "input b: i32[4] ~ constant(-1)",
      "q: i32[i: 4] = a[i] / b[i]", "r: i32[i: 4] = a[i] % b[i]", "m: i32[i: 4] = abs(a[i])",
      "output q, r, m"},
     {""}},
    {"a division by nought that does not happen",
     {"input x: i32[9] ~ integers(0, 3)", "y: i32[i: 9] = select(x[i] < 5, x[i], 7 / 0)",
      "output y"},
     {""}},
    {"what is no number, infinite or too large becomes an integer as on a card",
     {"input x: f32[9] ~ integers(-4, 5)", "input d: f64[9] ~ integers(-4, 5)",
      "input h: f16[9] ~ integers(-4, 5)", "a: i32[i: 9] = i32(sqrt(x[i]))",
      "b: i64[i: 9] = i64(sqrt(x[i]))", "c: i32[i: 9] = i32(sqrt(d[i]))",
      "e: i64[i: 9] = i64(sqrt(d[i]))", "f: i32[i: 9] = i32(f16(sqrt(f32(h[i]))))",
      "g: bool[i: 9] = bool(sqrt(x[i]))", "k: i32[i: 9] = i32(x[i] / 0)",
      "l: i64[i: 9] = i64(x[i] * 1e30)", "m: i32[i: 9] = i32(d[i] * 1e12)",
      "n: i64[i: 9] = i64(d[i] / 0)",
      "o: i32[i: 9] = i32(f32(nan)) + i32(f64(nan)) + i32(i64(f32(inf)))",
      "output a, b, c, e, f, g, k, l, m, n, o"},
     {""}},
};

// Every graph under each of its schedules.
void CheckAll(const std::vector<Hazard>& hazards, double tolerance) {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Hazard& hazard : hazards) {
    const auto graph = graph::Parse(hazard.graph, {});
    INFO(hazard.name << ": " << graph.status().message());
    REQUIRE(graph.ok());
    for (const char* knobs : hazard.knobs) {
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      v1::Schedule schedule = DefaultSchedule(*graph, TestTarget());
      for (v1::Group& group : *schedule.mutable_groups()) group.MergeFrom(merged);
      trials.push_back({*graph, schedule, 1, false, tolerance});
      names.push_back(absl::StrCat(hazard.name, ": ", knobs));
    }
  }
  const std::vector<absl::Status> statuses = RunAndCompareAll(trials);
  for (size_t t = 0; t < trials.size(); ++t) {
    INFO(names[t] << "\n" << statuses[t].message());
    CHECK(statuses[t].ok());
  }
}

TEST_CASE("what once was wrong is right", "[codegen]") { CheckAll(kHazards, 0); }

// Terms of one sign, so that nothing hides what rounding loses; one thread adds thousands of them.
const std::vector<Hazard> kLongSums = {
    {"over rows",
     {"input x: f32[9001, 4] ~ uniform(0, 1)", "y: f32[c: 4] = sum[k: 9001](x[k, c])", "output y"},
     {"", "columns { thread_rows: 1 split: 1 }", "columns { thread_rows: 1 split: 1 unroll: 1 }"}},
    {"along a row",
     {"input x: f32[3, 20001] ~ uniform(0, 1)", "y: f32[r: 3] = sum[k: 20001](x[r, k])",
      "output y"},
     {"", "rows { threads_per_row: 1 vector_bytes: 4 }"}},
    {"in a thread",
     {"input x: f32[5, 4001] ~ uniform(0, 1)", "input w: f32[40, 5, 97] ~ uniform(0, 1)",
      "y: f32[r: 5] = sum[k: 4001](x[r, k])", "z: f32[r: 5] = sum[k: 40, l: 97](w[k, r, l])",
      "output y, z"},
     {"map { }"}},
};

TEST_CASE("long sums keep their digits", "[codegen]") { CheckAll(kLongSums, 1e-6); }

// What is subtracted from all elements of a row has its rounding in all of them.
constexpr double kDifference = 6e-4;
const std::vector<Hazard> kDifferences = {
    {"of what logarithms were taken from",
     {"input x: f32[40, 500] ~ normal(0, 0.001)", "input z: f32[40, 500] ~ normal(0, 0.001)",
      "input s: f32[40] ~ uniform(970, 970.2)", "input t: f32[40] ~ uniform(970, 970.2)",
      "a: f32[r: 40, k: 500] = x[r, k] - log(s[r])", "b: f32[r: 40, k: 500] = log(t[r]) - z[r, k]",
      "d: f32[r: 40] = sum[k: 500](a[r, k] + b[r, k])", "y: f32[r: 40] = d[r] * 100", "output y"},
     {"", "rows { vector_bytes: 4 }", "rows { threads_per_row: 32 }"}},
    {"of logarithms of probabilities that are nearly the same",
     {"input x: f32[40, 1000] ~ normal(0, 0.02)", "input z: f32[40, 1000] ~ normal(0, 0.02)",
      "mx: f32[r: 40] = max[k: 1000](x[r, k])", "mz: f32[r: 40] = max[k: 1000](z[r, k])",
      "sx: f32[r: 40] = sum[k: 1000](exp(x[r, k] - mx[r]))",
      "sz: f32[r: 40] = sum[k: 1000](exp(z[r, k] - mz[r]))",
      "lx: f32[r: 40, k: 1000] = x[r, k] - mx[r] - log(sx[r])",
      "lz: f32[r: 40, k: 1000] = z[r, k] - mz[r] - log(sz[r])",
      "d: f32[r: 40] = sum[k: 1000](exp(lz[r, k]) * (lz[r, k] - lx[r, k]))",
      "y: f32[r: 40] = d[r] * 10000", "output y"},
     {""}},
};

TEST_CASE("differences keep their digits", "[codegen]") { CheckAll(kDifferences, kDifference); }

}  // namespace
}  // namespace warpsmith::codegen
