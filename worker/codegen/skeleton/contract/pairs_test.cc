// Two products of one factor, in one kernel, on the host device against the oracle.
#include "absl/strings/match.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"

namespace warpsmith::codegen {
namespace {

TEST_CASE("two products of one factor", "[codegen]") {
  struct PairCase {
    const char* what;
    Lines graph;
    std::vector<std::string> roots;
  };
  const PairCase cases[] = {
      {"a gate and what it gates, ragged",
       {"input x: bf16[70, 72] ~ normal", "param w: bf16[104, 72] ~ normal",
        "param v: bf16[104, 72] ~ normal",
        "s: f32[m: 70, n: 104] = sum[k: 72](f32(x[m, k]) * f32(w[n, k]))",
        "g: bf16[m: 70, n: 104] = bf16(s[m, n])",
        "t: f32[m: 70, n: 104] = sum[k: 72](f32(x[m, k]) * f32(v[n, k]))",
        "u: bf16[m: 70, n: 104] = bf16(t[m, n])",
        "y: bf16[m: 70, n: 104] = bf16(f32(g[m, n]) / (1.0 + exp(-f32(g[m, n]))) * f32(u[m, n]))",
        "output y"},
       {"y"}},
      {"weights along N in halves of one tensor, batches, a bias each and both sums",
       {"input x: f32[2, 40, 48] ~ normal", "param w: f32[48, 2, 72] ~ normal",
        "param c: f32[2, 72] ~ normal",
        "s: f32[b: 2, m: 40, n: 72] = sum[k: 48](x[b, m, k] * w[k, 0, n])",
        "t: f32[b: 2, m: 40, n: 72] = sum[k: 48](w[k, 1, n] * x[b, m, k])",
        "y: f32[b: 2, m: 40, n: 72] = max(s[b, m, n] + c[0, n], 0.0) * (t[b, m, n] + c[1, n])",
        "output y, t"},
       {"y", "t"}},
      {"what is left of a triangle of both, of batches of weights",
       {"input x: f16[3, 64, 40] ~ normal", "input w: f16[3, 2, 64, 40] ~ normal",
        "s: f32[b: 3, m: 64, n: 64] = sum[k: 40](f32(x[b, m, k]) * f32(w[b, 0, n, k]))",
        "t: f32[b: 3, m: 64, n: 64] = sum[k: 40](f32(x[b, m, k]) * f32(w[b, 1, n, k]))",
        "y: f16[b: 3, m: 64, n: 64] = f16(select(n <= m, s[b, m, n] * t[b, m, n], 0.0))",
        "output y"},
       {"y"}},
      {"a map before both",
       {"input x: bf16[50, 64] ~ normal", "param w: bf16[2, 64, 56] ~ normal",
        "s: f32[m: 50, n: 56] = sum[k: 64](f32(bf16(max(f32(x[m, k]), 0.0))) * f32(w[0, k, n]))",
        "t: f32[m: 50, n: 56] = sum[k: 64](f32(bf16(max(f32(x[m, k]), 0.0))) * f32(w[1, k, n]))",
        "y: f32[m: 50, n: 56] = s[m, n] - t[m, n]", "output y"},
       {"y"}},
  };
  const char* const knobs[] = {
      "contract {}",
      "contract { math: PRODUCT_PLAIN tile_m: 32 tile_n: 32 vector_bytes: 4 }",
      "contract { math: PRODUCT_PLAIN tile_m: 16 tile_n: 64 run: 32 } precision { accumulator: "
      "ACCUMULATOR_F64 }",
      "contract { math: PRODUCT_PLAIN tile_m: 64 tile_n: 128 raster: 1 }",
      "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 64 }",
      "contract { math: PRODUCT_TENSOR tile_m: 32 tile_n: 128 run: 32 }",
      "contract { math: PRODUCT_PLAIN split: 2 }",
      "contract { math: PRODUCT_PLAIN tile_n: 16 }",
      "contract { math: PRODUCT_FP16X3 }",
      "contract { math: PRODUCT_FEW }",
  };
  std::vector<Trial> trials;
  std::vector<std::string> names;
  uint64_t seed = 1;
  for (const PairCase& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* one : knobs) {
      trials.push_back({graph, OneGroup(c.roots, one), seed++, seed % 3 == 0});
      names.push_back(absl::StrCat(c.what, ": ", one));
    }
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(names[i]);
    INFO(answers[i].message());
    const absl::string_view said = answers[i].message();
    const auto refused = [&](const char* knob, const char* why) {
      return absl::StrContains(names[i], knob) && absl::StrContains(said, why);
    };
    CHECK((answers[i].ok() || refused("split", "parts of K of two products together") ||
           refused("tile_n: 16 ", "of two products together it is 32") ||
           refused("FP16X3", "PRODUCT_TENSOR and PRODUCT_PLAIN make them") ||
           refused("FEW", "PRODUCT_TENSOR and PRODUCT_PLAIN make them") ||
           (refused("TENSOR", "both fp16") && i / std::size(knobs) == 1)));
    CHECK((i % std::size(knobs) < 4) <= answers[i].ok());
    CHECK((i % std::size(knobs) < 6 || !answers[i].ok()));
  }
}

TEST_CASE("what are no two products of one factor", "[codegen]") {
  const char* const lines[] = {
      // other rows; B along the other axis; sums of another K; the factor is of columns
      "t: f32[m: 40, n: 48] = sum[k: 64](z[m, k] * v[n, k])",
      "t: f32[m: 40, n: 48] = sum[k: 64](x[m, k] * u[k, n])",
      "t: f32[m: 40, n: 48] = sum[k: 32](x[m, k] * v[n, k])",
      "t: f32[m: 40, n: 48] = sum[k: 64](z[m, k] * w[n, k])",
  };
  for (const char* line : lines) {
    INFO(line);
    const graph::Graph graph = ParseOrDie(
        {"input x: f32[40, 64] ~ normal", "input z: f32[40, 64] ~ normal",
         "input w: f32[48, 64] ~ normal", "input v: f32[48, 64] ~ normal",
         "input u: f32[64, 48] ~ normal", "s: f32[m: 40, n: 48] = sum[k: 64](x[m, k] * w[n, k])",
         line, "y: f32[m: 40, n: 48] = s[m, n] * t[m, n]", "output y"});
    CHECK_FALSE(Lower(graph, OneGroup({"y"}, "contract {}"), TestTarget()).ok());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
