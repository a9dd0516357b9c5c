// Products on the tensor cores of sm_90a compile as they must to be quick: nothing is spilled, and
// none waits for another. Skipped where there is no NVRTC; what they compute and how fast is
// measured on a card (bench/contract_bench.cc).
#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/problem/units.h"
#include "worker/codegen/hopper_testing.h"
#include "worker/codegen/knob/knob.h"
#include "worker/codegen/testing.h"
#include "worker/device/device.h"
#include "worker/device/plan_check.h"

namespace warpsmith::codegen {
namespace {

constexpr int kRegistersPerBlock = 64 << 10;
// Of kernels round the pipeline.
constexpr int kMostSpill = 16;

struct Case {
  const char* what;
  Lines graph;
  std::vector<const char*> knobs;  // "" : the default
};

// y = a b of these sizes; `a` and `b` as they are in memory: "m, k".
Lines Product(const std::string& type, int64_t m, int64_t n, int64_t k, const std::string& a,
              const std::string& b) {
  const std::vector<std::pair<std::string, std::string>> sizes = {
      {"M", absl::StrCat(m)}, {"N", absl::StrCat(n)}, {"K", absl::StrCat(k)}};
  const auto shape = [&](std::string axes) {
    return absl::StrReplaceAll(
        axes, {{"m", sizes[0].second}, {"n", sizes[1].second}, {"k", sizes[2].second}});
  };
  Lines lines = {absl::StrCat("input a: ", type, "[", shape(a), "] ~ normal"),
                 absl::StrCat("input b: ", type, "[", shape(b), "] ~ normal")};
  if (type == "f32") {
    lines.push_back(
        absl::StrCat("y: f32[m: ", m, ", n: ", n, "] = sum[k: ", k, "](a[", a, "] * b[", b, "])"));
  } else {
    lines.push_back(absl::StrCat("s: f32[m: ", m, ", n: ", n, "] = sum[k: ", k, "](f32(a[", a,
                                 "]) * f32(b[", b, "]))"));
    lines.push_back(absl::StrCat("y: ", type, "[m: ", m, ", n: ", n, "] = ", type, "(s[m, n])"));
  }
  lines.push_back("output y");
  return lines;
}

// y = silu(x w) * (x v), by default one kernel; `w` and `v` as they are in memory: "n, k".
Lines Gated(int64_t m, int64_t n, int64_t k, const std::string& w) {
  const std::string of = absl::StrReplaceAll(w, {{"n", absl::StrCat(n)}, {"k", absl::StrCat(k)}});
  const std::string at = absl::StrCat("[m: ", m, ", n: ", n, "]"),
                    sum = absl::StrCat(" = sum[k: ", k, "]");
  return {absl::StrCat("input x: bf16[", m, ", ", k, "] ~ normal"),
          absl::StrCat("param w: bf16[", of, "] ~ normal"),
          absl::StrCat("param v: bf16[", of, "] ~ normal"),
          absl::StrCat("s: f32", at, sum, "(f32(x[m, k]) * f32(w[", w, "]))"),
          absl::StrCat("g: bf16", at, " = bf16(s[m, n])"),
          absl::StrCat("h: bf16", at, " = bf16(f32(g[m, n]) / (1.0 + exp(-f32(g[m, n]))))"),
          absl::StrCat("t: f32", at, sum, "(f32(x[m, k]) * f32(v[", w, "]))"),
          absl::StrCat("u: bf16", at, " = bf16(t[m, n])"),
          absl::StrCat("y: bf16", at, " = bf16(f32(h[m, n]) * f32(u[m, n]))"),
          "output y"};
}

std::vector<Case> Cases() {
  return {
      {"a gate and what it gates",
       Gated(4096, 14336, 4096, "n, k"),
       {"", "contract { turns: 1 }", "contract { turns: 2 tile_m: 128 tile_n: 192 }",
        "contract { turns: 1 tile_m: 128 tile_n: 224 cluster: 2 }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 128 cluster: 2 run: 128 }"}},
      {"the same along N, ragged, of few tiles",
       Gated(200, 1000, 2056, "k, n"),
       {"", "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 128 split: 4 cluster: 1 turns: 1 }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 256 cluster: 2 turns: 1 }"}},
      {"the same of few columns",
       Gated(4096, 48, 512, "n, k"),
       {"", "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 96 cluster: 2 turns: 1 split: 1 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 160 turns: 1 split: 1 cluster: 1 }"}},
      {"the same, and a last wave that is not full",
       Gated(4096, 2560, 2048, "n, k"),
       {"contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 256 tail: 2 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 32 }"}},
      {"square",
       Product("bf16", 8192, 8192, 8192, "m, k", "n, k"),
       {"", "contract { tile_m: 128 tile_n: 256 stages: 4 cluster: 2 }",
        "contract { tile_m: 128 tile_n: 256 stages: 4 cluster: 1 split: 2 }",
        "contract { turns: 2 }", "contract { turns: 2 tile_n: 64 cluster: 1 split: 3 }",
        "contract { turns: 2 tile_m: 128 tile_n: 192 }",
        "contract { turns: 2 tile_m: 128 tile_n: 96 cluster: 2 }"}},
      {"columns of tiles between powers of two",
       Product("bf16", 3152, 1024, 1024, "m, k", "n, k"),
       {"contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 208 cluster: 2 turns: 1 split: 1 }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 160 turns: 2 split: 1 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 240 turns: 1 split: 2 cluster: 1 }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 80 turns: 1 split: 1 run: 128 }"}},
      {"both turned",
       Product("f16", 4096, 4096, 4096, "k, m", "k, n"),
       {"", "contract { tile_m: 128 tile_n: 128 cluster: 2 }", "contract { run: 128 tile_n: 128 }",
        "contract { turns: 2 cluster: 2 }", "contract { tile_m: 128 tile_n: 192 turns: 1 }"}},
      {"ragged", Product("bf16", 1000, 3000, 2008, "m, k", "n, k"), {""}},
      {"a last wave that is not full",
       Product("f16", 6144, 768, 3072, "m, k", "n, k"),
       {"", "contract { tile_m: 128 tile_n: 256 tail: 4 }",
        "contract { tile_m: 128 tile_n: 192 tail: 2 }",
        "contract { tile_m: 128 tile_n: 208 tail: 2 cluster: 1 turns: 1 split: 1 }",
        "contract { tile_m: 128 tile_n: 128 tail: 8 run: 128 }",
        "contract { math: PRODUCT_FP16X3 tile_m: 128 tile_n: 128 tail: 2 }"}},
      {"a short sum, and an end that reads and computes",
       {"input a: bf16[4096, 64] ~ normal", "input w: bf16[4096, 64] ~ normal",
        "input r: bf16[4096, 4096] ~ normal",
        "s: f32[m: 4096, n: 4096] = sum[k: 64](f32(a[m, k]) * f32(w[n, k]))",
        "y: bf16[m: 4096, n: 4096] = bf16(erf(s[m, n]) + f32(r[m, n]))", "output y"},
       {"", "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 64 split: 1 blocks_per_sm: 2 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 64 split: 1 blocks_per_sm: 3 }",
        "contract { math: PRODUCT_FP16X3 tile_m: 64 tile_n: 64 split: 1 blocks_per_sm: 2 }"}},
      {"two parts along K",
       {"input a: bf16[300, 512] ~ normal", "input b: bf16[300, 1000] ~ normal",
        "input w: bf16[900, 1512] ~ normal",
        "c: bf16[m: 300, k: 1512] = select(k < 512, a[m, k], b[m, k - 512])",
        "s: f32[m: 300, n: 900] = sum[k: 1512](f32(c[m, k]) * f32(w[n, k]))",
        "y: bf16[m: 300, n: 900] = bf16(s[m, n])", "output y"},
       {"", "contract { math: PRODUCT_TENSOR split: 2 cluster: 1 turns: 1 }"}},
      {"eight-bit floats, brought and packed",
       {"input x: u8[1024, 4096] ~ integers(0, 120)", "param w: bf16[3000, 4096] ~ normal",
        "input sx: f32[1024, 32] ~ uniform(0.5, 2)",
        "s: f32[m: 1024, n: 3000] = sum[k: 4096](e4m3_of_bits(f32(x[m, k])) * sx[m, k / 128] * "
        "e4m3(f32(w[n, k])))",
        "y: bf16[m: 1024, n: 3000] = bf16(s[m, n])", "output y"},
       {"", "contract { math: PRODUCT_FP8 tile_m: 128 tile_n: 128 cluster: 2 }",
        "contract { math: PRODUCT_FP8 tile_m: 64 tile_n: 128 run: 64 split: 2 }",
        "contract { math: PRODUCT_FP8 run: 32 tile_m: 64 tile_n: 64 split: 1 }",
        "contract { math: PRODUCT_FP8 tile_m: 128 tile_n: 128 cluster: 1 split: 1 turns: 1 tail: 2 "
        "}"}},
      {"eight-bit floats in one run",
       {"input x: u8[1024, 4096] ~ integers(0, 120)", "param w: u8[8192, 4096] ~ integers(0, 120)",
        "s: f32[m: 1024, n: 8192] = sum[k: 4096](e4m3_of_bits(f32(x[m, k])) * "
        "e4m3_of_bits(f32(w[n, k])))",
        "y: bf16[m: 1024, n: 8192] = bf16(s[m, n])", "output y"},
       {"", "contract { math: PRODUCT_FP8 run: 4096 tile_m: 128 tile_n: 256 }",
        "contract { math: PRODUCT_FP8 run: 4096 tile_m: 128 tile_n: 192 }",
        "contract { math: PRODUCT_FP8 run: 4096 tile_m: 128 tile_n: 240 cluster: 2 turns: 1 }",
        "contract { math: PRODUCT_FP8 tile_m: 64 tile_n: 16 cluster: 1 }"}},
      {"few rows", Product("bf16", 16, 14336, 4096, "m, k", "n, k"), {"", "contract { split: 4 }"}},
      {"one row by threads",
       Product("bf16", 1, 14336, 4096, "m, k", "n, k"),
       {"contract { math: PRODUCT_FEW }", "contract { math: PRODUCT_FEW run: 32 }",
        "contract { math: PRODUCT_FEW run: 128 }"}},
      {"16 rows by threads",
       Product("bf16", 16, 14336, 4096, "m, k", "n, k"),
       {"contract { math: PRODUCT_FEW }", "contract { math: PRODUCT_FEW run: 32 }",
        "contract { math: PRODUCT_FEW split: 3 }", "contract { math: PRODUCT_FEW run: 128 }"}},
      {"16 rows by threads, turned",
       Product("bf16", 16, 14336, 4096, "m, k", "k, n"),
       {"contract { math: PRODUCT_FEW }"}},
      {"16 columns by threads",
       Product("f16", 14336, 16, 4096, "m, k", "k, n"),
       {"contract { math: PRODUCT_FEW run: 32 }"}},
      {"fp32 by threads, 8 rows",
       Product("f32", 8, 8192, 8192, "m, k", "n, k"),
       {"contract { math: PRODUCT_FEW }", "contract { math: PRODUCT_FEW run: 32 }"}},
      {"fp32 by threads, 16 rows, turned",
       Product("f32", 16, 4096, 4096, "m, k", "k, n"),
       {"contract { math: PRODUCT_FEW }", "contract { math: PRODUCT_FEW tile_n: 32 stages: 2 }"}},
      {"fp32 by threads, 11 columns, both turned",
       Product("f32", 4096, 11, 4100, "k, m", "k, n"),
       {"contract { math: PRODUCT_FEW }"}},
      {"fp32 by threads, 32 rows",
       Product("f32", 32, 18432, 3072, "m, k", "n, k"),
       {"contract { math: PRODUCT_FEW }", "contract { math: PRODUCT_FEW tile_n: 32 }"}},
      {"fp32 by threads, 128 rows",
       Product("f32", 128, 16384, 16384, "m, k", "n, k"),
       {"contract { math: PRODUCT_FEW }"}},
      {"fp32 by threads, 64 columns, turned",
       Product("f32", 16384, 64, 4096, "k, m", "k, n"),
       {"contract { math: PRODUCT_FEW }"}},
      {"lines that begin anywhere",
       Product("bf16", 1001, 333, 777, "m, k", "k, n"),
       {"", "contract { tile_m: 64 tile_n: 64 }"}},
      {"fp32 in two parts",
       Product("f32", 4096, 4096, 4096, "m, k", "n, k"),
       {"contract { math: PRODUCT_FP16X3 }",
        "contract { math: PRODUCT_FP16X3 tile_m: 128 tile_n: 128 stages: 3 cluster: 2 }",
        "contract { math: PRODUCT_FP16X3 run: 32 }",
        "contract { math: PRODUCT_FP16X3 split: 4 cluster: 1 }",
        "contract { math: PRODUCT_FP16X3 split: 4 }"}},
      {"fp32 in one pass",
       Product("f32", 4096, 4096, 4096, "m, k", "n, k"),
       {"contract { math: PRODUCT_FP16 }",
        "contract { math: PRODUCT_FP16 tile_m: 128 tile_n: 256 cluster: 2 }",
        "contract { math: PRODUCT_FP16 tile_m: 128 tile_n: 128 run: 128 }",
        "contract { math: PRODUCT_FP16 split: 4 cluster: 1 }"}},
      {"fp32 in one pass, turned and ragged",
       Product("f32", 1000, 1111, 4100, "k, m", "k, n"),
       {"contract { math: PRODUCT_FP16 }"}},
      {"fp32 in two parts, turned",
       Product("f32", 1000, 1111, 4100, "k, m", "k, n"),
       {"contract { math: PRODUCT_FP16X3 }", "contract { math: PRODUCT_FP16X3 vector_bytes: 4 }"}},
      {"fp32 of which one is made two parts of on its way",
       Product("f32", 128, 16384, 16384, "m, k", "n, k"),
       {"contract { math: PRODUCT_FP16X3_INLINE }",
        "contract { math: PRODUCT_FP16X3_INLINE tile_m: 64 split: 3 }",
        "contract { math: PRODUCT_FP16X3_INLINE tile_m: 16 tile_n: 64 }"}},
      {"the same, its rows beside each other, and by clusters",
       Product("f32", 256, 4096, 8192, "m, k", "k, n"),
       {"contract { math: PRODUCT_FP16X3_INLINE }",
        "contract { math: PRODUCT_FP16X3_INLINE tile_m: 128 tile_n: 128 cluster: 2 }"}},
      {"the same of the other operand, and ragged",
       Product("f32", 3001, 100, 1100, "m, k", "k, n"),
       {"contract { math: PRODUCT_FP16X3_INLINE }",
        "contract { math: PRODUCT_FP16X3_INLINE tile_m: 128 tile_n: 64 split: 5 }"}},
      {"what is left of a triangle",
       {"input a: bf16[4096, 4096] ~ normal", "input b: bf16[4096, 4096] ~ normal",
        "s: f32[m: 4096, n: 4096] = sum[k: 4096](f32(a[m, k]) * f32(b[k, n]))",
        "y: bf16[m: 4096, n: 4096] = bf16(select(m <= n, s[m, n], 0.0))", "output y"},
       {"", "contract { run: 128 tile_n: 128 }", "contract { run: 32 tile_n: 128 }",
        "contract { turns: 2 }"}},
      {"a linear layer of heads",
       {"input x: bf16[4, 512, 8, 64] ~ normal", "input w: bf16[8, 64, 64] ~ normal",
        "param c: bf16[64] ~ normal", "input r: bf16[4, 512, 8, 64] ~ normal",
        "s: f32[b: 4, t: 512, h: 8, n: 64] = sum[k: 64](f32(x[b, t, h, k]) * f32(w[h, n, k]))",
        "y: bf16[b: 4, t: 512, h: 8, n: 64] = bf16(tanh(s[b, t, h, n] + f32(c[n])) + f32(r[b, t, "
        "h, n]))",
        "output y"},
       {"contract { math: PRODUCT_TENSOR }", "contract { math: PRODUCT_FP16X3 }"}},
      {"a gradient behind an activation, and that of the bias",
       {"input x: bf16[1576, 768] ~ normal", "param w: bf16[3072, 768] ~ normal",
        "param c: bf16[3072] ~ normal", "input g: bf16[1576, 3072] ~ normal",
        "s: f32[m: 1576, n: 3072] = sum[k: 768](f32(x[m, k]) * f32(w[n, k]))",
        "d: f32[m: 1576, n: 3072] = f32(g[m, n]) * (erf(s[m, n] + f32(c[n])) + exp(s[m, n]))",
        "y: bf16[m: 1576, n: 3072] = bf16(d[m, n])", "t: f32[n: 3072] = sum[m: 1576](d[m, n])",
        "output y, t"},
       {"contract { math: PRODUCT_TENSOR }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 256 }",
        "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 64 turns: 2 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 64 }",
        "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 32 }"}},
      {"something computed on the way to it",
       {"input x: f32[2048, 1024] ~ normal", "input g: f32[1024] ~ normal",
        "param w: f32[1024, 4096] ~ normal", "h: f32[m: 2048, k: 1024] = max(x[m, k] * g[k], 0.0)",
        "y: f32[m: 2048, n: 4096] = sum[k: 1024](h[m, k] * w[k, n])", "output y"},
       {"contract { math: PRODUCT_FP16X3 }"}},
      {"blocks of eight bits, each with a scale",
       {"input x: bf16[1024, 7168] ~ normal", "param w: bf16[4096, 7168] ~ normal",
        "input sx: f32[1024, 56] ~ uniform(0.5, 2)", "param sw: f32[32, 56] ~ uniform(0.5, 2)",
        "qx: f16[m: 1024, k: 7168] = f16(e4m3(f32(x[m, k]) / sx[m, k / 128]))",
        "qw: f16[n: 4096, k: 7168] = f16(e4m3(f32(w[n, k]) / sw[n / 128, k / 128]))",
        "s: f32[m: 1024, n: 4096] = sum[k: 7168](f32(qx[m, k]) * sx[m, k / 128] * (f32(qw[n, k]) * "
        "sw[n / 128, k / 128]))",
        "y: bf16[m: 1024, n: 4096] = bf16(s[m, n])", "output y"},
       {"", "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 64 split: 2 }",
        "contract { math: PRODUCT_TENSOR run: 32 }", "contract { math: PRODUCT_FP16X3 }"}},
      {"weights of eight bits in groups, a scale for each channel",
       {"input x: bf16[1000, 4096] ~ normal", "param w: i8[4096, 4104] ~ integers(-128, 127)",
        "param sw: f32[64, 4104] ~ uniform(0.001, 0.02)",
        "s: f32[m: 1000, n: 4104] = sum[k: 4096](f32(x[m, k]) * (f32(w[k, n]) * sw[k / 64, n]))",
        "y: bf16[m: 1000, n: 4104] = bf16(s[m, n])", "output y"},
       {"", "contract { math: PRODUCT_TENSOR tile_n: 64 cluster: 1 split: 4 }"}},
      {"both rounded to integers, by rows and by columns",
       {"input x: f32[2048, 4096] ~ normal", "param w: i8[4096, 4096] ~ integers(-127, 127)",
        "input sx: f32[2048] ~ uniform(0.01, 0.1)", "param sw: f32[4096] ~ uniform(0.01, 0.1)",
        "y: f32[m: 2048, n: 4096] = sum[k: 4096](max(min(round(x[m, k] / sx[m]), 127.0), -127.0) * "
        "sx[m] * (f32(w[n, k]) * sw[n]))",
        "output y"},
       {""}},
      {"a convolution whose taps are shifts",
       {"input x: f32[8, 40, 60, 61] ~ normal", "param w: f32[200, 40, 3, 3] ~ normal",
        "input b: f32[200] ~ normal",
        "s: f32[n: 8, o: 200, i: 58, j: 59] = sum[c: 40, u: 3, v: 3](x[n, c, i + u, j + v] * w[o, "
        "c, u, v])",
        "y: f32[n: 8, o: 200, i: 58, j: 59] = max(s[n, o, i, j] + b[o], 0.0)", "output y"},
       {"contract { math: PRODUCT_FP16X3 windows: 3 }",
        "contract { math: PRODUCT_FP16X3 windows: 3 tile_n: 64 turns: 4 }",
        "contract { math: PRODUCT_FP16 windows: 3 tile_m: 128 tile_n: 128 }",
        "contract { math: PRODUCT_FP16 windows: 3 tile_n: 128 turns: 3 }"}},
      {"one of few channels, whose taps are shifts",
       {"input x: f32[8, 3, 60, 62] ~ normal", "param w: f32[64, 3, 3, 3] ~ normal",
        "y: f32[n: 8, o: 64, i: 58, j: 60] = sum[c: 3, u: 3, v: 3](x[n, c, i + u, j + v] * w[o, c, "
        "u, v])",
        "output y"},
       {"contract { math: PRODUCT_FP16X3 windows: 3 tile_n: 128 turns: 4 }",
        "contract { math: PRODUCT_FP16 windows: 3 tile_n: 256 }"}},
      {"one of 16 bits, whose taps are shifts",
       {"input x: bf16[8, 32, 60, 62] ~ normal", "param w: bf16[64, 32, 3, 3] ~ normal",
        "s: f32[n: 8, o: 64, i: 58, j: 60] = sum[c: 32, u: 3, v: 3](f32(x[n, c, i + u, j + v]) * "
        "f32(w[o, c, u, v]))",
        "y: bf16[n: 8, o: 64, i: 58, j: 60] = bf16(s[n, o, i, j])", "output y"},
       {"contract { math: PRODUCT_TENSOR windows: 3 }",
        "contract { math: PRODUCT_TENSOR windows: 3 tile_n: 128 turns: 4 }"}},
  };
}

// The way that defaults choose for the graph's only group.
v1::ProductMath DefaultMath(const Lines& lines) {
  const graph::Graph graph = ParseOrDie(lines);
  const auto infos = Describe(graph, DefaultSchedule(graph, Target()), Target());
  REQUIRE(infos.ok());
  REQUIRE(infos->size() == 1);
  return (*infos)[0].resolved.contract().math();
}

// Of one group that makes all outputs, the default's where nothing is said.
absl::StatusOr<v1::Plan> PlanOf(const graph::Graph& graph, const std::string& knobs) {
  Target target;
  v1::Schedule schedule;
  if (knobs.empty()) {
    schedule = DefaultSchedule(graph, target);
    REQUIRE(schedule.groups_size() == 1);
  } else {
    v1::Group& group = *schedule.add_groups();
    REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &group));
    for (int output : graph.outputs) group.add_roots(graph.tensors[output].name);
  }
  return Lower(graph, schedule, target);
}

}  // namespace

TEST_CASE("products compile for tensor cores without spills, and none waits for another",
          "[nvrtc]") {
  device::Compiler* const compiler = Hopper();
  for (const Case& c : Cases()) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* knobs : c.knobs) {
      INFO(c.what << ": " << knobs);
      const auto plan = PlanOf(graph, knobs);
      INFO(plan.status());
      REQUIRE(plan.ok());
      const absl::Status checked = device::CheckPlan(*plan, Card(), 16);
      INFO(checked);
      CHECK(checked.ok());
      if (compiler == nullptr) continue;
      for (const std::string& unit : problem::UnitsOf(plan->source()))
        CHECK(compiler->Compile(unit, absl::Minutes(20)).status() == absl::OkStatus());
      const auto binary = compiler->Compile(plan->source(), absl::Minutes(20));
      INFO(binary.status());
      REQUIRE(binary.ok());
      CHECK(binary->report.warnings_size() == 0);
      for (const auto& kernel : binary->report.kernels()) {
        INFO(kernel.entry() << " " << kernel.registers() << " registers");
        for (const v1::Step& step : plan->steps()) {
          if (step.launch().entry() != kernel.entry()) continue;
          const bool pipeline =
              std::any_of(step.launch().arguments().begin(), step.launch().arguments().end(),
                          [](const v1::Argument& argument) { return argument.has_map(); });
          CHECK(kernel.spill_bytes() <= (pipeline ? 0 : kMostSpill));
          CHECK(kernel.registers() * step.launch().block(0) <= kRegistersPerBlock);
        }
      }
    }
  }
}

TEST_CASE("a pipeline compiles with bounded waits, which name their barriers", "[nvrtc]") {
  device::Compiler* const compiler = Hopper();
  if (compiler == nullptr) return;
  const graph::Graph graph = ParseOrDie(Product("f32", 1024, 4096, 4096, "m, k", "n, k"));
  for (const char* knobs : {"contract { math: PRODUCT_FP16X3 split: 2 cluster: 1 }",
                            "contract { math: PRODUCT_FP16X3_INLINE }"}) {
    INFO(knobs);
    const auto plan = PlanOf(graph, knobs);
    REQUIRE(plan.ok());
    const auto binary =
        compiler->Compile(absl::StrCat(problem::kBoundWaits, plan->source()), absl::Minutes(20));
    INFO(binary.status());
    REQUIRE(binary.ok());
    CHECK(absl::StrContains(binary->bytes, "ws_waited"));
    const auto unbounded = compiler->Compile(plan->source(), absl::Minutes(20));
    REQUIRE(unbounded.ok());
    CHECK_FALSE(absl::StrContains(unbounded->bytes, "ws_waited"));
  }
}

TEST_CASE("rows in pieces are brought as batches, where tiles fit them") {
  const auto source_of = [](int rows) {
    const std::string n = std::to_string(rows);
    const auto plan = PlanOf(
        ParseOrDie(
            {"param w: bf16[512, 256] ~ normal", "input x: bf16[8, 256, " + n + "] ~ normal",
             "s: f32[b: 8, m: 512, n: " + n + "] = sum[k: 256](f32(w[m, k]) * f32(x[b, k, n]))",
             "y: bf16[b: 8, m: 512, n: " + n + "] = bf16(s[b, m, n])", "output y"}),
        "contract { math: PRODUCT_TENSOR }");
    INFO(plan.status());
    REQUIRE(plan.ok());
    return plan->source();
  };
  const std::string fits = source_of(768), wastes = source_of(72);
  CHECK((absl::StrContains(fits, "kOneA = true") || absl::StrContains(fits, "kOneB = true")));
  CHECK_FALSE(absl::StrContains(fits, "contract_pack<"));
  CHECK(absl::StrContains(wastes, "contract_pack<"));
}

TEST_CASE("what has 16 bits but for scales is multiplied in one pass") {
  const auto product = [](const char* x, const char* w) {
    return Lines{"input x: bf16[1024, 4096] ~ normal",
                 "input v: f32[1024, 4096] ~ normal",
                 "param w: i8[4096, 4096] ~ integers(-128, 127)",
                 "input h: f16[1024, 4096] ~ normal",
                 "param u: f16[4096, 4096] ~ normal",
                 "param r: f32[1024] ~ uniform(0.5, 2)",
                 "param s: f32[4096, 32] ~ uniform(0.5, 2)",
                 "param g: f32[4096] ~ normal",
                 absl::StrCat("y: f32[m: 1024, n: 4096] = sum[k: 4096](", x, " * ", w, ")"),
                 "output y"};
  };
  struct OfMath {
    const char* x;
    const char* w;
    v1::ProductMath math;
  };
  const OfMath cases[] = {
      {"f32(x[m, k])", "(f32(w[n, k]) * s[n, k / 128])", v1::PRODUCT_TENSOR},
      {"(f32(x[m, k]) * r[m])", "f32(w[n, k])", v1::PRODUCT_TENSOR},
      {"(f32(x[m, k]) / r[m])", "(s[n, k / 128] * 0.5 * f32(w[n, k]))", v1::PRODUCT_TENSOR},
      {"max(min(round(v[m, k] * 8.0), 200.0), -200.0)", "f32(w[n, k])", v1::PRODUCT_TENSOR},
      // Integers that 16 bits do not hold, and that are rounded after they were scaled.
      {"max(min(round(v[m, k] * 8.0), 3000.0), -200.0)", "f32(w[n, k])", v1::PRODUCT_FP16X3},
      {"round(v[m, k] * 8.0)", "f32(w[n, k])", v1::PRODUCT_FP16X3},
      // Scales that change from one element of K to the next, and what divides.
      {"f32(x[m, k])", "(f32(w[n, k]) * g[k])", v1::PRODUCT_FP16X3},
      {"f32(x[m, k])", "(s[n, k / 128] / f32(w[n, k]))", v1::PRODUCT_FP16X3},
      // 65,504 in bf16 is more than f16 has.
      {"f32(h[m, k])", "f32(u[n, k])", v1::PRODUCT_TENSOR},
      {"f32(h[m, k])", "f32(bf16(u[n, k]))", v1::PRODUCT_FP16X3},
      // A sum is no product.
      {"(f32(x[m, k]) + r[m])", "f32(w[n, k])", v1::PRODUCT_FP16X3},
  };
  for (const OfMath& c : cases) {
    INFO(c.x << " * " << c.w);
    CHECK(DefaultMath(product(c.x, c.w)) == c.math);
  }
}

TEST_CASE("eight-bit floats are multiplied as such where the answer has 16 bits") {
  const auto product = [](const char* x, const char* w, const char* type) {
    return Lines{"input x: u8[1024, 4096] ~ integers(0, 255)",
                 "input v: f32[1024, 4096] ~ normal",
                 "param w: bf16[4096, 4096] ~ normal",
                 "param s: f32[4096, 32] ~ uniform(0.5, 2)",
                 absl::StrCat("t: f32[m: 1024, n: 4096] = sum[k: 4096](", x, " * ", w, ")"),
                 absl::StrCat("y: ", type, "[m: 1024, n: 4096] = ", type, "(t[m, n])"),
                 "output y"};
  };
  struct OfMath {
    const char* x;
    const char* w;
    const char* type;
    v1::ProductMath math;
  };
  const OfMath cases[] = {
      {"e4m3_of_bits(f32(x[m, k]))", "e4m3(f32(w[n, k]))", "bf16", v1::PRODUCT_FP8},
      {"e4m3(v[m, k])", "(f32(f16(e4m3(f32(w[n, k])))) * s[n, k / 128])", "f16", v1::PRODUCT_FP8},
      {"max(e4m3(v[m, k]), 0.0)", "e4m3(f32(w[n, k]))", "bf16", v1::PRODUCT_FP8},
      {"e4m3(v[m, k])", "e4m3(f32(w[n, k]))", "f32", v1::PRODUCT_TENSOR},
      {"e4m3(v[m, k])", "f32(w[n, k])", "bf16", v1::PRODUCT_TENSOR},
      // Not along K.
      {"e4m3(v[m, k])", "e4m3(f32(w[k, n]))", "bf16", v1::PRODUCT_TENSOR},
  };
  for (const OfMath& c : cases) {
    INFO(c.x << " * " << c.w);
    CHECK(DefaultMath(product(c.x, c.w, c.type)) == c.math);
  }
}

TEST_CASE("eight-bit floats are multiplied by 16 bits where the answer is rounded to eight again") {
  const graph::Graph graph = ParseOrDie(
      {"input x: u8[1024, 4096] ~ integers(0, 120)", "param w: u8[4096, 4096] ~ integers(0, 120)",
       "param u: u8[2048, 4096] ~ integers(0, 120)",
       "s: f32[m: 1024, n: 4096] = sum[k: 4096](e4m3_of_bits(f32(x[m, k])) * "
       "e4m3_of_bits(f32(w[n, k])))",
       "h: bf16[m: 1024, n: 4096] = bf16(s[m, n])",
       "q: f32[m: 1024, n: 4096] = e4m3(f32(h[m, n]) / 64.0)",
       "t: f32[m: 1024, n: 2048] = sum[k: 4096](q[m, k] * e4m3_of_bits(f32(u[n, k])))",
       "y: bf16[m: 1024, n: 2048] = bf16(t[m, n])", "output y"});
  const Target target;
  const auto infos = Describe(graph, DefaultSchedule(graph, target), target);
  REQUIRE(infos.ok());
  std::vector<v1::ProductMath> maths;
  for (const GroupInfo& group : *infos) {
    if (group.resolved.has_contract()) maths.push_back(group.resolved.contract().math());
  }
  // Of the second, whose operand is what the first one's last digits decide, neither.
  CHECK(maths == std::vector<v1::ProductMath>{v1::PRODUCT_TENSOR, v1::PRODUCT_TENSOR});
}

TEST_CASE("the other ways to multiply are among what is tried") {
  Target target;
  const graph::Graph graph = ParseOrDie(Product("bf16", 16, 14336, 4096, "m, k", "n, k"));
  v1::Schedule schedule = DefaultSchedule(graph, target);
  const auto ways_from = [&](v1::ProductMath math) {
    schedule.mutable_groups(0)->mutable_contract()->Clear();
    schedule.mutable_groups(0)->mutable_contract()->set_math(math);
    Describer describer(graph, target);
    REQUIRE(describer.Describe(schedule).status().message() == "");
    std::vector<int64_t> ways;
    for (const Layout& layout : describer.Layouts(schedule, 0)) {
      v1::Group changed = schedule.groups(0);
      for (const auto& [knob, value] : layout.knobs) {
        for (const KnobRow& row : KnobsOf(v1::Group::kContract)) {
          if (row.name == knob) SetValue(changed, row, value);
        }
        if (knob == "math") ways.push_back(value);
      }
      v1::Schedule whole = schedule;
      *whole.mutable_groups(0) = changed;
      INFO(layout.name);
      CHECK(Lower(graph, whole, target).status() == absl::OkStatus());
    }
    return ways;
  };
  CHECK(ways_from(v1::PRODUCT_TENSOR) == std::vector<int64_t>{v1::PRODUCT_FEW});
  CHECK(ways_from(v1::PRODUCT_FEW) == std::vector<int64_t>{v1::PRODUCT_TENSOR});
  // With a library, its first algorithms; no default is made for one.
  target.library = "cuBLASLt 13.1.0";
  const std::vector<int64_t> algorithms(4, v1::PRODUCT_LIBRARY);
  std::vector<int64_t> all = {v1::PRODUCT_TENSOR};
  all.insert(all.end(), algorithms.begin(), algorithms.end());
  CHECK(ways_from(v1::PRODUCT_FEW) == all);
  CHECK(ways_from(v1::PRODUCT_LIBRARY) ==
        std::vector<int64_t>{v1::PRODUCT_TENSOR, v1::PRODUCT_FEW});
  const auto infos = Describe(graph, DefaultSchedule(graph, target), target);
  REQUIRE(infos.ok());
  CHECK((*infos)[0].resolved.contract().math() != v1::PRODUCT_LIBRARY);
}

TEST_CASE("small results of long sums are shared by many threads") {
  // With a tile of 256 rows for 12 that are there, a thirtieth of the threads would read.
  const graph::Graph graph =
      ParseOrDie({"input b: bf16[4096, 12] ~ normal",
                  "y: f32[m: 12, n: 12] = sum[k: 4096](f32(b[k, m]) * f32(b[k, n]))", "output y"});
  const auto infos = Describe(graph, DefaultSchedule(graph, Target()), Target());
  REQUIRE(infos.ok());
  const v1::ContractKnobs& knobs = (*infos)[0].resolved.contract();
  INFO(knobs.ShortDebugString());
  CHECK(std::max(knobs.tile_m(), knobs.tile_n()) <= 64);
  CHECK(knobs.split() > 1);
}

TEST_CASE("what knobs of products on tensor cores may not say") {
  const graph::Graph halves = ParseOrDie(Product("bf16", 512, 512, 512, "m, k", "k, n"));
  const graph::Graph floats = ParseOrDie(Product("f32", 512, 512, 512, "m, k", "n, k"));
  const graph::Graph scaled = ParseOrDie(
      {"input x: bf16[512, 512] ~ normal", "param w: bf16[512, 512] ~ normal",
       "param s: f32[512, 4] ~ normal",
       "y: f32[m: 512, n: 512] = sum[k: 512](f32(x[m, k]) * (f32(w[n, k]) * s[n, k / 128]))",
       "output y"});
  const graph::Graph eights = ParseOrDie(
      {"input x: u8[512, 512] ~ integers(0, 120)", "param w: u8[512, 512] ~ integers(0, 120)",
       "s: f32[m: 512, n: 512] = sum[k: 512](e4m3_of_bits(f32(x[m, k])) * e4m3_of_bits(f32(w[n, "
       "k])))",
       "y: bf16[m: 512, n: 512] = bf16(s[m, n])", "output y"});
  struct Wrong {
    const graph::Graph* graph;
    const char* knobs;
    const char* message;
  };
  const Wrong cases[] = {
      {&halves, "contract { math: PRODUCT_TENSOR tile_m: 32 }", "a group of warps multiplies 64"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_n: 32 }", "blocks bring 64 columns each"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_m: 256 tile_n: 256 }", "no registers"},
      {&halves, "contract { math: PRODUCT_TENSOR stages: 1 }", "want 2 at the least"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 256 stages: 5 }",
       "bytes of shared memory a block"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_n: 96 }", "blocks bring 64 columns each"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_n: 48 }", "between powers of two"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_n: 72 }", "a multiple of 16"},
      {&scaled, "contract { math: PRODUCT_TENSOR tile_n: 192 }", "but for scales of runs"},
      {&floats, "contract { math: PRODUCT_FP16X3 tile_n: 192 }", "between powers of two"},
      {&halves, "contract { math: PRODUCT_TENSOR split: 7 }", "parts of 64"},
      {&halves,
       "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 128 cluster: 1 tail: 2 split: 1 turns: "
       "1 }",
       "no last wave that such clusters could share"},
      {&halves, "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 16 tail: 2 split: 2 }",
       "cluster, split and turns of 1"},
      {&halves, "contract { math: PRODUCT_PLAIN tail: 2 }", "contract.tail is 2; it is of"},
      {&halves, "contract { math: PRODUCT_PLAIN blocks_per_sm: 2 }",
       "contract.blocks_per_sm is 2; it is of"},
      {&halves,
       "contract { math: PRODUCT_TENSOR tile_m: 128 tile_n: 256 cluster: 1 split: 1 turns: 1 "
       "blocks_per_sm: 2 }",
       "for each of contract.blocks_per_sm"},
      {&halves,
       "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 128 cluster: 1 split: 1 turns: 1 "
       "stages: 2 blocks_per_sm: 3 }",
       "no registers for 64 sums in so many blocks"},
      {&halves, "contract { math: PRODUCT_LIBRARY }", "there is no library here"},
      {&floats, "contract { math: PRODUCT_TENSOR }", "PRODUCT_FP16X3 takes fp32"},
      {&scaled, "contract { math: PRODUCT_TENSOR run: 256 }", "scales are those of 128 elements"},
      {&scaled, "contract { math: PRODUCT_TENSOR turns: 2 }", "added up in one run"},
      {&scaled, "contract { math: PRODUCT_FP8 }", "numbers of float8_e4m3fn"},
      {&eights, "contract { math: PRODUCT_FP8 tile_m: 128 tile_n: 256 split: 1 }", "no registers"},
      {&eights, "contract { math: PRODUCT_FP8 split: 3 }", "parts of 128"},
      {&floats, "contract { math: PRODUCT_FP16X3 } precision { accumulator: ACCUMULATOR_F64 }",
       "fp64"},
  };
  for (const Wrong& wrong : cases) {
    const auto plan = PlanOf(*wrong.graph, wrong.knobs);
    INFO(wrong.knobs << ": " << plan.status().message());
    REQUIRE(!plan.ok());
    CHECK(absl::StrContains(plan.status().message(), wrong.message));
  }
}

}  // namespace warpsmith::codegen
