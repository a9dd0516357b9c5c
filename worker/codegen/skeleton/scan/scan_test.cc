// Scans on the host device, against the oracle: what they combine, where their axes lie, maps
// around them, and every knob.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/graph.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/testing.h"
#include "worker/kernels/kernel_testing.h"

namespace warpsmith::codegen {
namespace {

using Lines = std::vector<std::string>;

graph::Graph MustParse(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status().message());
  REQUIRE(graph.ok());
  INFO(graph::Validate(*graph).message());
  REQUIRE(graph::Validate(*graph).ok());
  return *std::move(graph);
}

// Right, or refused where that is allowed.
bool Check(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed,
           bool may_refuse) {
  const absl::Status status = RunAndCompare(graph, schedule, seed);
  INFO(absl::StrJoin(graph::Print(graph), "\n") << "\n" << schedule.DebugString());
  INFO(status.message());
  if (may_refuse && absl::IsInvalidArgument(status)) return false;
  CHECK(status.ok());
  return true;
}

const Lines kGraphs[] = {
    {"input x: f32[5, 300] ~ normal", "y: f32[r: 5, k: 300] = cumsum[k](x[r, k])", "output y"},
    {"input x: f32[5, 300] ~ normal", "y: f32[r: 5, k: 300] = cumsum[k, reverse](x[r, k])",
     "output y"},
    {"input x: f32[5, 300] ~ normal", "y: f32[r: 5, k: 300] = cumsum[k, exclusive](x[r, k])",
     "output y"},
    {"input x: f32[5, 37] ~ uniform(0.9, 1.1)",
     "y: f32[r: 5, k: 37] = cumprod[k, reverse, exclusive](x[r, k])", "output y"},
    {"input x: f32[3, 1] ~ normal", "y: f32[r: 3, k: 1] = cumsum[k](x[r, k])", "output y"},
    {"input x: f32[128, 8, 1] ~ normal", "c: f32[a: 128, b: 8, k: 1] = cumsum[k](x[a, b, k])",
     "y: f32[a: 128, b: 8, k: 1] = x[a, b, k] + cos(c[a, b, k])", "output y"},
    {"input x: f32[8, 1, 12] ~ normal", "c: f32[a: 8, k: 1, b: 12] = cumsum[k](x[a, k, b])",
     "y: f32[a: 8, k: 1, b: 12] = cos(c[a, k, b])", "output y, c"},
    // one long row
    {"input x: f32[20011] ~ normal", "y: f32[k: 20011] = cumsum[k](x[k])", "output y"},
    {"input x: f32[20000] ~ normal", "y: f32[k: 20000] = cumlogsumexp[k, reverse](x[k])",
     "output y"},
    {"input x: f32[2, 10000] ~ integers(0, 9)", "v, i: f32[r: 2, k: 10000] = cumargmax[k](x[r, k])",
     "output v, i"},
    // many short rows, several in a warp
    {"input x: f32[200, 12] ~ normal", "y: f32[r: 200, k: 12] = cummax[k](x[r, k])", "output y"},
    // halves, kept in f32 and rounded once
    {"input x: bf16[6, 256] ~ normal", "w: f32[r: 6, k: 256] = cumsum[k](f32(x[r, k]))",
     "y: bf16[r: 6, k: 256] = bf16(w[r, k])", "output y"},
    {"input x: f64[4, 130] ~ normal", "v, i: f64[r: 4, k: 130] = cumargmin[k, reverse](x[r, k])",
     "output v, i"},
    {"input x: i64[3, 40] ~ integers(-4, 5)", "y: i64[r: 3, k: 40] = cumprod[k](x[r, k])",
     "z: i64[r: 3, k: 40] = cummax[r, reverse, exclusive](x[r, k])", "output y, z"},
    {"input b: bool[9, 64] ~ integers(0, 2)", "y: bool[r: 9, k: 64] = cummax[k](b[r, k])",
     "output y"},
    {"input x: i8[9, 64] ~ integers(-9, 9)", "y: i8[r: 9, k: 64] = cumsum[k](x[r, k])", "output y"},
    // maps before and after, a mask, weights that rows share
    {"input x: f32[7, 96] ~ normal", "input m: bool[7, 96] ~ integers(0, 2)",
     "input w: f32[96] ~ normal", "input q: f32[7] ~ normal",
     "a: f32[r: 7, k: 96] = select(m[r, k], tanh(x[r, k]) * q[r], 0)",
     "c: f32[r: 7, k: 96] = cumsum[k](a[r, k])",
     "y: f32[r: 7, k: 96] = c[r, k] * w[k] + x[r, k] - q[r]", "output y, c"},
    // read elsewhere: shifted, flipped, transposed, padded
    {"input x: f32[6, 100] ~ normal",
     "y: f32[r: 6, k: 101] = cumsum[k](select(k < 1, 0, x[r, k - 1]))", "output y"},
    {"input x: f32[6, 100] ~ normal", "y: f32[r: 6, k: 100] = cumsum[k](x[5 - r, 99 - k])",
     "output y"},
    {"input x: f32[100, 8] ~ normal", "y: f32[r: 8, k: 100] = cumsum[k](x[k, r])", "output y"},
    // outer axes
    {"input x: f32[3, 70, 20] ~ normal", "y: f32[o: 3, k: 70, c: 20] = cumsum[k](x[o, k, c])",
     "output y"},
    {"input x: f32[300, 5] ~ normal", "y: f32[k: 300, c: 5] = cumsum[k, reverse](x[k, c])",
     "output y"},
    {"input x: f32[4, 33, 2, 3] ~ normal",
     "y: f32[o: 4, k: 33, a: 2, b: 3] = cumlogsumexp[k, exclusive](x[o, k, a, b] * 2)",
     "z: f32[o: 4, k: 33, a: 2, b: 3] = exp(y[o, k, a, b])", "output z"},
    // few columns of a long axis
    {"input x: f32[5000, 4] ~ normal", "y: f32[k: 5000, c: 4] = cumsum[k](x[k, c])", "output y"},
    {"input x: bf16[900, 24] ~ normal", "v, i: bf16[k: 900, c: 24] = cumargmax[k](x[k, c])",
     "output i, v"},
    {"state s: f32[6, 64]", "n: f32[r: 6, k: 64] = cumsum[k](s[r, k])", "output s", "update s = n"},
    // from one scan to the next, over the other axis
    {"input x: f32[12, 40] ~ normal", "a: f32[r: 12, k: 40] = cumsum[k](x[r, k])",
     "m: f32[r: 12] = max[k: 40](a[r, k])", "y: f32[r: 12, k: 40] = cumsum[r](a[r, k] - m[r])",
     "output y"},
};

TEST_CASE("scans under the default schedule", "[codegen]") {
  int seed = 1;
  for (const Lines& lines : kGraphs) {
    const graph::Graph graph = MustParse(lines);
    Check(graph, DefaultSchedule(graph, TestTarget()), seed++, false);
    Check(graph, OpByOpSchedule(graph, TestTarget()), seed++, false);
  }
}

TEST_CASE("scans under random knobs", "[codegen]") {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  int right = 0, refused = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const graph::Graph graph = MustParse(kGraphs[random() % std::size(kGraphs)]);
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    const auto infos = Describe(graph, schedule, TestTarget());
    REQUIRE(infos.ok());
    for (int g = 0; g < schedule.groups_size(); ++g) {
      if ((*infos)[g].skeleton != v1::Group::kScan) continue;
      v1::ScanKnobs& scan = *schedule.mutable_groups(g)->mutable_scan();
      scan.set_block_threads(pick({0, 32, 64, 128, 256}));
      scan.set_threads_per_row(pick({0, 0, 2, 8, 32, 64, 128}));
      scan.set_blocks(pick({0, 1, 2, 3, 4}));
      scan.set_blocks_per_sm(pick({0, 1, 2}));
      scan.set_vectors(pick({0, 1, 2, 3, 5}));
      scan.set_chunks(pick({0, 1, 2, 4}));
      scan.set_vector_bytes(pick({0, 4, 8, 16}));
      if (pick({0, 1})) {
        schedule.mutable_groups(g)->mutable_precision()->set_accumulator(v1::ACCUMULATOR_F64);
      }
    }
    ++(Check(graph, schedule, 100 + seed, true) ? right : refused);
  }
  CHECK(right > 15);
  INFO(refused << " refused");
}

TEST_CASE("blocks that would have nothing of a chunk are refused", "[codegen]") {
  const struct {
    Lines graph;
    const char* knobs;
    const char* refusal;
  } cases[] = {
      {{"input x: f32[3, 1] ~ normal", "y: f32[r: 3, k: 1] = cumsum[k](x[r, k])", "output y"},
       "block_threads: 32 threads_per_row: 32 blocks: 2 vectors: 1 vector_bytes: 4",
       "group 'y': scan.blocks is 2; it must be at most 1: the axis of 1 has so many parts of "
       "vectors * threads_per_row, 1 * 32"},
      {{"input x: f32[3, 65] ~ normal", "y: f32[r: 3, k: 65] = cumsum[k](x[r, k])", "output y"},
       "block_threads: 32 threads_per_row: 32 blocks: 3 vectors: 1 vector_bytes: 4",
       ""},
      {{"input x: f32[65, 8] ~ normal", "y: f32[k: 65, c: 8] = cumsum[k](x[k, c])", "output y"},
       "block_threads: 64 threads_per_row: 16 blocks: 4 vectors: 2 vector_bytes: 4",
       "scan.blocks is 4; it must be at most 3"},
  };
  for (const auto& c : cases) {
    INFO(c.knobs);
    const graph::Graph graph = MustParse(c.graph);
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    REQUIRE(google::protobuf::TextFormat::ParseFromString(
        c.knobs, schedule.mutable_groups(0)->mutable_scan()));
    const auto plan = Lower(graph, schedule, TestTarget());
    CHECK(plan.ok() == (*c.refusal == 0));
    CHECK_THAT(std::string(plan.status().message()), Catch::Contains(c.refusal));
  }
}

// Sequences whose products leave the range of float, one element after the other or only in parts.
// Powers of two where the range ends matter, so that rounding decides nothing.
using Sequence = std::function<float(int k, std::mt19937& random)>;
const std::pair<const char*, Sequence> kSequences[] = {
    {"three times uniform",
     [](int, auto& r) { return 3 * std::uniform_real_distribution<float>(1e-6f, 1)(r); }},
    {"uniform", [](int, auto& r) { return std::uniform_real_distribution<float>(0, 1)(r); }},
    {"near one", [](int, auto& r) { return std::uniform_real_distribution<float>(0.9f, 1.1f)(r); }},
    {"up and down",
     [](int, auto& r) { return std::exp(3 * std::normal_distribution<float>()(r)); }},
    {"signs", [](int, auto& r) { return std::normal_distribution<float>(0, 2)(r); }},
    {"small, then a part beyond the range",
     [](int k, auto&) { return k < 100   ? 0.5f
                               : k < 300 ? 2.0f
                                         : 0.9f; }},
    {"large, then a part below the range",
     [](int k, auto&) { return k < 100   ? 2.0f
                               : k < 300 ? 0.5f
                                         : 1.1f; }},
    {"infinite, and back", [](int k, auto&) { return k < 200 ? -2.0f : 0.5f; }},
    {"zero, and back", [](int k, auto&) { return k < 200 ? 0.5f : 2.0f; }},
    {"a zero, then beyond the range", [](int k, auto&) { return k == 50 ? 0.0f : 2.0f; }},
    {"beyond the range, then a zero", [](int k, auto&) { return k == 700 ? 0.0f : 2.0f; }},
    {"zeros late", [](int k, auto&) { return k % 300 == 299 ? -0.0f : 1.5f; }},
    {"an infinity after zero", [](int k, auto&) { return k == 800 ? INFINITY : 0.5f; }},
    {"an infinity early", [](int k, auto&) { return k == 3 ? -INFINITY : 0.5f; }},
    {"a NaN", [](int k, auto&) { return k == 777 ? NAN : 1.001f; }},
    {"both ends in a part",
     [](int k, auto&) { return k % 600 < 300 ? (k % 2 ? 1e30f : 1.0f) : 1e-30f; }},
    {"denormal", [](int k, auto&) { return k == 5    ? 3e-42f
                                           : k < 400 ? 1.5f
                                                     : 0.75f; }},
};

TEST_CASE("a product that leaves the range of float is what one element after the other makes it",
          "[codegen]") {
  constexpr int kRows = std::size(kSequences), kLength = 1500;
  struct Case {
    const char* scan;
    const char* knobs;
    bool columns;
  };
  const Case cases[] = {
      {"cumprod[k]", "", false},
      {"cumprod[k]", "block_threads: 64 vectors: 2", false},
      {"cumprod[k, reverse]", "block_threads: 32 vectors: 1 vector_bytes: 4", false},
      {"cumprod[k, exclusive]", "block_threads: 128 vectors: 3 threads_per_row: 8", false},
      {"cumprod[k]", "block_threads: 32 threads_per_row: 32 blocks: 3 vectors: 2 vector_bytes: 8",
       false},
      {"cumprod[k]", "", true},
      {"cumprod[k, reverse, exclusive]", "block_threads: 128 threads_per_row: 16 vectors: 3", true},
      {"cumprod[k]", "block_threads: 64 threads_per_row: 16 blocks: 2 vectors: 2", true},
  };
  for (const Case& c : cases) {
    const std::string axes = c.columns ? absl::StrCat("k: ", kLength, ", r: ", kRows)
                                       : absl::StrCat("r: ", kRows, ", k: ", kLength);
    const std::string type = c.columns ? absl::StrCat("f32[", kLength, ", ", kRows, "]")
                                       : absl::StrCat("f32[", kRows, ", ", kLength, "]");
    const graph::Graph graph = MustParse(
        {absl::StrCat("input x: ", type, " ~ normal"),
         absl::StrCat("y: f32[", axes, "] = ", c.scan, c.columns ? "(x[k, r])" : "(x[r, k])"),
         "output y"});
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    REQUIRE(google::protobuf::TextFormat::ParseFromString(
        c.knobs, schedule.mutable_groups(0)->mutable_scan()));
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(c.scan << " " << c.knobs << (c.columns ? " columns" : " rows"));
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    const bool reverse = absl::StrContains(c.scan, "reverse"),
               exclusive = absl::StrContains(c.scan, "exclusive");
    std::vector<float> x(kRows * kLength), want(kRows * kLength);
    for (int r = 0; r < kRows; ++r) {
      std::mt19937 random(r);
      float product = 1;
      for (int k = 0; k < kLength; ++k) {
        const int place = reverse ? kLength - 1 - k : k;
        const int at = c.columns ? place * kRows + r : r * kLength + place;
        x[at] = kSequences[r].second(k, random);
        if (exclusive) want[at] = product;
        product *= x[at];
        if (!exclusive) want[at] = product;
      }
    }
    kernels::TestRun run(*plan);
    for (int b = 0; b < plan->buffers_size(); ++b) {
      if (plan->buffers(b).kind() == v1::Buffer::INPUT) run.Write(b, x);
    }
    run.Run();
    for (int b = 0; b < plan->buffers_size(); ++b) {
      if (plan->buffers(b).kind() != v1::Buffer::OUTPUT) continue;
      const std::vector<float> got = run.Read<float>(b);
      for (int r = 0; r < kRows; ++r) {
        int wrong = 0;
        std::string first;
        for (int k = 0; k < kLength; ++k) {
          const int at = c.columns ? k * kRows + r : r * kLength + k;
          const float g = got[at], w = want[at];
          const bool right = std::isnan(w)   ? std::isnan(g)
                             : std::isinf(w) ? g == w
                                             : std::abs(g - w) <= 1e-4f * std::abs(w) + 1e-37f;
          if (!right && wrong++ == 0) first = absl::StrCat("at ", k, ": ", g, " in place of ", w);
        }
        INFO(kSequences[r].first << ", " << first);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("random graphs with scans", "[codegen]") {
  for (int seed = 1; seed <= 25; ++seed) {
    const graph::Graph graph = graph::RandomGraph(seed, {.scans = true});
    Check(graph, DefaultSchedule(graph, TestTarget()), seed, false);
  }
}

TEST_CASE("what a scan's kernel cannot be is refused by name", "[codegen]") {
  const graph::Graph graph =
      MustParse({"input x: f32[4, 64] ~ normal", "a: f32[r: 4, k: 64] = cumsum[k](x[r, k])",
                 "y: f32[r: 4, k: 64] = a[r, 63 - k]", "output y"});
  const auto refusal = [&](auto change) {
    v1::Schedule schedule;
    schedule.add_groups()->add_roots("a");
    schedule.add_groups()->add_roots("y");
    change(schedule);
    return std::string(Lower(graph, schedule, TestTarget()).status().message());
  };
  CHECK(refusal([](v1::Schedule&) {}) == "");
  CHECK_THAT(refusal([](v1::Schedule& s) { s.mutable_groups()->DeleteSubrange(0, 1); }),
             Catch::Contains("needs other elements of it"));
  CHECK_THAT(refusal([](v1::Schedule& s) { s.mutable_groups(0)->mutable_rows(); }),
             Catch::Contains("group 'a': "));
  CHECK_THAT(refusal([](v1::Schedule& s) { s.mutable_groups(1)->mutable_scan(); }),
             Catch::Contains("it has no scan"));
  CHECK_THAT(refusal([](v1::Schedule& s) { s.mutable_groups(0)->mutable_scan()->set_chunks(99); }),
             Catch::Contains("group 'a': scan.chunks is 99; it must be 1 to 8"));
  CHECK_THAT(refusal([](v1::Schedule& s) {
               s.mutable_groups(0)->mutable_scan()->set_block_threads(32);
               s.mutable_groups(0)->mutable_scan()->set_threads_per_row(64);
             }),
             Catch::Contains("it must be at most block_threads, 32"));
  CHECK_THAT(
      refusal([](v1::Schedule& s) {
        s.mutable_groups(0)->mutable_precision()->set_accumulator(v1::ACCUMULATOR_COMPENSATED);
      }),
      Catch::Contains("F32 or F64"));
}

// Chunk decays of a state-space block: what the running sum leaves of the exponent is a share of
// e^50.
TEST_CASE("running sums that become exponents are added up in fp64", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input a: f32[40, 256] ~ normal", "c: f32[r: 40, l: 256] = cumsum[l](a[r, l])",
                  "d: f32[r: 40, l: 256] = c[r, 255] - c[r, l]",
                  "y: f32[r: 40, l: 256] = exp(d[r, l])", "output c, y"});
  const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
  REQUIRE(schedule.groups(0).precision().accumulator() == v1::ACCUMULATOR_F64);
  v1::Schedule single = schedule;
  single.mutable_groups(0)->mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
  constexpr double kShare = 4e-6;  // of e^50: what rounding both sums once leaves
  std::vector<Trial> rounded_once, rounded_often;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    rounded_once.push_back({graph, schedule, seed, false, kShare});
    rounded_often.push_back({graph, single, seed, false, kShare});
  }
  for (const absl::Status& answer : RunAndCompareAll(rounded_once)) CHECK(answer.message() == "");
  int missed = 0;
  for (const absl::Status& answer : RunAndCompareAll(rounded_often)) missed += !answer.ok();
  CHECK(missed > 0);
  // A sum that nothing is raised to stays as it was.
  const graph::Graph plain =
      ParseOrDie({"input a: f32[40, 256] ~ normal",
                  "c: f32[r: 40, l: 256] = cumsum[l](exp(a[r, l]))", "output c"});
  CHECK(DefaultSchedule(plain, TestTarget()).groups(0).precision().accumulator() ==
        v1::ACCUMULATOR_AUTO);
}

TEST_CASE("what a row comes to at its end is known all along it", "[codegen]") {
  const struct {
    const char* what;
    Lines graph;
    bool together;
  } cases[] = {
      {"decays",
       {"input a: f32[3, 7, 256] ~ uniform(-0.1, 0)",
        "c: f32[b: 3, h: 7, l: 256] = cumsum[l](a[b, h, l])",
        "y: f32[b: 3, h: 7, l: 256] = exp(c[b, h, 255] - c[b, h, l])", "output c, y"},
       true},
      {"an odd row, backwards, shares that need the end alone",
       {"input a: f32[9, 131] ~ uniform(0, 1)",
        "c: f32[r: 9, l: 131] = cumsum[l, reverse](a[r, l])",
        "y: f32[r: 9, l: 131] = a[r, l] / c[r, 0] + sqrt(c[r, 0])", "output y"},
       true},
      {"a maximum of short rows",
       {"input a: bf16[50, 6] ~ normal", "c: bf16[r: 50, l: 6] = cummax[l](a[r, l])",
        "y: f32[r: 50, l: 6] = f32(c[r, l]) - f32(c[r, 5])", "output y"},
       true},
      {"long rows",
       {"input a: f32[3, 40000] ~ uniform(-0.1, 0)", "c: f32[r: 3, l: 40000] = cumsum[l](a[r, l])",
        "y: f32[r: 3, l: 40000] = c[r, 39999] - c[r, l]", "output c, y"},
       false},
      {"along an outer axis",
       {"input a: f32[2, 30, 16] ~ normal", "c: f32[b: 2, l: 30, d: 16] = cumsum[l](a[b, l, d])",
        "y: f32[b: 2, l: 30, d: 16] = c[b, 29, d] - c[b, l, d]", "output c, y"},
       false},
      {"without its own element",
       {"input a: f32[9, 64] ~ normal", "c: f32[r: 9, l: 64] = cumsum[l, exclusive](a[r, l])",
        "y: f32[r: 9, l: 64] = c[r, 63] - c[r, l]", "output c, y"},
       false},
      {"another place than the end",
       {"input a: f32[9, 64] ~ normal", "c: f32[r: 9, l: 64] = cumsum[l](a[r, l])",
        "y: f32[r: 9, l: 64] = c[r, 62] - c[r, l]", "output c, y"},
       false},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    const graph::Graph graph = ParseOrDie(c.graph);
    const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    CHECK((schedule.groups_size() == 1) == c.together);
    std::vector<Trial> trials;
    for (uint64_t seed = 1; seed <= 3; ++seed) trials.push_back({graph, schedule, seed, seed == 3});
    if (c.together) {
      for (int threads : {64, 512}) {
        trials.push_back({graph, schedule, 4});
        trials.back().schedule.mutable_groups(0)->mutable_scan()->set_block_threads(threads);
      }
    }
    for (const absl::Status& answer : RunAndCompareAll(trials)) CHECK(answer.message() == "");
  }
}

}  // namespace
}  // namespace warpsmith::codegen
