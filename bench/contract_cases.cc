#include "bench/contract_cases.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"

namespace warpsmith::bench {

std::string Tiles(int m, int n, int stages, int cluster, int split) {
  return absl::StrCat("tile_m: ", m, " tile_n: ", n, " stages: ", stages, " cluster: ", cluster,
                      " split: ", split);
}

namespace {

// `rows` of the greater side a block.
std::string Few(int rows, int split, int run) {
  return absl::StrCat("math: PRODUCT_FEW tile_n: ", rows, " split: ", split, " run: ", run);
}

// One operand made parts of on its way, the greater one.
std::string Inline(int m, int n, int stages, int cluster, int split = 1) {
  return absl::StrCat("math: PRODUCT_FP16X3_INLINE ", Tiles(m, n, stages, cluster, split));
}

}  // namespace

std::vector<Case> Cases() {
  const auto problem = [](const char* type, int64_t m, int64_t n, int64_t k, bool along_m = false,
                          bool along_n = false) {
    ProductProblem p;
    p.type = type, p.m = m, p.n = n, p.k = k, p.along_m = along_m, p.along_n = along_n;
    return p;
  };
  const std::vector<std::string> large = {"",
                                          Tiles(128, 256, 4, 2) + " raster: 4",
                                          Tiles(128, 256, 4, 2),
                                          Tiles(128, 256, 4, 1),
                                          Tiles(128, 192, 4, 1),
                                          Tiles(128, 192, 4, 1) + " turns: 2",
                                          Tiles(128, 128, 6, 2),
                                          Tiles(128, 128, 6, 1) + " turns: 2",
                                          Tiles(128, 128, 6, 2) + " turns: 2"};
  const std::vector<std::string> rasters = {"",
                                            Tiles(128, 256, 4, 1),
                                            Tiles(128, 256, 4, 1) + " raster: 16",
                                            Tiles(128, 256, 4, 2) + " raster: 4",
                                            Tiles(128, 256, 4, 2),
                                            Tiles(128, 256, 4, 2) + " raster: 16",
                                            Tiles(128, 192, 4, 1),
                                            Tiles(128, 192, 4, 1) + " turns: 2",
                                            Tiles(128, 128, 6, 1) + " turns: 2",
                                            "math: PRODUCT_LIBRARY algorithm: 1",
                                            "math: PRODUCT_LIBRARY algorithm: 2"};
  // Waves that do not fit: tiles alone, by turns, and the last wave's by clusters.
  std::vector<std::string> waves = {"", Tiles(128, 192, 4, 1) + " turns: 2",
                                    Tiles(128, 128, 6, 1) + " turns: 2"};
  for (const std::string& tiles :
       {Tiles(128, 256, 4, 1), Tiles(128, 192, 4, 1), Tiles(128, 128, 6, 1)}) {
    for (int tail : {1, 2, 4, 8}) waves.push_back(absl::StrCat(tiles, " tail: ", tail));
  }
  const std::vector<std::string> small = {"",
                                          Tiles(128, 256, 4, 1),
                                          Tiles(128, 128, 6, 1),
                                          Tiles(128, 64, 6, 1),
                                          Tiles(64, 128, 6, 1),
                                          Tiles(64, 64, 8, 1),
                                          Tiles(64, 64, 8, 1, 2),
                                          Tiles(64, 64, 8, 1, 4)};
  const std::vector<std::string> few = {"",
                                        Tiles(64, 32, 12, 1),
                                        Tiles(64, 32, 12, 1, 2),
                                        Tiles(64, 16, 12, 1),
                                        Tiles(64, 64, 8, 1, 2),
                                        Tiles(64, 64, 8, 1, 4),
                                        Tiles(64, 128, 8, 1),
                                        Tiles(64, 128, 6, 1, 3),
                                        Tiles(64, 128, 6, 1, 4),
                                        Tiles(64, 128, 6, 1, 8)};
  const std::vector<std::string> by_threads = {"",
                                               Few(32, 1, 32),
                                               Few(32, 2, 32),
                                               Few(32, 4, 32),
                                               Few(64, 1, 32),
                                               Few(64, 1, 64),
                                               Few(128, 1, 32),
                                               Few(32, 1, 64),
                                               Few(32, 2, 64)};
  std::vector<std::string> directly;
  for (int rows : {16, 32, 64, 128}) {
    for (int split : {1, 2}) {
      for (int run : {64, 128}) directly.push_back(Few(rows, split, run));
    }
  }
  std::vector<std::string> exactly = {"", "math: PRODUCT_PLAIN", "math: PRODUCT_FP16X3_INLINE"};
  for (int rows : {32, 64, 128}) {
    for (int split : {1, 2, 4}) {
      for (const char* more : {"", " stages: 2"}) exactly.push_back(Few(rows, split, 32) + more);
    }
    exactly.push_back(Few(rows, 1, 64));
    exactly.push_back(Few(rows, 2, 64));
  }
  std::vector<std::string> single = few;
  single.insert(single.end(), directly.begin(), directly.end());
  single.insert(single.end(), {"rows { }", "rows { rows_at_once: 2 }", "rows { unroll: 2 }",
                               "rows { block_threads: 256 threads_per_row: 256 }",
                               "rows { block_threads: 256 threads_per_row: 128 }",
                               "rows { block_threads: 256 threads_per_row: 32 }",
                               "rows { block_threads: 512 threads_per_row: 256 }"});
  std::vector<std::string> both = few;
  both.insert(both.end(), directly.begin(), directly.end());
  const std::vector<std::string> many = {"",
                                         Few(128, 1, 32),
                                         Few(128, 1, 64),
                                         Few(128, 2, 32),
                                         Few(64, 1, 32),
                                         Few(16, 1, 32),
                                         Few(16, 1, 64)};
  const std::vector<std::string> exact = {"", Tiles(128, 128, 3, 2), Tiles(128, 128, 3, 1),
                                          Tiles(128, 128, 3, 1, 2), Tiles(64, 128, 3, 1)};
  const std::vector<std::string> exact_waves = {
      "", Tiles(128, 128, 3, 1), Tiles(128, 128, 3, 1) + " tail: 2",
      Tiles(128, 128, 3, 1) + " tail: 4", Tiles(64, 128, 3, 1) + " tail: 8"};
  // Each with sums of all of K at once, and added up every 128 of them.
  const auto eight = [](const std::string& tiles) { return "math: PRODUCT_FP8 " + tiles; };
  const std::vector<std::string> eights = {"",
                                           eight(Tiles(128, 128, 6, 2)),
                                           eight(Tiles(128, 128, 6, 1)),
                                           eight(Tiles(64, 128, 8, 2)),
                                           eight(Tiles(64, 128, 8, 1)),
                                           eight(Tiles(128, 64, 8, 2)),
                                           eight(Tiles(128, 128, 6, 2) + " run: 65536"),
                                           eight(Tiles(128, 256, 4, 2) + " run: 65536"),
                                           eight(Tiles(128, 256, 4, 1) + " run: 65536"),
                                           "math: PRODUCT_TENSOR"};
  const auto and_inline = [](std::vector<std::string> knobs, const std::vector<std::string>& more) {
    knobs.insert(knobs.end(), more.begin(), more.end());
    return knobs;
  };
  const std::string inline_auto = "math: PRODUCT_FP16X3_INLINE";
  const auto inline_few = [&](int rows) {
    return std::vector<std::string>{inline_auto, Inline(rows, 128, 3, 1), Inline(rows, 64, 4, 1),
                                    Inline(rows, 128, 3, 1, 2), Inline(rows, 64, 4, 1, 2)};
  };
  std::vector<Case> cases = {
      {"square", problem("bf16", 8192, 8192, 8192), large},
      {"square", problem("bf16", 4096, 4096, 4096), large},
      {"square fp16", problem("f16", 4096, 4096, 4096), large},
      {"A along M", problem("bf16", 4096, 4096, 4096, true, false), large},
      {"B along N", problem("bf16", 4096, 4096, 4096, false, true), large},
      {"both turned", problem("bf16", 4096, 4096, 4096, true, true), large},
      {"linear layer", problem("bf16", 1024, 8192, 8192), large},
      {"tall", problem("bf16", 65536, 512, 512), large},
      {"odd words", problem("f16", 1024, 51866, 1280), large},
      {"long", problem("bf16", 4224, 8192, 16384), rasters},
      {"long, B along N", problem("bf16", 4224, 8192, 16384, false, true), rasters},
      {"long, both turned", problem("bf16", 8448, 16384, 3376, true, true), rasters},
      {"wide", problem("f16", 7184, 16384, 1280), rasters},
      {"last wave", problem("f16", 6144, 768, 3072), waves},
      {"last wave", problem("bf16", 3120, 1536, 1536), waves},
      {"last wave", problem("bf16", 8192, 2048, 2048), waves},
      {"last wave", problem("bf16", 7184, 1536, 768), waves},
      {"last wave, both turned", problem("bf16", 3000, 2992, 4104, true, true), waves},
      {"ragged", problem("bf16", 1000, 3000, 2008), small},
      {"lines that begin anywhere", problem("bf16", 1001, 3001, 2001), small},
      {"small", problem("bf16", 512, 512, 512), small},
      {"64 rows", problem("bf16", 64, 4096, 4096), few},
      {"16 rows", problem("bf16", 16, 4096, 4096), both},
      {"16 rows", problem("bf16", 16, 14336, 4096), both},
      {"16 rows", problem("bf16", 16, 4096, 14336), both},
      {"16 rows, B along N", problem("bf16", 16, 14336, 4096, false, true), by_threads},
      {"4 rows", problem("bf16", 4, 4096, 4096), both},
      {"4 rows", problem("bf16", 4, 4096, 14336), both},
      {"4 rows", problem("bf16", 4, 14336, 4096), both},
      {"1 row", problem("bf16", 1, 4096, 4096), single},
      {"1 row", problem("bf16", 1, 14336, 4096), single},
      {"1 row", problem("bf16", 1, 4096, 14336), single},
      {"93 rows", problem("f16", 93, 128, 2048), many},
      {"8 rows fp32", problem("f32", 8, 8192, 8192), exactly},
      {"8 rows fp32, B along N", problem("f32", 8, 8192, 8192, false, true), exactly},
      {"2 rows fp32", problem("f32", 2, 4096, 4096), exactly},
      {"4 rows fp32, B along N", problem("f32", 4, 4096, 4096, false, true), exactly},
      {"16 rows fp32", problem("f32", 16, 4096, 4096), exactly},
      {"16 rows fp32, B along N", problem("f32", 16, 4096, 4096, false, true), exactly},
      {"16 rows fp32, both turned", problem("f32", 16, 4096, 4096, true, true), exactly},
      {"16 rows fp32", problem("f32", 16, 8192, 8192), exactly},
      {"32 rows fp32", problem("f32", 32, 18432, 3072), and_inline(by_threads, inline_few(32))},
      {"32 rows fp32, B along N", problem("f32", 32, 18432, 3072, false, true),
       and_inline(by_threads, {inline_auto})},
      {"128 rows fp32", problem("f32", 128, 16384, 16384), and_inline(many, inline_few(128))},
      {"128 rows fp32, B along N", problem("f32", 128, 16384, 16384, false, true),
       and_inline(many, inline_few(128))},
      {"128 rows fp32", problem("f32", 128, 32768, 32768), and_inline(many, inline_few(128))},
      {"square fp8", problem("u8", 8192, 8192, 8192), eights},
      {"square fp8", problem("u8", 4096, 4096, 4096), eights},
      {"linear layer fp8", problem("u8", 1024, 7680, 7680), eights},
      {"tall fp8", problem("u8", 16384, 2048, 7168), eights},
      {"small fp8", problem("u8", 512, 4608, 1536), eights},
      {"square fp32", problem("f32", 4096, 4096, 4096), and_inline(exact, {inline_auto})},
      {"linear layer fp32", problem("f32", 1024, 8192, 8192),
       and_inline(exact, {inline_auto, Inline(128, 128, 3, 2)})},
      {"both turned fp32", problem("f32", 4096, 4096, 4096, true, true),
       and_inline(exact, {inline_auto})},
      {"K of 64 fp32", problem("f32", 8192, 8192, 64), exact},
      {"much written fp32", problem("f32", 16384, 16384, 64), exact},
      {"much written fp16", problem("f16", 16384, 4096, 128), large},
      {"last wave fp32", problem("f32", 2100, 1800, 3000), exact_waves},
  };
  for (Case& c : cases) {
    if (c.problem.type == "f32" || c.problem.type == "u8") continue;
    for (int algorithm : {1, 2, 3})
      c.knobs.push_back(absl::StrCat("math: PRODUCT_LIBRARY algorithm: ", algorithm));
  }
  return cases;
}

std::vector<Case> DrawnCases(int count, uint64_t seed) {
  constexpr double kLeast = 2e9, kMost = 4e11;  // operations
  std::mt19937_64 random(seed);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto size = [&](double least, double most) {
    const double drawn = least * std::pow(most / least, unit());
    const int64_t of = unit() < 0.75 ? 64 : 8;
    return std::max<int64_t>(1, std::llround(drawn / of)) * of;
  };
  std::vector<Case> cases;
  while (static_cast<int>(cases.size()) < count) {
    ProductProblem p;
    p.m = size(128, 16384), p.n = size(128, 8192), p.k = size(128, 8192);
    p.along_m = unit() < 0.15, p.along_n = unit() < 0.3;
    const double operations = 2.0 * p.m * p.n * p.k;
    if (operations < kLeast || operations > kMost) continue;
    cases.push_back({"drawn", p, {""}});
  }
  return cases;
}

}  // namespace warpsmith::bench
