// A product of matrices that a benchmark times.
#pragma once

#include <cstdint>
#include <string>

namespace warpsmith::bench {

// Y[b, m, n] = sum of k: A[b, m, k] B[b, n, k], sums in fp32, Y of the operands' type. All row
// major: A is [batch, m, k] or, along_m, [batch, k, m]; B alike with n; Y is [batch, m, n].
struct ProductProblem {
  std::string type = "bf16";  // "bf16", "f16", "f32"
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool along_m = false, along_n = false;
};

}  // namespace warpsmith::bench
