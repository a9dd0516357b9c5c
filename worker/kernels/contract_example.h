// Products of matrices as code generation would write them for the skeleton `contract`: for tests
// and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpsmith::kernels {

// Y[b, m, n] = sum of k: A[b, m, k] B[b, n, k]. All row major: A is [batch, m, k] or, along_m,
// [batch, k, m]; B alike with n; Y is [batch, m, n]. Rows of each begin at multiples of 16 bytes.
struct ProductProblem {
  enum class Math {
    kBf16,
    kFp16,
    kFp16x3
  };  // kFp16x3: fp32 in and out, in two parts (split.cuh), along K
  Math math = Math::kBf16;
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool along_m = false, along_n = false;
  bool fp32_out = false;
};

struct ProductKnobs {
  int tile_m = 128, tile_n = 256, stages = 4, cluster = 2, raster = 8;
  int run = 0;  // steps of 64 along K that the tensor cores add up; 0: all
};

// A map that the kernel takes: of a tensor of `sizes` (innermost first), dense.
struct ProductMap {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<int> box;
};

struct ProductLaunch {
  int threads = 0;
  int64_t shared_bytes = 0;
  int64_t blocks = 0;  // that have a tile; a multiple of `cluster`
  ProductMap a, b, y;
};

// What is wrong with the knobs for the problem, or empty.
std::string Misfit(const ProductProblem& problem, const ProductKnobs& knobs,
                   int64_t shared_per_block);

// Kernel `product`: (Map a, Map b, Map y); with kFp16x3 (Map a, Map b, Map y, const float* back_a,
// const float* back_b), and kernels `split_a` and `split_b`: (const float* x, f16* parts, float*
// back), a block of 256 threads for each row.
std::string ProductSource(const ProductProblem& problem, const ProductKnobs& knobs);
ProductLaunch LaunchOf(const ProductProblem& problem, const ProductKnobs& knobs);

}  // namespace warpsmith::kernels
