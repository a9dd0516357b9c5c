// Products of matrices with what stands round them, by the contract skeleton, on the host device
// against the oracle.
#include <map>

#include "absl/strings/match.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"

namespace warpsmith::codegen {
namespace {

const Case kCases[] = {
    {"both operands along K",
     {"input a: f32[64, 48] ~ normal", "input b: f32[80, 48] ~ normal",
      "y: f32[m: 64, n: 80] = sum[k: 48](a[m, k] * b[n, k])", "output y"}},
    {"both along their rows",
     {"input a: f32[48, 64] ~ normal", "input b: f32[48, 80] ~ normal",
      "y: f32[m: 64, n: 80] = sum[k: 48](a[k, m] * b[k, n])", "output y"}},
    {"odd extents",
     {"input a: f32[37, 41] ~ normal", "input b: f32[41, 53] ~ normal",
      "y: f32[m: 37, n: 53] = sum[k: 41](a[m, k] * b[k, n])", "output y"}},
    {"the result turned",
     {"input a: f32[36, 40] ~ normal", "input b: f32[52, 40] ~ normal",
      "y: f32[n: 52, m: 36] = sum[k: 40](a[m, k] * b[n, k])", "output y"}},
    {"a linear layer with an activation and a residual",
     {"input x: f32[6, 12, 72] ~ normal", "param w: f32[40, 72] ~ normal",
      "param c: f32[40] ~ normal", "input r: f32[6, 12, 40] ~ normal",
      "s: f32[i: 6, j: 12, n: 40] = sum[k: 72](x[i, j, k] * w[n, k])",
      "y: f32[i: 6, j: 12, n: 40] = tanh(s[i, j, n] + c[n]) + r[i, j, n]", "output y"}},
    {"elements that are lost beside their row's largest, and a dense operand",
     {"input a: f32[40, 80] ~ normal", "input b: f32[48, 80] ~ normal",
      "h: f32[m: 40, k: 80] = select(k <= 39, a[m, k] * 1e16, a[m, k])",
      "y: f32[m: 40, n: 48] = sum[k: 80](h[m, k] * b[n, k])", "output y"}},
    {"elements that are lost beside their row's largest, which meets zeros",
     {"input a: f32[40, 80] ~ normal", "input b: f32[48, 80] ~ normal",
      "h: f32[m: 40, k: 80] = select(k <= 39, a[m, k] * 1e16, a[m, k])",
      "i: f32[n: 48, k: 80] = select(k <= 39, 0.0, b[n, k])",
      "y: f32[m: 40, n: 48] = sum[k: 80](h[m, k] * i[n, k])", "output y"}},
    {"elements that are lost on either side, and matter",
     {"input a: f32[40, 80] ~ normal", "input b: f32[48, 80] ~ normal",
      "h: f32[m: 40, k: 80] = select(k <= 39, a[m, k] * 1e10, a[m, k])",
      "i: f32[n: 48, k: 80] = select(k <= 39, b[n, k] * 1e-14, b[n, k])",
      "y: f32[m: 40, n: 48] = sum[k: 80](h[m, k] * i[n, k])", "output y"}},
    {"elements that are lost beside few that are not, which meet zeros of a dense row",
     {"input a: f32[40, 80] ~ normal", "input b: f32[48, 80] ~ normal",
      "h: f32[m: 40, k: 80] = select(k <= 3, a[m, k] * 1e16, a[m, k])",
      "i: f32[n: 48, k: 80] = select(k <= 3, 0.0, b[n, k])",
      "y: f32[m: 40, n: 48] = sum[k: 80](h[m, k] * i[n, k])", "output y"}},
    {"rows in pieces, along them",
     {"param w: bf16[48, 72] ~ normal", "input x: bf16[3, 72, 64] ~ normal",
      "s: f32[b: 3, m: 48, n: 64] = sum[k: 72](f32(w[m, k]) * f32(x[b, k, n]))",
      "y: bf16[b: 3, m: 48, n: 64] = bf16(s[b, m, n])", "output y"}},
    {"16-bit operands and results",
     {"input x: bf16[56, 64] ~ normal", "param w: bf16[48, 64] ~ normal",
      "s: f32[m: 56, n: 48] = sum[k: 64](f32(x[m, k]) * f32(w[n, k]))",
      "y: bf16[m: 56, n: 48] = bf16(s[m, n])", "output y"}},
    {"few rows of 16 bits along K, ragged",
     {"input x: bf16[5, 520] ~ normal", "param w: bf16[52, 520] ~ normal",
      "s: f32[m: 5, n: 52] = sum[k: 520](f32(x[m, k]) * f32(w[n, k]))",
      "y: bf16[m: 5, n: 52] = bf16(s[m, n])", "output y"}},
    {"few rows of 16 bits with a map before, or not along K",
     {"input x: bf16[5, 520] ~ normal", "param w: bf16[520, 52] ~ normal",
      "h: bf16[m: 5, k: 520] = bf16(max(f32(x[m, k]), 0.0))",
      "s: f32[m: 5, n: 52] = sum[k: 520](f32(h[m, k]) * f32(w[k, n]))",
      "y: bf16[m: 5, n: 52] = bf16(s[m, n])", "output y"}},
    {"few columns of 16 bits along K, of batches",
     {"input a: f16[3, 64, 1024] ~ normal", "input b: f16[3, 12, 1024] ~ normal",
      "y: f32[i: 3, m: 64, n: 12] = sum[k: 1024](f32(a[i, m, k]) * f32(b[i, n, k]))", "output y"}},
    {"heads that lie between each other",
     {"input q: f16[24, 3, 32] ~ normal", "input k: f16[28, 3, 32] ~ normal",
      "s: f32[h: 3, i: 24, j: 28] = sum[d: 32](f32(q[i, h, d]) * f32(k[j, h, d]))",
      "y: f32[h: 3, i: 24, j: 28] = select(j <= i, s[h, i, j] * 0.25, -1000.0)", "output y"}},
    {"something computed on the way to it",
     {"input x: f32[40, 64] ~ normal", "input g: f32[64] ~ normal", "input w: f32[64, 56] ~ normal",
      "h: f32[m: 40, k: 64] = max(x[m, k] * g[k], 0.0)",
      "y: f32[m: 40, n: 56] = sum[k: 64](h[m, k] * w[k, n])", "output y"}},
    {"a convolution along one axis, padded",
     {"input x: f32[3, 5, 30] ~ normal", "input w: f32[24, 5, 3] ~ normal",
      "y: f32[b: 3, o: 24, i: 30] = sum[c: 5, t: 3](select(i + t >= 1, "
      "select(i + t < 31, x[b, c, i + t - 1], 0.0), 0.0) * w[o, c, t])",
      "output y"}},
    {"two outputs, one of them turned",
     {"input a: f32[32, 40] ~ normal", "input b: f32[40, 48] ~ normal",
      "s: f32[m: 32, n: 48] = sum[k: 40](a[m, k] * b[k, n])",
      "y: bf16[m: 32, n: 48] = bf16(s[m, n])", "z: f32[n: 48, m: 32] = s[m, n] * 2.0",
      "output y, z"}},
    {"what is left of a triangle",
     {"input a: f32[70, 40] ~ normal", "input b: f32[40, 90] ~ normal",
      "s: f32[m: 70, n: 90] = sum[k: 40](a[m, k] * b[k, n])",
      "y: f32[m: 70, n: 90] = select(n <= m - 3, s[m, n] + 1.0, 0.5)", "output y"}},
    {"the other triangle, of batches",
     {"input a: bf16[3, 70, 40] ~ normal", "input b: bf16[3, 40, 90] ~ normal",
      "s: f32[i: 3, m: 70, n: 90] = sum[k: 40](f32(a[i, m, k]) * f32(b[i, k, n]))",
      "y: bf16[i: 3, m: 70, n: 90] = bf16(select(n < m, -1.0, s[i, m, n]))", "output y"}},
    {"sums over two axes",
     {"input a: f32[20, 6, 8] ~ normal", "input b: f32[6, 36, 8] ~ normal",
      "y: f32[m: 20, n: 36] = sum[i: 6, j: 8](a[m, i, j] * b[i, n, j])", "output y"}},
    {"integers that wrap",
     {"input a: i32[24, 40] ~ integers(-2000000000, 2000000000)",
      "input b: i32[40, 20] ~ integers(-2000000000, 2000000000)",
      "y: i32[m: 24, n: 20] = sum[k: 40](a[m, k] * b[k, n])", "output y"}},
    {"integers of 64 bits",
     {"input a: i64[24, 40] ~ integers(-1000000, 1000000)",
      "input b: i64[40, 20] ~ integers(-1000000, 1000000)",
      "y: i64[m: 24, n: 20] = sum[k: 40](a[m, k] * b[k, n])", "output y"}},
    {"doubles",
     {"input a: f64[24, 40] ~ normal", "input b: f64[40, 20] ~ normal",
      "y: f64[m: 24, n: 20] = sum[k: 40](a[m, k] * b[k, n])", "output y"}},
    {"a matrix and a vector",
     {"input a: f32[52, 64] ~ normal", "input x: f32[64] ~ normal",
      "y: f32[m: 52] = sum[k: 64](a[m, k] * x[k])", "output y"}},
    {"an outer product",
     {"input a: f32[20, 1] ~ normal", "input b: f32[1, 36] ~ normal",
      "y: f32[m: 20, n: 36] = sum[k: 1](a[m, k] * b[k, n])", "output y"}},
    {"operands of eight bits, scaled",
     {"input x: f32[24, 64] ~ normal", "input w: f32[40, 64] ~ normal",
      "input sx: f32[24, 2] ~ uniform(0.5, 2)", "qx: f16[m: 24, k: 64] = f16(e4m3(x[m, k] * 16.0))",
      "qw: f16[n: 40, k: 64] = f16(e4m3(w[n, k] * 16.0))",
      "y: f32[m: 24, n: 40] = sum[k: 64](f32(qx[m, k]) * sx[m, k / 32] * f32(qw[n, k]))",
      "output y"}},
    {"16 bits in lines that begin anywhere",
     {"input a: bf16[37, 43] ~ normal", "input b: bf16[43, 53] ~ normal",
      "s: f32[m: 37, n: 53] = sum[k: 43](f32(a[m, k]) * f32(b[k, n]))",
      "y: bf16[m: 37, n: 53] = bf16(s[m, n])", "output y"}},
    {"parts of tensors, of batches, in lines that begin anywhere",
     {"input a: f16[3, 29, 3, 70] ~ normal", "input b: f16[3, 70, 45] ~ normal",
      "y: f32[i: 3, m: 29, n: 41] = sum[k: 67](f32(a[i, m, 1, k + 3]) * f32(b[i, k + 2, n + 4]))",
      "output y"}},
    {"four bits, two in a byte, around eight",
     {"input x: f16[20, 128] ~ normal", "param w: u8[40, 64] ~ integers(0, 255)",
      "param s: i8[40] ~ integers(1, 9)",
      "q: f16[n: 40, k: 128] = f16(select(k < 64, u8(i32(w[n, k]) % 16), u8(i32(w[n, k - 64]) / "
      "16)))",
      "h: f16[n: 40, k: 128] = f16(f32(f16(f32(q[n, k]) - 8.0)) * (f32(s[n]) * 0.0625))",
      "y: f32[m: 20, n: 40] = sum[k: 128](f32(x[m, k]) * f32(h[n, k]))", "output y"}},
    {"blocks of eight bits, each with a scale",
     {"input x: f32[24, 256] ~ normal", "input w: bf16[40, 256] ~ normal",
      "input sx: f32[24, 2] ~ uniform(0.5, 2)", "input sw: f32[5, 2] ~ uniform(0.5, 2)",
      "qx: f16[m: 24, k: 256] = f16(e4m3(x[m, k] / sx[m, k / 128] * 16.0))",
      "qw: f16[n: 40, k: 256] = f16(e4m3(f32(w[n, k]) / sw[n / 8, k / 128]))",
      "s: f32[m: 24, n: 40] = sum[k: 256](f32(qx[m, k]) * sx[m, k / 128] * (f32(qw[n, k]) * "
      "sw[n / 8, k / 128]))",
      "y: bf16[m: 24, n: 40] = bf16(s[m, n])", "output y"}},
    {"bits of eight-bit floats, in blocks that have scales",
     {"input x: u8[24, 256] ~ integers(0, 127)", "param w: u8[40, 256] ~ integers(128, 255)",
      "input sx: f32[24, 2] ~ uniform(0.5, 2)", "input sw: f32[5, 2] ~ uniform(0.5, 2)",
      "qx: f16[m: 24, k: 256] = f16(e4m3_of_bits(f32(x[m, k])))",
      "s: f32[m: 24, n: 40] = sum[k: 256](f32(qx[m, k]) * sx[m, k / 128] * "
      "(e4m3_of_bits(f32(w[n, k])) * sw[n / 8, k / 128]))",
      "y: bf16[m: 24, n: 40] = bf16(s[m, n])", "output y"}},
    {"eight-bit floats of odd extents, NaN among them",
     {"input x: u8[21, 75] ~ integers(0, 255)", "input w: f32[19, 75] ~ normal",
      "s: f32[m: 21, n: 19] = sum[k: 75](e4m3_of_bits(f32(x[m, k])) * e4m3(w[n, k] * 100.0))",
      "y: bf16[m: 21, n: 19] = bf16(s[m, n])", "output y"}},
    {"small integers by eight-bit floats in batches, one under a condition",
     {"input x: u8[3, 24, 64] ~ integers(0, 15)", "input w: f16[3, 40, 64] ~ normal",
      "h: f32[b: 3, n: 40, k: 64] = select(k <= n, e4m3(f32(w[b, n, k])), 0.0)",
      "s: f32[b: 3, m: 24, n: 40] = sum[k: 64](f32(x[b, m, k]) * h[b, n, k])",
      "y: f16[b: 3, m: 24, n: 40] = f16(s[b, m, n])", "output y"}},
    {"weights of eight bits by channels, activations of 16",
     {"input x: bf16[37, 72] ~ normal", "param w: i8[45, 72] ~ integers(-128, 127)",
      "param sw: f32[45] ~ uniform(0.001, 0.02)",
      "s: f32[m: 37, n: 45] = sum[k: 72](f32(x[m, k]) * (f32(w[n, k]) * sw[n]))",
      "y: bf16[m: 37, n: 45] = bf16(s[m, n])", "output y"}},
    {"weights of four bits in groups with zero points, along N",
     {"input x: f16[20, 192] ~ normal", "param w: u8[192, 48] ~ integers(0, 15)",
      "param z: u8[3, 48] ~ integers(0, 15)", "param sw: f16[3, 48] ~ uniform(0.01, 0.2)",
      "y: f32[m: 20, n: 48] = sum[k: 192](f32(x[m, k]) * ((f32(w[k, n]) - f32(z[k / 64, n])) * "
      "f32(sw[k / 64, n])))",
      "output y"}},
    {"both rounded to integers, by rows and by columns",
     {"input x: f32[33, 96] ~ normal", "input w: f32[96, 50] ~ normal",
      "input sx: f32[33] ~ uniform(0.01, 0.1)", "input sw: f32[50] ~ uniform(0.01, 0.1)",
      "qx: f32[m: 33, k: 96] = max(min(round(x[m, k] / sx[m]), 127.0), -127.0)",
      "y: f32[m: 33, n: 50] = sum[k: 96](qx[m, k] * sx[m] * (max(min(round(w[k, n] / sw[n]), "
      "127.0), -127.0) * sw[n]))",
      "output y"}},
    {"16 bits that are divided by what their rows have",
     {"input x: bf16[36, 64] ~ normal", "input w: bf16[40, 64] ~ normal",
      "input d: f32[36] ~ uniform(0.5, 2)",
      "y: f32[m: 36, n: 40] = sum[k: 64](f32(x[m, k]) / d[m] * f32(w[n, k]))", "output y"}},
    {"a state that it adds to",
     {"state w: f32[24, 32] ~ normal", "input a: f32[40, 24] ~ normal",
      "input b: f32[40, 32] ~ normal", "s: f32[m: 24, n: 32] = sum[k: 40](a[k, m] * b[k, n])",
      "v: f32[m: 24, n: 32] = w[m, n] - s[m, n] * 0.1", "update w = v"}},
    {"K that blocks of a cluster pack together",
     {"input a: f32[1100, 40] ~ normal", "input b: f32[1100, 24] ~ normal",
      "y: f32[m: 40, n: 24] = sum[k: 1100](a[k, m] * b[k, n])", "output y"}},
    {"rows that a block packs together, and columns whose ends are ragged",
     {"input a: f32[9, 1100] ~ normal", "input b: f32[1100, 13] ~ normal",
      "y: f32[m: 9, n: 13] = sum[k: 1100](a[m, k] * b[k, n])", "output y"}},
    {"K that is packed in two passes",
     {"input a: f32[5, 17000] ~ normal", "input b: f32[17000, 8] ~ normal",
      "y: f32[m: 5, n: 8] = sum[k: 17000](a[m, k] * b[k, n])", "output y"}},
    {"a state that is an operand, too",
     {"state w: f32[32, 32] ~ normal", "s: f32[m: 32, n: 32] = sum[k: 32](w[m, k] * w[k, n])",
      "v: f32[m: 32, n: 32] = s[m, n] * 0.1", "update w = v"}},
};

const char* const kKnobs[] = {
    "contract {}",
    "contract { tile_m: 16 tile_n: 32 split: 3 raster: 1 }",
    "contract { tile_m: 32 tile_n: 16 vector_bytes: 4 } precision { accumulator: ACCUMULATOR_F64 }",
    "contract { tile_m: 64 tile_n: 64 run: 32 split: 2 raster: 2 }",
    "contract { tile_m: 128 tile_n: 128 run: 32 vector_bytes: 8 } precision { separate: true }",
    "contract { math: PRODUCT_TENSOR tile_m: 32 tile_n: 64 }",
    "contract { math: PRODUCT_TENSOR tile_m: 64 tile_n: 32 run: 32 split: 2 vector_bytes: 8 }",
    "contract { math: PRODUCT_FP8 tile_m: 32 tile_n: 64 }",
    "contract { math: PRODUCT_FP8 tile_m: 64 tile_n: 32 run: 32 split: 2 vector_bytes: 8 }",
    "contract { math: PRODUCT_FP16X3 tile_m: 32 tile_n: 64 }",
    "contract { math: PRODUCT_FP16X3 tile_m: 64 tile_n: 16 split: 2 vector_bytes: 8 }",
    "contract { math: PRODUCT_FP16X3_INLINE tile_m: 64 tile_n: 32 }",
    "contract { math: PRODUCT_FP16X3_INLINE tile_m: 16 tile_n: 64 split: 2 vector_bytes: 8 }",
    "contract { math: PRODUCT_FEW }",
    "contract { math: PRODUCT_FEW tile_m: 128 tile_n: 128 split: 2 }",
    "contract { math: PRODUCT_FEW split: 3 run: 32 vector_bytes: 8 }",
};

TEST_CASE("products of matrices", "[codegen]") {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  uint64_t seed = 1;
  for (const Case& c : kCases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* knobs : kKnobs) {
      INFO(c.what);
      trials.push_back({graph, ScheduleOf(graph, knobs), seed++, seed % 3 == 0});
      names.push_back(absl::StrCat(c.what, ": ", knobs));
    }
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  std::map<std::string, int> accepted;
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(names[i]);
    INFO(answers[i].message());
    const std::string knobs = kKnobs[i % std::size(kKnobs)];
    // K that is too short to share is refused, and sums that tensor cores do not make.
    if (absl::StrContains(answers[i].message(), "contract.split")) {
      CHECK(absl::StrContains(knobs, "split"));
      continue;
    }
    if (absl::StrContains(answers[i].message(), "tensor cores add up in fp32")) {
      CHECK((absl::StrContains(names[i], "integers") || absl::StrContains(names[i], "doubles")));
      continue;
    }
    if (absl::StrContains(answers[i].message(), "its operands are not, but for scales, both")) {
      CHECK(absl::StrContains(knobs, "PRODUCT_TENSOR"));
      continue;
    }
    if (absl::StrContains(answers[i].message(), "numbers of float8_e4m3fn that are had")) {
      CHECK(absl::StrContains(knobs, "PRODUCT_FP8"));
      continue;
    }
    if (absl::StrContains(answers[i].message(), "neither operand is fp32")) {
      CHECK(absl::StrContains(knobs, "INLINE"));
      continue;
    }
    ++accepted[knobs];
    // An infinite scale counts as NaN (glue.cc).
    if (absl::StrContains(names[i], "scale") &&
        (absl::StrContains(answers[i].message(), "is nan, not inf") ||
         absl::StrContains(answers[i].message(), "is nan, not -inf")))
      continue;
    CHECK(answers[i].ok());
  }
  for (const char* knobs : kKnobs) {
    INFO(knobs);
    const int least = absl::StrContains(knobs, "split") ? 4 : 20;
    const bool some = absl::StrContains(knobs, "INLINE") || absl::StrContains(knobs, "TENSOR");
    CHECK(accepted[knobs] >= (absl::StrContains(knobs, "FP8") ? 2 : some ? least / 4 : least));
  }
}

TEST_CASE("what is no product of matrices", "[codegen]") {
  struct None {
    Lines graph;
    const char* message;
  };
  const Lines head = {"input a: f32[24, 32] ~ normal", "input b: f32[32, 20] ~ normal"};
  const None cases[] = {
      {{"y: f32[m: 24] = sum[k: 32](a[m, k] * a[m, k])"}, "its factors share all axes"},
      {{"y: f32[m: 24] = sum[k: 32](a[m, k])"}, "what it sums is no product"},
      {{"y: f32[m: 24, n: 20] = max[k: 32](a[m, k] * b[k, n])"}, "it is no sum"},
      {{"y: f32[m: 24, n: 20] = sum[k: 32, j: 3](a[m, k] * b[k, n])"}, "what one factor alone has"},
      {{"y: f32[m: 24, n: 20, i: 3] = sum[k: 32](a[m, k] * b[k, n])"}, "none of its factors'"},
      {{"s: f32[m: 24, n: 20] = sum[k: 32](a[m, k] * b[k, n])",
        "y: f32[m: 24, n: 20, i: 3] = s[m, n] * 2.0"},
       ""},
      {{"s: f32[k: 32] = sum[n: 20](b[k, n])",
        "y: f32[m: 24, j: 3] = sum[k: 32](a[m, k] * s[(k + j) % 32])"},
       ""},
  };
  for (const None& none : cases) {
    Lines lines = head;
    lines.insert(lines.end(), none.graph.begin(), none.graph.end());
    lines.push_back("output y");
    const graph::Graph graph = ParseOrDie(lines);
    v1::Schedule schedule;
    schedule.add_groups()->mutable_contract();
    schedule.mutable_groups(0)->add_roots("y");
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(absl::StrJoin(lines, "\n") << "\n" << plan.status());
    REQUIRE(!plan.ok());
    CHECK(plan.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(plan.status().message(), none.message));
  }
}

// Each is a group of its own where one reads the other's result, or both end at one sum; but for
// two of one factor.
TEST_CASE("several products", "[codegen]") {
  struct Several {
    Lines lines;
    int groups = 2;
  };
  const Several cases[] = {
      {{"input a: f32[40, 48] ~ normal", "input b: f32[48, 56] ~ normal",
        "input c: f32[40, 32] ~ normal", "input d: f32[32, 56] ~ normal",
        "s: f32[m: 40, n: 56] = sum[k: 48](a[m, k] * b[k, n])",
        "t: f32[m: 40, n: 56] = sum[k: 32](c[m, k] * d[k, n])",
        "y: f32[m: 40, n: 56] = tanh(s[m, n]) + t[m, n]",
        "z: f32[m: 40] = sum[n: 56](exp(y[m, n] * 0.1))", "output z"}},
      {{"input x: f32[40, 48] ~ normal", "input v: f32[48, 56] ~ normal",
        "input w: f32[56, 24] ~ normal", "s: f32[m: 40, n: 56] = sum[k: 48](x[m, k] * v[k, n])",
        "h: f32[m: 40, n: 56] = max(s[m, n], 0.0)",
        "y: f32[m: 40, o: 24] = sum[n: 56](h[m, n] * w[n, o])", "output y"}},
      {{"input x: f32[40, 48] ~ normal", "input v: f32[48, 56] ~ normal",
        "input w: f32[48, 56] ~ normal", "s: f32[m: 40, n: 56] = sum[k: 48](x[m, k] * v[k, n])",
        "t: f32[m: 40, n: 56] = sum[k: 48](x[m, k] * w[k, n])",
        "y: f32[m: 40, n: 56] = s[m, n] / (1.0 + exp(-s[m, n])) * t[m, n]", "output y"},
       1},
      // What is behind it moves along its rows.
      {{"input x: f32[40, 48] ~ normal", "input v: f32[48, 56] ~ normal",
        "s: f32[m: 40, n: 56] = sum[k: 48](x[m, k] * v[k, n])",
        "h: f32[m: 40, n: 56] = select(n < 55, s[m, min(n + 1, 55)], 0.0) + s[m, n]",
        "y: f32[m: 40, o: 40] = sum[n: 56](h[m, n] * h[o, n])", "output y"}},
  };
  uint64_t seed = 100;
  for (const auto& [lines, groups] : cases) {
    const graph::Graph graph = ParseOrDie(lines);
    const v1::Schedule schedule = DefaultSchedule(graph, TestTarget());
    const auto infos = Describe(graph, schedule, TestTarget());
    INFO(absl::StrJoin(lines, "\n") << "\n" << schedule.DebugString() << infos.status());
    REQUIRE(infos.ok());
    int products = 0;
    for (const GroupInfo& info : *infos) products += info.skeleton == v1::Group::kContract;
    CHECK(products == groups);
    Check(graph, schedule, seed++);
  }
}

TEST_CASE("without roundings a product's operands keep their digits", "[codegen]") {
  // Weights of 8 bits times a scale of 64 of K and a row, as their 16 bits and as what they are.
  const graph::Graph graph =
      ParseOrDie({"input x: bf16[24, 256] ~ normal", "param w: i8[48, 256] ~ integers(-127, 128)",
                  "param c: f32[48, 4] ~ uniform(0.001, 0.002)",
                  "v: bf16[n: 48, k: 256] = bf16(f32(w[n, k]) * c[n, k / 64])",
                  "s: f32[m: 24, n: 48] = sum[k: 256](f32(x[m, k]) * f32(v[n, k]))",
                  "y: f32[m: 24, n: 48] = s[m, n]", "output y"});
  std::vector<Trial> trials;
  for (const char* math : {"PRODUCT_FEW", "PRODUCT_TENSOR", "PRODUCT_PLAIN", "PRODUCT_FP16X3"}) {
    for (const bool unrounded : {false, true}) {
      v1::Schedule schedule;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(
          absl::StrCat("roots: 'y' contract { math: ", math,
                       " } precision { unrounded: ", unrounded ? "true" : "false", " }"),
          schedule.add_groups()));
      const auto plan = Lower(graph, schedule, TestTarget());
      INFO(math << " " << unrounded << ": " << plan.status().message());
      REQUIRE(plan.ok());
      // What is packed, or made a fragment, is rounded there.
      const bool rounds = absl::StrContains(plan->source(), "ws::rounded<ws::bf16>");
      CHECK(rounds == (!unrounded && absl::string_view(math) != "PRODUCT_FEW" &&
                       absl::string_view(math) != "PRODUCT_TENSOR"));
      // Its scales stand where runs of K are added up.
      const bool apart = absl::StrContains(plan->source(), "float run_b(");
      CHECK(apart == (unrounded && absl::string_view(math) != "PRODUCT_FP16X3" &&
                      absl::string_view(math) != "PRODUCT_PLAIN"));
      trials.push_back({graph, schedule, 7, false});
    }
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (const absl::Status& answer : answers) CHECK(answer.message() == "");
}

// A backward pass' sums over rows, statistics over columns, both; of what is written and of what is
// not, and with something made of each sum.
TEST_CASE("what a product's end makes is summed there", "[codegen]") {
  const auto end = [](const Lines& sums) {
    Lines lines = {"input x: bf16[70, 96] ~ normal",
                   "param w: bf16[88, 96] ~ normal",
                   "input g: bf16[70, 88] ~ normal",
                   "param c: f32[88] ~ uniform(1, 2)",
                   "s: f32[m: 70, n: 88] = sum[k: 96](f32(x[m, k]) * f32(w[n, k]))",
                   "d: f32[m: 70, n: 88] = f32(g[m, n]) * max(s[m, n], 0)",
                   "h: bf16[m: 70, n: 88] = bf16(d[m, n])"};
    lines.insert(lines.end(), sums.begin(), sums.end());
    return lines;
  };
  struct Case {
    const char* roots;
    Lines graph;
    const char* says;
  };
  const Case cases[] = {
      {"roots: 'h' roots: 't'", end({"t: f32[n: 88] = sum[m: 70](d[m, n])", "output h, t"}),
       "kTotalDown = true, kTotalAcross = false"},
      {"roots: 't' roots: 'd' roots: 'h'",
       end({"t: f32[n: 88] = sum[m: 70](d[m, n])", "output h, t, d"}),
       "kTotalDown = true, kTotalAcross = false"},
      {"roots: 'y' roots: 't'",
       end({"t: f32[n: 88] = sum[m: 70](d[m, n])", "y: bf16[n: 88] = bf16(t[n] * c[n] / 70)",
            "output y, t"}),
       "kTotalDown = true, kTotalAcross = false"},
      {"roots: 'h' roots: 't'",
       end({"t: f32[m: 70, o: 1] = sum[n: 88](f32(h[m, n]))", "output h, t"}),
       "kTotalDown = false, kTotalAcross = true"},
      {"roots: 'q' roots: 't' roots: 'u'",
       end({"q: f32[m: 70, n: 88] = d[m, n] * d[m, n]", "t: f32[m: 70] = sum[n: 88](q[m, n])",
            "u: f32[n: 88] = sum[m: 70](q[m, n])", "output q, t, u"}),
       "kTotalDown = true, kTotalAcross = true"},
      {"roots: 't'",
       {"input x: f16[3, 40, 64] ~ normal", "input w: f16[3, 48, 64] ~ normal",
        "s: f32[b: 3, m: 40, n: 48] = sum[k: 64](f32(x[b, m, k]) * f32(w[b, n, k]))",
        "d: f32[b: 3, m: 40, n: 48] = exp(s[b, m, n] / 64)",
        "t: f32[b: 3, n: 48] = sum[m: 40](d[b, m, n])", "output t"},
       "kTotalDown = true, kTotalAcross = false"},
  };
  std::vector<Trial> trials;
  std::vector<std::string> names;
  for (const Case& one : cases) {
    const graph::Graph graph = ParseOrDie(one.graph);
    for (const char* knobs :
         {"math: PRODUCT_TENSOR", "math: PRODUCT_TENSOR tile_m: 64 tile_n: 32",
          "math: PRODUCT_PLAIN", "math: PRODUCT_PLAIN tile_m: 16 tile_n: 128", ""}) {
      v1::Schedule schedule;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(
          absl::StrCat(one.roots, " contract { ", knobs, " }"), schedule.add_groups()));
      const auto plan = Lower(graph, schedule, TestTarget());
      INFO(one.roots << " " << knobs << ": " << plan.status().message());
      REQUIRE(plan.ok());
      CHECK(absl::StrContains(plan->source(), one.says));
      trials.push_back({graph, schedule, 7, false});
      names.push_back(absl::StrCat(one.roots, " ", knobs));
    }
  }
  const auto answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(names[i]);
    CHECK(answers[i].message() == "");
  }
  // What is none.
  const std::pair<const char*, Lines> others[] = {
      {"over rows twice",
       end({"q: f32[m: 70, n: 88] = d[m, n] * d[m, n]", "t: f32[n: 88] = sum[m: 70](d[m, n])",
            "u: f32[n: 88] = sum[m: 70](q[m, n])", "output t, u"})},
      {"of all", end({"t: f32 = sum[m: 70, n: 88](d[m, n])", "u: f32 = t[]", "output t, u"})},
      {"of a part",
       end({"t: f32[n: 44] = sum[m: 70](d[m, n])", "u: f32[n: 44] = t[n]", "output t, u"})},
      {"of a scan's kind",
       end({"t: f32[n: 88] = max[m: 70](d[m, n])", "u: f32[n: 88] = t[n]", "output t, u"})},
  };
  for (const auto& [what, graph] : others) {
    v1::Schedule schedule;
    REQUIRE(google::protobuf::TextFormat::ParseFromString("roots: 't' roots: 'u' contract {}",
                                                          schedule.add_groups()));
    INFO(what);
    CHECK(!Lower(ParseOrDie(graph), schedule, TestTarget()).ok());
  }
  // Blocks finish tiles alone, and sums of factors in two parts are finished by two kernels.
  for (const char* knobs :
       {"math: PRODUCT_TENSOR split: 2", "math: PRODUCT_FP16X3", "math: PRODUCT_FEW"}) {
    v1::Schedule schedule;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat(cases[0].roots, " contract { ", knobs, " }"), schedule.add_groups()));
    const auto plan = Lower(ParseOrDie(cases[0].graph), schedule, TestTarget());
    REQUIRE(!plan.ok());
    CHECK(absl::StrContains(plan.status().message(), "summed"));
  }
}

// What a code of four bits means stands in a table: codes are read by vectors, two a byte, and each
// element is found by itself.
TEST_CASE("a factor's elements may be what codes mean by a table", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: bf16[24, 256] ~ normal", "param t: bf16[16] ~ normal",
                  "param w: u8[48, 128] ~ integers(0, 256)", "param c: bf16[48, 8] ~ normal",
                  "q: i64[n: 48, k: 256] = i64(select(k % 2 == 0, i32(w[n, k / 2]) % 16, "
                  "i32(w[n, k / 2]) / 16))",
                  "e: bf16[n: 48, k: 256] = bf16(f32(t[select(q[n, k] < 0, q[n, k] + 16, q[n, "
                  "k])]) * f32(c[n, k / 32]))",
                  "s: f32[m: 24, n: 48] = sum[k: 256](f32(x[m, k]) * f32(e[n, k]))",
                  "y: bf16[m: 24, n: 48] = bf16(s[m, n])", "output y"});
  std::vector<Trial> trials;
  for (const char* math : {"PRODUCT_FEW", "PRODUCT_TENSOR", "PRODUCT_PLAIN"}) {
    v1::Schedule schedule;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("roots: 'y' contract { math: ", math, " }"), schedule.add_groups()));
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(math << ": " << plan.status().message());
    REQUIRE(plan.ok());
    CHECK(absl::StrContains(plan->source(), "unsigned char w"));
    CHECK(absl::StrContains(plan->source(), "[4]"));
    // No code is below zero.
    CHECK(!absl::StrContains(plan->source(), "0LL"));
    trials.push_back({graph, schedule, 7, false});
  }
  for (const absl::Status& answer : RunAndCompareAll(trials)) CHECK(answer.message() == "");
}

TEST_CASE("what knobs of a product may not say", "[codegen]") {
  const graph::Graph graph =
      ParseOrDie({"input x: f32[64, 64] ~ normal", "input w: f32[64, 65] ~ normal",
                  "y: f32[m: 64, n: 64] = sum[k: 64](x[m, k] * w[n, k])", "output y"});
  struct Wrong {
    const char* knobs;
    const char* message;
  };
  const Wrong cases[] = {
      {"contract { tile_m: 20 }", "contract.tile_m is 20; it must be a power of two, halfway"},
      {"contract { tile_m: 24 }", "tiles of 24 x"},
      {"contract { tile_m: 256 tile_n: 256 }", "threads have no registers"},
      {"contract { stages: 4 }", "contract.stages and contract.cluster"},
      {"contract { split: 60 }", "contract.split"},
      {"contract { math: PRODUCT_TENSOR }", "contract.math is PRODUCT_TENSOR"},
      {"contract { math: PRODUCT_LIBRARY }",
       "its operands are neither both fp16 or both bf16 nor fp32"},
      {"contract { algorithm: 2 }", "contract.algorithm is 2; it is of PRODUCT_LIBRARY"},
      {"contract {} precision { accumulator: ACCUMULATOR_COMPENSATED }", "compensated"},
  };
  for (const Wrong& wrong : cases) {
    v1::Schedule schedule;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(wrong.knobs, schedule.add_groups()));
    schedule.mutable_groups(0)->add_roots("y");
    const auto plan = Lower(graph, schedule, TestTarget());
    INFO(plan.status().message());
    REQUIRE(!plan.ok());
    CHECK(absl::StrContains(plan.status().message(), wrong.message));
  }
}

}  // namespace
}  // namespace warpsmith::codegen
