#include "worker/codegen/group/contraction.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpsmith::codegen {
namespace {

using Lines = std::vector<std::string>;

// The last node's contraction as text, or why it is none. Inputs are in memory.
std::string Seen(const Lines& lines) {
  auto graph = graph::Parse(lines, {});
  INFO(graph.status());
  REQUIRE(graph.ok());
  const auto in_memory = [&](int tensor) { return graph->tensors[tensor].node < 0; };
  auto found = ContractionOf(*graph, graph->nodes.back(), in_memory);
  if (!found.ok()) return std::string(found.status().message());
  const auto factor = [&](const char* name, const Factor& f) {
    return absl::StrCat(name, " ", graph->tensors[f.tensor].name,
                        f.offset != 0 ? absl::StrCat("+", f.offset) : "", " ", f.rows, ":", f.row,
                        ",", f.k, ">", f.out);
  };
  std::string text =
      absl::StrCat(graph::NameOf(found->type), " ", graph::NameOf(found->sums), " k ", found->k,
                   "; ", factor("a", found->a), "; ", factor("b", found->b));
  for (const BatchAxis& axis : found->batch) {
    absl::StrAppend(&text, "; batch ", axis.extent, ":", axis.a, ",", axis.b, ">", axis.out);
  }
  return text;
}

}  // namespace

TEST_CASE("products are seen by where their factors lie", "[codegen]") {
  const struct {
    const char* what;
    Lines lines;
    std::string seen;
  } cases[] = {
      {"a linear layer",
       {"input x: bf16[64, 128] ~ normal", "param w: bf16[32, 128] ~ normal",
        "y: f32[i: 64, o: 32] = sum[k: 128](f32(x[i, k]) * f32(w[o, k]))", "output y"},
       "bf16 f32 k 128; a x 64:128,1>32; b w 32:128,1>1"},
      {"its factors the other way round",
       {"input x: bf16[64, 128] ~ normal", "param w: bf16[32, 128] ~ normal",
        "y: f32[i: 64, o: 32] = sum[k: 128](f32(w[o, k]) * f32(x[i, k]))", "output y"},
       "bf16 f32 k 128; a x 64:128,1>32; b w 32:128,1>1"},
      {"a product of matrices, both along their rows",
       {"input a: f32[128, 64] ~ normal", "input b: f32[128, 32] ~ normal",
        "y: f32[i: 64, j: 32] = sum[k: 128](a[k, i] * b[k, j])", "output y"},
       "f32 f32 k 128; a a 64:1,64>32; b b 32:1,32>1"},
      {"rows of two axes, which are one",
       {"input x: f16[4, 16, 128] ~ normal", "param w: f16[128, 32] ~ normal",
        "y: f32[b: 4, t: 16, o: 32] = sum[k: 128](f32(x[b, t, k]) * f32(w[k, o]))", "output y"},
       "f16 f32 k 128; a x 64:128,1>32; b w 32:1,32>1"},
      {"a sum over two axes, which are one",
       {"input x: f32[64, 8, 16] ~ normal", "param w: f32[32, 8, 16] ~ normal",
        "y: f32[i: 64, o: 32] = sum[h: 8, d: 16](x[i, h, d] * w[o, h, d])", "output y"},
       "f32 f32 k 128; a x 64:128,1>32; b w 32:128,1>1"},
      {"scores of attention, heads inside",
       {"input q: bf16[2, 64, 16, 128] ~ normal", "input k: bf16[2, 32, 16, 128] ~ normal",
        "s: f32[b: 2, h: 16, i: 64, j: 32] = sum[d: 128](f32(q[b, i, h, d]) * f32(k[b, j, h, d]))",
        "output s"},
       "bf16 f32 k 128; a q 64:2048,1>32; b k 32:2048,1>1; batch 2:131072,65536>32768; batch "
       "16:128,128>2048"},
      {"heads that share keys",
       {"input q: bf16[4, 8, 64, 128] ~ normal", "input k: bf16[4, 32, 128] ~ normal",
        "s: f32[g: 4, h: 8, i: 64, j: 32] = sum[d: 128](f32(q[g, h, i, d]) * f32(k[g, j, d]))",
        "output s"},
       "bf16 f32 k 128; a q 512:128,1>32; b k 32:128,1>1; batch 4:65536,4096>16384"},
      {"a view of a factor, inlined",
       {"input x: f32[64, 256] ~ normal", "param w: f32[32, 128] ~ normal",
        "v: f32[i: 64, k: 128] = x[i, k + 128]",
        "y: f32[i: 64, o: 32] = sum[k: 128](v[i, k] * w[o, k])", "output y"},
       "f32 f32 k 128; a x+128 64:256,1>32; b w 32:128,1>1"},
      {"a matrix by a vector",
       {"input x: f32[128] ~ normal", "param w: f32[32, 128] ~ normal",
        "y: f32[o: 32] = sum[k: 128](x[k] * w[o, k])", "output y"},
       "f32 f32 k 128; a w 32:128,1>1; b x 1:0,1>0"},
      {"a matrix by itself",
       {"input x: f32[64, 128] ~ normal", "y: f32[i: 64, j: 64] = sum[k: 128](x[i, k] * x[j, k])",
        "output y"},
       "f32 f32 k 128; a x 64:128,1>64; b x 64:128,1>1"},
      {"a row of one element",
       {"input x: bf16[1, 128] ~ normal", "param w: bf16[32, 128] ~ normal",
        "y: f32[i: 1, o: 32] = sum[k: 128](f32(x[i, k]) * f32(w[o, k]))", "output y"},
       "bf16 f32 k 128; a w 32:128,1>1; b x 1:0,1>0"},
      {"a convolution along one axis: windows are rows that overlap",
       {"input x: f32[100] ~ normal", "param w: f32[8, 5] ~ normal",
        "y: f32[o: 8, i: 96] = sum[k: 5](x[i + k] * w[o, k])", "output y"},
       "f32 f32 k 5; a w 8:5,1>96; b x 96:1,1>1"},
  };
  for (const auto& c : cases) {
    INFO(c.what);
    CHECK(Seen(c.lines) == c.seen);
  }
}

TEST_CASE("what is no product says why", "[codegen]") {
  const Lines inputs = {"input x: f32[64, 128] ~ normal", "input w: f32[32, 128] ~ normal",
                        "input h: f16[32, 128] ~ normal", "input t: i64[64] ~ integers(0, 60)"};
  const struct {
    std::string node, why;
  } cases[] = {
      {"y: f32[i: 64] = max[k: 128](x[i, k])", "it is no sum"},
      {"y: f32[i: 64] = sum[k: 128](x[i, k])", "what it sums is no product"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](exp(x[i, k]) * w[o, k])",
       "a factor is no element in memory"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](x[i, k] * f32(h[o, k]))",
       "its factors have different types"},
      {"y: f16[i: 64, o: 32] = sum[k: 128](f16(x[i, k]) * h[o, k])",
       "a factor is no element in memory"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](select(k < i, x[i, k], 0) * w[o, k])",
       "a factor is no element in memory"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](x[t[i], k] * w[o, k])",
       "a factor is read at places that are not affine"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](x[i, 127 - k] * w[o, k])", "a factor is read backwards"},
      {"y: f32[i: 64, o: 32] = sum[k: 128](x[i, k] * w[o, k / 2])",
       "a factor is read at places that are not affine"},
      {"y: f32[i: 64] = sum[k: 128, o: 32](x[i, k] * w[o, k])",
       "it sums over what one factor alone has"},
      {"y: f32[i: 64, o: 32, z: 2] = sum[k: 128](x[i, k] * w[o, k])",
       "an axis of the result is none of its factors'"},
      {"y: f32[i: 4, o: 32, z: 16] = sum[k: 128](x[i * 16 + z, k] * w[o, k])",
       "a factor's rows are not one axis in it and in the result"},
  };
  for (const auto& c : cases) {
    INFO(c.node);
    Lines lines = inputs;
    lines.push_back(c.node);
    lines.push_back("output y");
    CHECK(Seen(lines) == c.why);
  }
}

}  // namespace warpsmith::codegen
