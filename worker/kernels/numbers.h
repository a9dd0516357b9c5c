// What rules count with.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace warpsmith::kernels {

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }
inline int64_t Product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace warpsmith::kernels
