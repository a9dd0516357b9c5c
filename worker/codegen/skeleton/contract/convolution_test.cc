// Convolutions as the import writes them (cli/import/convolutions.cc): whatever way they are
// multiplied, their windows, groups and remainders are found.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "worker/codegen/run_and_compare.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

const Case kConvolutions[] = {
    {"padded, of stride 2 down",
     {"input x: f32[2, 5, 9, 8] ~ normal", "input w: f32[6, 5, 3, 3] ~ normal",
      "y: f32[n: 2, o: 6, i: 5, j: 8] = sum[c: 5, u: 3, v: 3](select(0 <= 2 * i + u - 1 and 2 * i "
      "+ "
      "u - 1 < 9 and 0 <= j + v - 1 and j + v - 1 < 8, x[n, c, 2 * i + u - 1, j + v - 1], 0.0) * "
      "w[o, c, u, v])",
      "output y"}},
    {"dilated, with a bias and what is made of the sum",
     {"input x: f32[1, 16, 20, 20] ~ normal", "input w: f32[24, 16, 3, 3] ~ normal",
      "input b: f32[24] ~ normal",
      "s: f32[n: 1, o: 24, i: 16, j: 16] = sum[c: 16, u: 3, v: 3](x[n, c, i + 2 * u, j + 2 * v] * "
      "w[o, c, u, v])",
      "y: f32[n: 1, o: 24, i: 16, j: 16] = max(s[n, o, i, j] + b[o], 0.0)", "output y"}},
    {"in groups",
     {"input x: f32[2, 6, 7] ~ normal", "input w: f32[8, 3, 3] ~ normal",
      "y: f32[n: 2, g: 2, o: 4, i: 5] = sum[c: 3, u: 3](x[n, g * 3 + c, i + u] * w[g * 4 + o, c, "
      "u])",
      "output y"}},
    {"in volumes",
     {"input x: f32[1, 3, 6, 5, 7] ~ normal", "input w: f32[8, 3, 2, 3, 2] ~ normal",
      "y: f32[n: 1, o: 8, h: 5, i: 3, j: 6] = sum[c: 3, t: 2, u: 3, v: 2](x[n, c, h + t, i + u, j "
      "+ "
      "v] * w[o, c, t, u, v])",
      "output y"}},
    {"transposed, a remainder's axis",
     {"input x: f32[2, 4, 5] ~ normal", "input w: f32[4, 3, 2] ~ normal",
      "y: f32[n: 2, o: 3, q: 5, r: 2] = sum[c: 4](x[n, c, q] * w[c, o, r])", "output y"}},
    {"its gradient by the weights",
     {"input x: f32[2, 5, 8] ~ normal", "input d: f32[2, 6, 8] ~ normal",
      "y: f32[o: 6, c: 5, u: 3] = sum[n: 2, i: 8](select(0 <= i + u - 1 and i + u - 1 < 8, x[n, c, "
      "i "
      "+ u - 1], 0.0) * d[n, o, i])",
      "output y"}},
};

// With what comes behind: a choice by the remainder; each channel by itself.
const Case kOthers[] = {
    {"transposed, of stride 2",
     {"input x: f32[2, 4, 5] ~ normal", "input w: f32[4, 3, 3] ~ normal",
      "a: f32[n: 2, o: 3, q: 6] = sum[c: 4, j: 2](select(0 <= q - j and q - j < 5, x[n, c, q - j], "
      "0.0) * w[c, o, 2 * j])",
      "b: f32[n: 2, o: 3, q: 6] = sum[c: 4](select(q < 5, x[n, c, q], 0.0) * w[c, o, 1])",
      "y: f32[n: 2, o: 3, t: 11] = select(t % 2 < 1, a[n, o, t / 2], b[n, o, t / 2])", "output y"}},
    {"depthwise",
     {"input x: f32[2, 4, 9, 8] ~ normal", "input w: f32[4, 1, 3, 3] ~ normal",
      "y: f32[n: 2, c: 4, i: 9, j: 8] = sum[u: 3, v: 3](select(0 <= i + u - 1 and i + u - 1 < 9 "
      "and 0 "
      "<= j + v - 1 and j + v - 1 < 8, x[n, c, i + u - 1, j + v - 1], 0.0) * w[c, 0, u, v])",
      "output y"}},
};

TEST_CASE("convolutions are right whichever way they are multiplied", "[codegen]") {
  constexpr double kFull = 1e-5, kElevenBits = 4e-3;
  std::vector<Trial> trials;
  std::vector<std::string> what;
  uint64_t seed = 1;
  for (const Case& c : kConvolutions) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const auto& [knobs, tolerance] :
         {std::pair("contract {}", kFull),
          {"contract { math: PRODUCT_PLAIN tile_m: 32 }", kFull},
          {"contract { math: PRODUCT_FP16X3 }", kFull},
          {"contract { math: PRODUCT_FP16 tile_n: 32 }", kElevenBits}}) {
      trials.push_back({graph, ScheduleOf(graph, knobs), seed++, false, tolerance});
      what.push_back(absl::StrCat(c.what, ", ", knobs));
    }
  }
  for (const Case& c : kOthers) {
    const graph::Graph graph = ParseOrDie(c.graph);
    trials.push_back({graph, FirstSchedule(graph, TestTarget()), seed++, false, kFull});
    what.push_back(c.what);
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(what[i] << ": " << answers[i].message());
    CHECK(answers[i].ok());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
