// Products as a library's steps: which of their results it writes itself, and that all are right.
#include "worker/codegen/testing.h"

namespace warpsmith::codegen {
namespace {

struct ByLibrary {
  const char* what;
  Lines graph;
  int kernels;  // beside the product
};

const ByLibrary kByLibrary[] = {
    {"as it lies",
     {"input x: bf16[56, 64] ~ normal", "param w: bf16[48, 64] ~ normal",
      "s: f32[m: 56, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: bf16[m: 56, n: 48] = bf16(s[m, n])", "output y"},
     0},
    {"both turned, a batch, sums in fp32",
     {"input x: f16[3, 64, 40] ~ normal", "input w: f16[3, 64, 48] ~ normal",
      "y: f32[b: 3, m: 40, n: 48] = sum[k: 64](f32(x[b, k, m]) * f32(w[b, k, n]))", "output y"},
     0},
    {"heads that lie between each other, on both sides",
     {"input q: f16[24, 3, 32] ~ normal", "input k: f16[28, 3, 32] ~ normal",
      "s: f32[i: 24, h: 3, j: 28] = sum[d: 32](f32(q[i, h, d]) * f32(k[j, h, d]))",
      "y: f16[i: 24, h: 3, j: 28] = f16(s[i, h, j])", "output y"},
     0},
    {"a part of a tensor, one row",
     {"input x: bf16[5, 96] ~ normal", "input w: bf16[40, 96] ~ normal",
      "s: f32[n: 40] = sum[k: 64](f32(x[3, k + 32]) * f32(w[n, k + 32]))",
      "y: bf16[n: 40] = bf16(s[n])", "output y"},
     0},
    {"rows in pieces, for all of which the other operand is the same",
     {"param w: bf16[48, 72] ~ normal", "input x: bf16[3, 72, 64] ~ normal",
      "s: f32[b: 3, m: 48, n: 64] = sum[k: 72](f32(w[m, k]) * f32(x[b, k, n]))",
      "y: bf16[b: 3, m: 48, n: 64] = bf16(s[b, m, n])", "output y"},
     0},
    {"something made of it",
     {"input x: bf16[56, 64] ~ normal", "param w: bf16[64, 48] ~ normal",
      "param c: bf16[48] ~ normal",
      "s: f32[m: 56, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[k, n]))",
      "y: bf16[m: 56, n: 48] = bf16(max(s[m, n] + f32(c[n]), 0.0))", "output y"},
     1},
    {"a bias",
     {"input x: bf16[56, 64] ~ normal", "param w: bf16[48, 64] ~ normal",
      "param c: bf16[48] ~ normal",
      "s: f32[m: 56, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: bf16[m: 56, n: 48] = bf16(f32(c[n]) + s[m, n])", "output y"},
     0},
    {"a bias out of a longer one, of all in a batch",
     {"input x: f16[3, 24, 64] ~ normal", "input w: f16[3, 64, 48] ~ normal",
      "param c: f16[80] ~ normal",
      "s: f32[b: 3, m: 24, n: 48] = sum[k: 64](f32(x[b, m, k]) * f32(w[b, k, n]))",
      "y: f16[b: 3, m: 24, n: 48] = f16(s[b, m, n] + f32(c[n + 8]))", "output y"},
     0},
    {"a bias for sums of fp32",
     {"input x: f16[24, 64] ~ normal", "param w: f16[48, 64] ~ normal", "param c: f32[48] ~ normal",
      "s: f32[m: 24, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f32[m: 24, n: 48] = s[m, n] + c[n]", "output y"},
     0},
    {"a bias that begins where the library does not read",
     {"input x: f16[24, 64] ~ normal", "param w: f16[48, 64] ~ normal", "param c: f16[49] ~ normal",
      "s: f32[m: 24, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f16[m: 24, n: 48] = f16(s[m, n] + f32(c[n + 1]))", "output y"},
     1},
    {"a bias of another type, and one of rows",
     {"input x: f16[48, 64] ~ normal", "param w: f16[48, 64] ~ normal", "param c: f32[48] ~ normal",
      "s: f32[m: 48, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f16[m: 48, n: 48] = f16(s[m, n] + c[n])", "output y"},
     1},
    {"what is added to rows",
     {"input x: f16[48, 64] ~ normal", "param w: f16[48, 64] ~ normal", "param c: f16[48] ~ normal",
      "s: f32[m: 48, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f16[m: 48, n: 48] = f16(s[m, n] + f32(c[m]))", "output y"},
     1},
    {"a residual",
     {"input x: f16[48, 64] ~ normal", "param w: f16[48, 64] ~ normal",
      "input c: f16[48, 48] ~ normal",
      "s: f32[m: 48, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f16[m: 48, n: 48] = f16(s[m, n] + f32(c[m, n]))", "output y"},
     1},
    {"sums that are added to themselves",
     {"input x: f16[48, 64] ~ normal", "param w: f16[48, 64] ~ normal",
      "s: f32[m: 48, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: f16[m: 48, n: 48] = f16(s[m, n] + s[m, n])", "output y"},
     1},
    {"the result turned",
     {"input a: f16[36, 40] ~ normal", "input b: f16[52, 40] ~ normal",
      "s: f32[m: 36, n: 52] = sum[k: 40](f32(a[m, k]) * f32(b[n, k]))",
      "y: f16[m: 36, n: 52] = f16(s[m, n])", "z: f16[n: 52, m: 36] = f16(s[m, n])", "output y, z"},
     1},
    {"operands that are written out first, K odd",
     {"input a: bf16[36, 41] ~ normal", "input b: bf16[52, 41] ~ normal",
      "s: f32[m: 36, n: 52] = sum[k: 41](f32(a[m, k]) * f32(b[n, k]))",
      "y: bf16[m: 36, n: 52] = bf16(s[m, n])", "output y"},
     1},
    {"fp32 as it lies",
     {"input x: f32[56, 64] ~ normal", "param w: f32[48, 64] ~ normal",
      "y: f32[m: 56, n: 48] = sum[k: 64](x[m, k] * w[n, k])", "output y"},
     0},
    {"fp32 turned, a batch, a part of a tensor and a bias",
     {"input x: f32[3, 80, 40] ~ normal", "input w: f32[3, 80, 48] ~ normal",
      "param c: f32[48] ~ normal",
      "s: f32[b: 3, m: 40, n: 48] = sum[k: 64](x[b, k + 16, m] * w[b, k, n])",
      "y: f32[b: 3, m: 40, n: 48] = s[b, m, n] + c[n]", "output y"},
     0},
    {"what is made of sums of fp32",
     {"input x: f32[56, 64] ~ normal", "param w: f32[48, 64] ~ normal",
      "s: f32[m: 56, n: 48] = sum[k: 64](x[m, k] * w[n, k])",
      "y: f32[m: 56, n: 48] = max(s[m, n], 0.0)", "output y"},
     1},
    {"what a state holds from now on",
     {"state h: f32[36, 52] ~ normal", "input a: bf16[36, 40] ~ normal",
      "input b: bf16[52, 40] ~ normal",
      "y: f32[m: 36, n: 52] = sum[k: 40](f32(a[m, k]) * f32(b[n, k]))", "update h = y"},
     1},
};

TEST_CASE("products by a library", "[codegen]") {
  std::vector<Trial> trials;
  uint64_t seed = 1;
  for (const ByLibrary& one : kByLibrary) {
    INFO(one.what);
    const graph::Graph graph = ParseOrDie(one.graph);
    v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    REQUIRE(schedule.groups_size() == 1);
    v1::Group& group = *schedule.mutable_groups(0);
    group.mutable_contract()->Clear();
    group.mutable_contract()->set_math(v1::PRODUCT_LIBRARY);
    group.mutable_contract()->set_algorithm(1 + static_cast<int>(seed % 8));
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    int products = 0, kernels = 0;
    for (const v1::Step& step : plan->steps()) {
      kernels += step.has_launch();
      products += step.has_product();
      if (step.has_product()) CHECK(step.product().algorithm() == 1 + seed % 8);
    }
    CHECK(products == 1);
    CHECK(kernels == one.kernels);
    trials.push_back({graph, schedule, seed++, seed % 2 == 0});
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(kByLibrary[i].what << ": " << answers[i].message());
    CHECK(answers[i].ok());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
