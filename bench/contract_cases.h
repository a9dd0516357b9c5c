// The products that contract_bench.cc times, each with the knobs that it is timed with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpsmith::bench {

// Y[b, m, n] = sum of k: A[b, m, k] B[b, n, k], sums in fp32, Y of the operands' type. All row
// major: A is [batch, m, k] or, along_m, [batch, k, m]; B alike with n; Y is [batch, m, n].
struct ProductProblem {
  std::string type = "bf16";  // "bf16", "f16", "f32"
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool along_m = false, along_n = false;
};

// Knobs of the skeleton contract as a schedule has them in text, or another skeleton with its own;
// empty: the default.
struct Case {
  std::string name;
  ProductProblem problem;
  std::vector<std::string> knobs;
};

// Knobs of tiles of m x n, as text.
std::string Tiles(int m, int n, int stages, int cluster, int split = 1);

// In the order of the table.
std::vector<Case> Cases();
// Products of sizes that nobody chose, bf16, the same for the same seed: rows of 128 to 16,384,
// columns and K of 128 to 8,192, most of them multiples of 64, all of 8, some operands along the
// other axis; with the default.
std::vector<Case> DrawnCases(int count, uint64_t seed);

}  // namespace warpsmith::bench
