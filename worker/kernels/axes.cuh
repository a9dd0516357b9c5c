// Small constant lists of axes. Loops over them are unrolled, so that nothing is left at run time.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

// Numbers known at compile time: extents, strides, an order of axes.
template <long long... N>
struct Axes {
  static constexpr int kRank = sizeof...(N);
  static WS_DEVICE constexpr long long at(int i) {
    constexpr long long numbers[] = {N...};
    return numbers[i];
  }
  // Of those from `first` on.
  static WS_DEVICE constexpr long long product(int first = 0) {
    long long product = 1;
    for (int i = first; i < kRank; ++i) product *= at(i);
    return product;
  }
};

}  // namespace ws
