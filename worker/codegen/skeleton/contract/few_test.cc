// Products of which one side has few rows (PRODUCT_FEW), on the host device against the oracle.
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "worker/codegen/skeleton/contract/contract_testing.h"

namespace warpsmith::codegen {
namespace {

// How many of the knobs are right with PRODUCT_FEW for each of the cases; each is right, or tiles
// that there are not.
int RightWith(absl::Span<const Case> cases, absl::Span<const char* const> knobs) {
  std::vector<Trial> trials;
  std::vector<std::string> names;
  uint64_t seed = 1;
  for (const Case& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (const char* one : knobs) {
      trials.push_back({graph, ScheduleOf(graph, one), seed++, false});
      names.push_back(absl::StrCat(c.what, ": ", one));
    }
  }
  int right = 0;
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(names[i]);
    INFO(answers[i].message());
    // Which side is the many, and in how many parts, decides which tiles there are.
    const bool refused = absl::StrContains(answers[i].message(), "rows each, and 1, 2, 4 or 8") ||
                         absl::StrContains(answers[i].message(), "threads have no registers");
    CHECK((answers[i].ok() || refused));
    right += answers[i].ok();
  }
  return right;
}

TEST_CASE("PRODUCT_FEW multiplies fp32 of up to 16 rows as it is", "[codegen]") {
  const Case cases[] = {
      {"either along K",
       {"input x: f32[7, 301] ~ normal", "input w: f32[150, 301] ~ normal",
        "y: f32[m: 7, n: 150] = sum[k: 301](x[m, k] * w[n, k])", "output y"}},
      {"either turned, 16 columns",
       {"input x: f32[136, 132] ~ normal", "input w: f32[136, 16] ~ normal",
        "y: f32[m: 132, n: 16] = sum[k: 136](x[k, m] * w[k, n])", "output y"}},
      {"one along K",
       {"input x: f32[12, 132] ~ normal", "input w: f32[132, 72] ~ normal",
        "y: f32[m: 12, n: 72] = sum[k: 132](x[m, k] * w[k, n])", "output y"}},
      {"the other",
       {"input x: f32[100, 9] ~ normal", "input w: f32[96, 100] ~ normal",
        "y: f32[m: 9, n: 96] = sum[k: 100](x[k, m] * w[n, k])", "output y"}},
      {"batches, maps on both sides and a scale behind",
       {"input x: f32[3, 5, 72] ~ normal", "input w: f32[3, 40, 72] ~ normal",
        "input c: f32[5] ~ normal",
        "s: f32[b: 3, m: 5, n: 40] = sum[k: 72](exp(x[b, m, k]) * (w[b, n, k] - 0.5))",
        "y: f32[b: 3, m: 5, n: 40] = s[b, m, n] * c[m]", "output y"}},
      {"elements made of 16 bits, eight at once",
       {"input x: bf16[6, 128] ~ normal", "input w: bf16[80, 128] ~ normal",
        "y: f32[m: 6, n: 80] = sum[k: 128](exp(f32(x[m, k])) * exp(f32(w[n, k])))", "output y"}},
      {"rows that would be too wide for two parts",
       {"input x: f32[8, 96] ~ normal", "input w: f32[48, 96] ~ normal",
        "h: f32[m: 8, k: 96] = x[m, k] * exp(select(5 <= m, x[m, k] * 12.0, 0.0))",
        "y: f32[m: 8, n: 48] = sum[k: 96](h[m, k] * w[n, k])", "output y"}},
  };
  const char* const knobs[] = {
      "contract { math: PRODUCT_FEW }",
      "contract { math: PRODUCT_FEW split: 2 run: 32 }",
      "contract { math: PRODUCT_FEW run: 32 stages: 2 }",
      "contract { math: PRODUCT_FEW run: 32 vector_bytes: 4 }",
  };
  CHECK(RightWith(cases, knobs) == 28);
}

TEST_CASE("PRODUCT_FEW takes more rows in pieces", "[codegen]") {
  const Case cases[] = {
      {"rows that pieces do not divide, either side the more",
       {"input x: f32[150, 70] ~ normal", "input w: f32[70, 201] ~ normal",
        "y: f32[m: 150, n: 201] = sum[k: 70](x[m, k] * w[k, n])", "output y"}},
      {"batches of 16 bits, with what stands behind",
       {"input x: bf16[3, 260, 48] ~ normal", "input w: bf16[3, 136, 48] ~ normal",
        "input c: f32[260] ~ normal",
        "s: f32[b: 3, m: 260, n: 136] = sum[k: 48](f32(x[b, m, k]) * f32(w[b, n, k]))",
        "y: bf16[b: 3, m: 260, n: 136] = bf16(max(s[b, m, n] + c[m], 0.0))", "output y"}},
      {"a triangle that is left",
       {"input x: f32[192, 40] ~ normal", "s: f32[m: 192, n: 192] = sum[k: 40](x[m, k] * x[n, k])",
        "y: f32[m: 192, n: 192] = select(n <= m, s[m, n], 0.0)", "output y"}},
      {"rows that are too wide, in the last piece",
       {"input x: f32[140, 64] ~ normal", "input w: f32[200, 64] ~ normal",
        "h: f32[m: 140, k: 64] = x[m, k] * exp(select(135 <= m, x[m, k] * 12.0, 0.0))",
        "y: f32[m: 140, n: 200] = sum[k: 64](h[m, k] * w[n, k])", "output y"}},
  };
  const char* const knobs[] = {
      "contract { math: PRODUCT_FEW }",
      "contract { math: PRODUCT_FEW tile_m: 64 tile_n: 64 split: 2 run: 32 }",
      "contract { math: PRODUCT_FEW tile_m: 64 tile_n: 128 }",
      "contract { math: PRODUCT_FEW tile_m: 32 tile_n: 64 run: 32 vector_bytes: 8 }",
  };
  CHECK(RightWith(cases, knobs) >= 13);
}

// Few rows whose words are read as they are multiplied, and the same by way of shared memory.
TEST_CASE("products of few rows", "[codegen]") {
  struct FewCase {
    const char* what;
    Lines graph;
    const char* tiles;  // %d: rows of the other side
    bool direct;        // with vectors of 16 bytes
  };
  const FewCase cases[] = {
      {"five rows, ragged",
       {"input x: bf16[5, 520] ~ normal", "param w: bf16[52, 520] ~ normal",
        "s: f32[m: 5, n: 52] = sum[k: 520](f32(x[m, k]) * f32(w[n, k]))",
        "y: bf16[m: 5, n: 52] = bf16(s[m, n])", "output y"},
       "tile_m: 16 tile_n: %d",
       true},
      {"sixteen of tensors that lie in others, with what follows",
       {"input x: f16[16, 3, 272] ~ normal", "input w: f16[64, 2, 304] ~ normal",
        "param c: f32[64] ~ normal",
        "s: f32[m: 16, n: 64] = sum[k: 256](f32(x[m, 1, k + 16]) * f32(w[n, 1, k + 40]))",
        "y: f32[m: 16, n: 64] = max(s[m, n] + c[n], 0.0)", "output y"},
       "tile_m: 16 tile_n: %d",
       true},
      {"twelve columns, of batches",
       {"input a: f16[3, 72, 1024] ~ normal", "input b: f16[3, 12, 1024] ~ normal",
        "y: f32[i: 3, m: 72, n: 12] = sum[k: 1024](f32(a[i, m, k]) * f32(b[i, n, k]))", "output y"},
       "tile_m: %d tile_n: 16",
       true},
      {"one row",
       {"input x: bf16[1, 264] ~ normal", "param w: bf16[40, 264] ~ normal",
        "s: f32[m: 1, n: 40] = sum[k: 264](f32(x[m, k]) * f32(w[n, k]))",
        "y: bf16[m: 1, n: 40] = bf16(s[m, n])", "output y"},
       "tile_m: 16 tile_n: %d",
       true},
      {"a map before one operand, the other along its rows",
       {"input x: bf16[5, 520] ~ normal", "param w: bf16[520, 52] ~ normal",
        "s: f32[m: 5, n: 52] = sum[k: 520](max(f32(x[m, k]), 0.0) * f32(w[k, n]))",
        "y: bf16[m: 5, n: 52] = bf16(s[m, n])", "output y"},
       "tile_m: 16 tile_n: %d",
       false},
      {"K of no whole vectors",
       {"input x: bf16[5, 520] ~ normal", "param w: bf16[52, 520] ~ normal",
        "s: f32[m: 5, n: 52] = sum[k: 517](f32(x[m, k]) * f32(w[n, k]))",
        "y: bf16[m: 5, n: 52] = bf16(s[m, n])", "output y"},
       "tile_m: 16 tile_n: %d",
       false},
  };
  std::vector<Trial> trials;
  std::vector<std::string> names;
  uint64_t seed = 1;
  for (const FewCase& c : cases) {
    const graph::Graph graph = ParseOrDie(c.graph);
    for (int tile : {32, 64, 128}) {
      for (const char* more :
           {"run: 32", "run: 64 split: 2", "run: 128", "run: 64 vector_bytes: 8"}) {
        const std::string knobs = absl::StrCat(
            "contract { math: PRODUCT_FEW ",
            absl::StrReplaceAll(c.tiles, {{"%d", absl::StrCat(tile)}}), " ", more, " }");
        // Threads that read words have registers for longer steps.
        if (!c.direct && absl::StrContains(more, "128")) continue;
        names.push_back(absl::StrCat(c.what, ": ", knobs));
        INFO(names.back());
        trials.push_back({graph, ScheduleOf(graph, knobs), seed++, seed % 3 == 0});
        const auto plan = Lower(graph, trials.back().schedule, TestTarget());
        INFO(plan.status().message());
        REQUIRE(plan.ok());
        CHECK(absl::StrContains(plan->DebugString(), "ws::Lines<") ==
              (c.direct && !absl::StrContains(more, "vector_bytes")));
      }
    }
  }
  const std::vector<absl::Status> answers = RunAndCompareAll(trials);
  for (size_t i = 0; i < answers.size(); ++i) {
    INFO(names[i] << ": " << answers[i].message());
    CHECK(answers[i].ok());
  }
}

}  // namespace
}  // namespace warpsmith::codegen
