// Every skeleton's corners compile for the cards' architectures, without a card, and spill no more
// than stated. Skipped where there is no NVRTC.
#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/problem/units.h"
#include "worker/codegen/codegen.h"
#include "worker/device/device.h"
#include "worker/kernels/headers.h"

namespace warpsmith::codegen {
namespace {

using Lines = std::vector<std::string>;

// Bytes of local memory a thread: what a few values kept across a meeting cost, no more.
constexpr int kMaxSpill = 48;

struct Corner {
  const char* name;
  Lines graph;
  std::vector<const char*> schedules;  // knobs in text format, merged into reductions and windows
  int most_spill = kMaxSpill;
};

std::vector<Corner> Corners() {
  const Lines relu = {"input x: f32[65536, 1000] ~ normal",
                      "y: f32[r: 65536, c: 1000] = max(x[r, c], 0)", "output y"};
  const Lines big = {"input x: f32[65536, 65536] ~ normal",
                     "y: f32[r: 65536, c: 65536] = 1 / (1 + exp(-x[r, c]))", "output y"};
  const Lines gelu = {
      "input x: bf16[4096, 4096] ~ normal",
      "y: bf16[r: 4096, c: 4096] = bf16(f32(x[r, c]) * 0.5 * (1 + erf(f32(x[r, c]) * 0.70710677)))",
      "output y"};
  auto softmax = [](int64_t rows, int64_t k) {
    return Lines{absl::StrCat("input x: f32[", rows, ", ", k, "] ~ normal"),
                 absl::StrCat("m: f32[r: ", rows, "] = max[c: ", k, "](x[r, c])"),
                 absl::StrCat("s: f32[r: ", rows, "] = sum[c: ", k, "](exp(x[r, c] - m[r]))"),
                 absl::StrCat("y: f32[r: ", rows, ", c: ", k, "] = exp(x[r, c] - m[r]) / s[r]"),
                 "output y"};
  };
  auto norm = [](int64_t rows, int64_t k) {
    return Lines{absl::StrCat("input x: f32[", rows, ", ", k, "] ~ normal"),
                 absl::StrCat("param w: f32[", k, "] ~ normal"),
                 absl::StrCat("t: f32[r: ", rows, "] = sum[c: ", k, "](x[r, c])"),
                 absl::StrCat("q: f32[r: ", rows, "] = sum[c: ", k, "]((x[r, c] - t[r] / ", k,
                              ") * (x[r, c] - t[r] / ", k, "))"),
                 absl::StrCat("y: f32[r: ", rows, ", c: ", k, "] = (x[r, c] - t[r] / ", k,
                              ") * rsqrt(q[r] / ", k, " + 1e-5) * w[c]"),
                 "output y"};
  };
  const Lines affine = {
      "input x: f32[16, 4194304] ~ normal",
      "param w: f32[4194304] ~ normal",
      "param b: f32[4194304] ~ normal",
      "t: f32[r: 16] = sum[c: 4194304](x[r, c])",
      "q: f32[r: 16] = sum[c: 4194304]((x[r, c] - t[r] / 4194304) * (x[r, c] - t[r] "
      "/ 4194304))",
      "y: f32[r: 16, c: 4194304] = (x[r, c] - t[r] / 4194304) * rsqrt(q[r] / "
      "4194304 + 1e-5) * w[c] + b[c]",
      "output y"};
  const Lines batch_norm = {
      "input x: f32[64, 64, 262144] ~ normal",
      "param w: f32[64] ~ normal",
      "param b: f32[64] ~ normal",
      "t: f32[c: 64] = sum[n: 64, k: 262144](x[n, c, k])",
      "q: f32[c: 64] = sum[n: 64, k: 262144]((x[n, c, k] - t[c] / 16777216) * (x[n, c, k] - t[c] / "
      "16777216))",
      "y: f32[n: 64, c: 64, k: 262144] = (x[n, c, k] - t[c] / 16777216) * rsqrt(q[c] / 16777216 + "
      "1e-5) * w[c] + b[c]",
      "output y"};
  auto linear = [](const char* type) {
    Lines lines;
    for (const char* line :
         {"input x: @T[1024, 8192] ~ normal", "param w: @T[8192, 8192] ~ normal",
          "param c: @T[8192] ~ normal",
          "s: f32[m: 1024, n: 8192] = sum[k: 8192](f32(x[m, k]) * f32(w[n, k]))",
          "h: f32[m: 1024, n: 8192] = s[m, n] + f32(c[n])",
          "y: @T[m: 1024, n: 8192] = @T(h[m, n] * 0.5 * (1 + erf(h[m, n] * 0.70710677)))",
          "output y"}) {
      lines.push_back(absl::StrReplaceAll(line, {{"@T", type}}));
    }
    return lines;
  };
  auto norm_backward = [](int64_t rows, int64_t k, const char* type) {
    Lines lines;
    for (const char* line :
         {"input dy: @T[@R, @K] ~ normal", "input x: @T[@R, @K] ~ normal",
          "input mean: f32[@R] ~ normal", "input rstd: f32[@R] ~ uniform(0.5, 1.5)",
          "param w: @T[@K] ~ normal", "h: f32[r: @R, c: @K] = (f32(x[r, c]) - mean[r]) * rstd[r]",
          "g: f32[r: @R, c: @K] = f32(dy[r, c]) * f32(w[c])", "a: f32[r: @R] = sum[c: @K](g[r, c])",
          "b: f32[r: @R] = sum[c: @K](g[r, c] * h[r, c])",
          "dx: @T[r: @R, c: @K] = @T(rstd[r] * (g[r, c] - (a[r] + h[r, c] * b[r]) / @K))",
          "dw: f32[c: @K] = sum[r: @R](f32(dy[r, c]) * h[r, c])",
          "db: f32[c: @K] = sum[r: @R](f32(dy[r, c]))", "output dx, dw, db"}) {
      lines.push_back(absl::StrReplaceAll(
          line, {{"@T", type}, {"@R", absl::StrCat(rows)}, {"@K", absl::StrCat(k)}}));
    }
    return lines;
  };
  const Lines table = {
      "input k: i64[1688] ~ integers(0, 65536)",
      "input v: bf16[1688, 4096] ~ normal",
      "input t: f32[65536, 4096] ~ normal",
      "s: f32[i: 65536, j: 4096] = sum[r: 1688](select(k[r] == i, f32(v[r, j]), 0))",
      "y: bf16[i: 65536, j: 4096] = bf16(t[i, j] + s[i, j])",
      "output y"};
  const Lines bins = {
      "input k: i32[64, 100000] ~ integers(0, 30000)", "input v: f32[64, 100000] ~ normal",
      "y: f32[b: 64, i: 30000] = sum[r: 100000](select(i64(k[b, r]) == i, v[b, r], 0))",
      "output y"};
  const Lines total = {"input x: f32[268435456] ~ normal", "t: f32 = sum[k: 268435456](abs(x[k]))",
                       "output t"};
  const Lines argmax = {"input x: f32[128, 4096, 4096] ~ normal",
                        "v, i: f32[a: 128, c: 4096] = argmax[k: 4096](x[a, k, c])", "output i"};
  const Lines rms = {"input x: f32[16, 64, 65536] ~ normal",
                     "s: f32[n: 16, p: 65536] = sum[c: 64](x[n, c, p] * x[n, c, p])",
                     "y: f32[n: 16, c: 64, p: 65536] = x[n, c, p] / sqrt(s[n, p] / 64 + 1e-5)",
                     "output y"};
  const Lines pool = {"input x: f32[32, 64, 512, 512] ~ normal",
                      "y: f32[n: 32, c: 64, h: 511, w: 511] = max[p: 4, q: 4](select(0 <= h + p - "
                      "1 and h + p - 1 < 512 and 0 <= w + q - 1 and "
                      "w + q - 1 < 512, x[n, c, h + p - 1, w + q - 1], -inf))",
                      "output y"};
  const Lines pool3 = {"input x: f32[2, 32, 64, 64, 64] ~ normal",
                       "y: f32[n: 2, c: 32, d: 31, h: 31, w: 31] = sum[i: 3, j: 3, k: 3](x[n, c, d "
                       "* 2 + i, h * 2 + j, w * 2 + k])",
                       "output y"};
  const Lines masked = {
      "input x: f32[32768, 32768] ~ normal", "input m: bool[32768, 32768] ~ integers(0, 2)",
      "y: f32[r: 32768, k: 32768] = cumsum[k](x[r, k] * f32(m[r, k]))", "output y"};
  const Lines products = {"input x: f32[32768, 32768] ~ uniform(0, 1)",
                          "y: f32[r: 32768, k: 32768] = cumprod[k](x[r, k])", "output y"};
  const Lines halves = {"input x: bf16[32768, 32768] ~ normal",
                        "w: f32[r: 32768, k: 32768] = cumprod[k, reverse, exclusive](f32(x[r, k]))",
                        "y: bf16[r: 32768, k: 32768] = bf16(w[r, k])", "output y"};
  const Lines long_scan = {"input x: f32[1073741824] ~ normal",
                           "y: f32[k: 1073741824] = cumsum[k](x[k])", "output y"};
  const Lines indexed = {"input x: f32[4194304, 65] ~ normal",
                         "v, i: f32[r: 4194304, k: 65] = cumargmax[k](x[r, k])", "output v, i"};
  const Lines middle = {"input x: f32[4096, 4096, 16] ~ normal",
                        "y: f32[o: 4096, k: 4096, c: 16] = cumlogsumexp[k](x[o, k, c])",
                        "output y"};
  const Lines few_columns = {"input x: bf16[1048576, 64] ~ normal",
                             "w: f32[k: 1048576, c: 64] = cumsum[k](f32(x[k, c]))",
                             "y: bf16[k: 1048576, c: 64] = bf16(w[k, c])", "output y"};
  const char* counter =
      "rows { block_threads: 512 threads_per_row: 512 blocks_per_row: 32 meeting: MEETING_COUNTER "
      "blocks_per_sm: 2 register_vectors: 8 shared_vectors: 8 }";
  const char* cluster =
      "rows { block_threads: 256 threads_per_row: 256 blocks_per_row: 16 meeting: MEETING_CLUSTER "
      "blocks_per_sm: 2 register_vectors: 12 shared_vectors: 12 }";
  const char* online = "rows { online: true }";
  const char* streaming =
      "rows { load_hint: CACHE_STREAMING store_hint: CACHE_STREAMING vector_bytes: 8 unroll: 8 }";
  const char* streaming_map =
      "map { load_hint: CACHE_STREAMING store_hint: CACHE_STREAMING vector_bytes: 8 unroll: 8 }";
  return {
      {"pointwise",
       relu,
       {"", streaming_map, "map { block_threads: 1024 blocks_per_sm: 2 reverse: true }"}},
      {"more than 2^31 elements", big, {""}},
      {"bf16", gelu, {"", "precision { fast_math: true }"}},
      {"softmax of short rows",
       softmax(65536, 512),
       {"", online, "rows { threads_per_row: 8 block_threads: 256 }"}},
      {"softmax of rows of a block", softmax(4096, 16384), {"", online, streaming}},
      {"softmax of long rows", softmax(4096, 393216), {"", counter, cluster, online}},
      {"ragged rows", softmax(4096, 65535), {"", counter}},
      {"norm of rows of a block",
       norm(8192, 8192),
       {"", "precision { accumulator: ACCUMULATOR_COMPENSATED }"}},
      {"norm of rows that fill the card",
       norm(16, 4194304),
       {"", counter, cluster, "precision { accumulator: ACCUMULATOR_F64 }",
        "rows { block_threads: 512 threads_per_row: 512 blocks_per_row: 128 meeting: "
        "MEETING_COUNTER blocks_per_sm: 1 register_vectors: 7 shared_vectors: 9 rows_at_once: 2 "
        "}"}},
      {"norm of rows that fill the card, and a bias",
       affine,
       {"",
        "rows { block_threads: 512 threads_per_row: 512 blocks_per_row: 128 meeting: "
        "MEETING_COUNTER blocks_per_sm: 1 register_vectors: 8 shared_vectors: 24 }"}},
      // Registers that keep half of it, and eight loads in flight: none for sm_90a.
      {"norm of channels that the card cannot hold", batch_norm, {""}, 288},
      {"gradients of a norm of fp32",
       norm_backward(20480, 2048, "f32"),
       {"", "precision { accumulator: ACCUMULATOR_F64 }",
        "rows { block_threads: 512 threads_per_row: 128 blocks_per_sm: 1 }"}},
      {"gradients of a norm of halves",
       norm_backward(10240, 8192, "bf16"),
       {"", "rows { unroll: 1 }"}},
      {"gradients of a norm of short rows",
       norm_backward(262144, 128, "f16"),
       {"", "rows { rows_at_once: 2 }"}},
      {"whole tensor",
       total,
       {"", "precision { accumulator: ACCUMULATOR_F64 }", "rows { unroll: 16 }"}},
      {"argmax of columns",
       argmax,
       {"", "columns { split: 4 }", "columns { vector_bytes: 4 unroll: 16 }"}},
      {"norm of columns",
       rms,
       {"", "columns { block_threads: 512 thread_rows: 16 }",
        "columns { register_vectors: 16 thread_rows: 4 }"}},
      {"pooling of two axes",
       pool,
       {"", "window { outputs: 16 }", "window { vector_bytes: 4 outputs: 8 }",
        "window { vector_bytes: 4 outputs: 1 }"}},
      {"pooling of three axes", pool3, {"", "window { outputs: 2 vector_bytes: 8 }"}},
      {"scan of masked rows",
       masked,
       {"", "scan { load_hint: CACHE_STREAMING store_hint: CACHE_STREAMING chunks: 2 }",
        "scan { block_threads: 1024 }"}},
      {"scan of products", products, {"", "scan { block_threads: 256 threads_per_row: 16 }"}},
      {"scan of halves", halves, {"", "scan { vectors: 4 blocks_per_sm: 1 }"}},
      {"scan of one row that all blocks share",
       long_scan,
       {"", "scan { block_threads: 512 vectors: 2 }"}},
      {"scan with an index, of short rows", indexed, {""}},
      {"scan along a middle axis", middle, {"", "precision { fast_math: true }"}},
      {"scan of few columns", few_columns, {""}},
      {"rows into places of a table", table, {"", "scatter { part_rows: 8 block_threads: 1024 }"}},
      {"numbers into places, of batches",
       bins,
       {"scatter { }", "scatter { } precision { accumulator: ACCUMULATOR_F64 }"}},
      {"a linear layer",
       linear("f32"),
       {"contract { math: PRODUCT_PLAIN }",
        "contract { math: PRODUCT_PLAIN tile_m: 128 tile_n: 128 } precision { accumulator: "
        "ACCUMULATOR_F64 }",
        "contract { math: PRODUCT_PLAIN tile_m: 16 tile_n: 256 split: 4 }"}},
  };
}

void CompileAll(const std::string& arch) {
  auto compiler = device::MakeCompiler(arch, std::filesystem::temp_directory_path().string());
  if (!compiler.ok()) {
    WARN("not compiled for " << arch << ": " << compiler.status().message());
    return;
  }
  Target target;
  target.arch = arch;
  for (const Corner& corner : Corners()) {
    auto graph = graph::Parse(corner.graph, {});
    INFO(corner.name << ": " << graph.status().message());
    REQUIRE(graph.ok());
    const v1::Schedule first = DefaultSchedule(*graph, target);
    const auto infos = Describe(*graph, first, target);
    REQUIRE(infos.ok());
    for (const char* knobs : corner.schedules) {
      INFO(corner.name << " for " << arch << ": " << knobs);
      v1::Group merged;
      REQUIRE(google::protobuf::TextFormat::ParseFromString(knobs, &merged));
      v1::Schedule schedule = first;
      for (int g = 0; g < schedule.groups_size(); ++g)
        schedule.mutable_groups(g)->MergeFrom(merged);
      auto plan = Lower(*graph, schedule, target);
      INFO(plan.status().message());
      REQUIRE(plan.ok());
      // As a search compiles them: each kernel with what its unit has, and nothing else.
      for (const std::string& unit : problem::UnitsOf(plan->source())) {
        auto binary = (*compiler)->Compile(unit, absl::Seconds(60));
        INFO(binary.status().message());
        REQUIRE(binary.ok());
        CHECK(binary->report.kernels_size() == 1);
        for (const auto& kernel : binary->report.kernels()) {
          INFO(kernel.entry() << ": " << kernel.registers() << " registers, "
                              << kernel.spill_bytes() << " bytes spilled");
          CHECK(kernel.spill_bytes() <= corner.most_spill);
          CHECK(kernel.registers() > 0);
        }
      }
    }
  }
}

// As an export has them, where kernels of several skeletons are one text.
TEST_CASE("all headers of device code are one text", "[nvrtc]") {
  auto compiler = device::MakeCompiler("sm_90a", std::filesystem::temp_directory_path().string());
  if (!compiler.ok()) {
    WARN("not compiled: " << compiler.status().message());
    return;
  }
  std::string text;
  for (const auto& [name, header] : kernels::Headers()) {
    if (!absl::StrContains(name, "host")) absl::StrAppend(&text, "#include <", name, ">\n");
  }
  auto binary = (*compiler)->Compile(
      absl::StrCat(text, "extern \"C\" __global__ void f(int* x) { *x = ws::block(); }"),
      absl::Seconds(60));
  INFO(binary.status().message());
  CHECK(binary.ok());
}

TEST_CASE("corners compile for sm_90a without spills", "[nvrtc]") { CompileAll("sm_90a"); }
TEST_CASE("corners compile for sm_100a without spills", "[nvrtc]") { CompileAll("sm_100a"); }

}  // namespace
}  // namespace warpsmith::codegen
