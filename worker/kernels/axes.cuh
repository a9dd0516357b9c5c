// Small constant lists of axes, and loops over them that leave nothing at run time.
#pragma once
#include <warpsmith/base.cuh>

namespace ws {

template <int I> struct Int { static constexpr int value = I; };

// f(Int<0>{}), ..., f(Int<N - 1>{})
template <int N, int I = 0, class F>
WS_DEVICE void each(F&& f) {
  if constexpr (I < N) {
    f(Int<I>{});
    each<N, I + 1>(f);
  }
}

// Numbers known at compile time: extents, strides, an order of axes.
template <long long... N>
struct Axes {
  static constexpr int kRank = sizeof...(N);
  template <int I>
  static WS_DEVICE constexpr long long at() {
    constexpr long long numbers[] = {N...};
    return numbers[I];
  }
  template <int I = 0>
  static WS_DEVICE constexpr long long product() {
    if constexpr (I >= kRank) return 1;
    else return at<I>() * product<I + 1>();
  }
  template <int I = 0>
  static WS_DEVICE constexpr bool has(long long number) {
    if constexpr (I >= kRank) return false;
    else return at<I>() == number || has<I + 1>(number);
  }
};

}  // namespace ws
