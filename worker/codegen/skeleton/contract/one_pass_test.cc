// Products of fp32 in one pass of fp16: as near as eleven bits are, right where rows are too wide
// for them, and tried where no more is seen.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

const Lines kFloats = {"input x: f32[40, 72] ~ normal", "input w: f32[48, 72] ~ normal",
                       "s: f32[m: 40, n: 48] = sum[k: 72](x[m, k] * w[n, k])",
                       "y: f32[m: 40, n: 48] = max(s[m, n], 0.0)", "output y"};
const Lines kBatch = {"input x: f32[3, 72, 40] ~ normal", "input w: f32[3, 72, 48] ~ normal",
                      "y: f32[b: 3, m: 40, n: 48] = sum[k: 72](x[b, k, m] * w[b, k, n])",
                      "output y"};
// Beside its largest, elements of a row that fp16 has no place for.
const Lines kWide = {"input x: f32[40, 72] ~ normal", "input w: f32[48, 72] ~ normal",
                     "z: f32[m: 40, k: 72] = x[m, k] * exp(3.0 * w[m, k])",
                     "y: f32[m: 40, n: 48] = sum[k: 72](z[m, k] * w[n, k])", "output y"};
const Lines kRounded = {"input x: bf16[40, 72] ~ normal", "input w: f32[48, 72] ~ normal",
                        "s: f32[m: 40, n: 48] = sum[k: 72](exp(f32(x[m, k])) * w[n, k])",
                        "y: bf16[m: 40, n: 48] = bf16(s[m, n])", "output y"};

const char* const kOnePass[] = {
    "contract { math: PRODUCT_FP16 }",
    "contract { math: PRODUCT_FP16 tile_m: 32 tile_n: 64 split: 2 }",
    "contract { math: PRODUCT_FP16 tile_m: 64 tile_n: 16 run: 32 vector_bytes: 4 }",
};

TEST_CASE("products of fp32 in one pass", "[codegen]") {
  // 2^-11 of each factor, and few of them; a step of bf16.
  constexpr double kTolerance = 4e-3, kStep = 1e-2;
  std::vector<Trial> trials;
  uint64_t seed = 1;
  for (const auto& [lines, tolerance] :
       {std::pair(kFloats, kTolerance), {kBatch, kTolerance}, {kRounded, kStep}}) {
    const graph::Graph graph = ParseOrDie(lines);
    for (const char* knobs : kOnePass) {
      for (const bool special : {false, true})
        trials.push_back({graph, ScheduleOf(graph, knobs), seed++, special, tolerance});
    }
  }
  const graph::Graph wide = ParseOrDie(kWide);
  v1::Schedule schedule = DefaultSchedule(wide, TestTarget());
  schedule.mutable_groups(schedule.groups_size() - 1)
      ->mutable_contract()
      ->set_math(v1::PRODUCT_FP16);
  trials.push_back({wide, schedule, seed++, false, kTolerance});
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(i << ": " << answers[i].message());
    CHECK(answers[i].ok());
  }
}

// Whether a search would try it.
bool IsTried(const graph::Graph& graph) {
  const Target target;
  Describer describer(graph, target);
  const v1::Schedule schedule = DefaultSchedule(graph, target);
  const auto infos = describer.Describe(schedule);
  REQUIRE(infos.ok());
  for (int g = 0; g < schedule.groups_size(); ++g) {
    CHECK((*infos)[g].resolved.contract().math() != v1::PRODUCT_FP16);
    for (const Layout& layout : describer.Layouts(schedule, g)) {
      for (const auto& [knob, value] : layout.knobs) {
        if (knob == "math" && value == v1::PRODUCT_FP16) return true;
      }
    }
  }
  return false;
}

TEST_CASE("one pass is tried where eleven bits are all that is seen", "[codegen]") {
  const Lines large = {"input x: f32[1024, 2048] ~ normal", "input w: f32[2048, 2048] ~ normal",
                       "y: f32[m: 1024, n: 2048] = sum[k: 2048](x[m, k] * w[n, k])", "output y"};
  graph::Graph graph = ParseOrDie(large);
  CHECK_FALSE(IsTried(graph));
  graph.tolerance_alone = true;
  CHECK(IsTried(graph));
  CHECK(
      IsTried(ParseOrDie({"input x: f32[1024, 2048] ~ normal", "input w: f32[2048, 2048] ~ normal",
                          "s: f32[m: 1024, n: 2048] = sum[k: 2048](x[m, k] * w[n, k])",
                          "y: bf16[m: 1024, n: 2048] = bf16(s[m, n])", "output y"})));
}

}  // namespace
}  // namespace warpsmith::codegen
