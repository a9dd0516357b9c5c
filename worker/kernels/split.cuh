// An fp32 tensor as the sum of two of fp16, for products whose sums are as exact as fp32's (contract.cuh,
// kParts 2): each row times a power of two that brings its largest element near fp16's, so that what the
// second part leaves is 2^-22 of it.
#pragma once

#include <warpsmith/base.cuh>

namespace ws {

// A block: one row of K elements, a multiple of 4, 16-byte aligned; K of greater and of lesser; what the
// product has to be multiplied by again. A row with infinities or NaN has NaN where they are, and a row of
// zeros stays so.
template <int K>
WS_DEVICE void split_row(const float* row, f16* greater, f16* lesser, float* back) {
  static_assert(K % 4 == 0, "whole vectors");
  float most = 0;
  for (int k = 4 * threadIdx.x; k < K; k += 4 * blockDim.x) {
    float x[4];
    load<4, float, 0>(row + k, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) most = fmaxf(most, fabsf(x[i]));
  }
  __shared__ float of_warp[32];
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / 32; ++i) most = fmaxf(most, of_warp[i]);
  // The largest comes to 2^14 up to 2^15. Exponents stay those of normal numbers.
  const int exponent = static_cast<int>(float_bits(most) >> 23);
  int up = most > 0 ? 127 + 14 - exponent : 0;
  up = up > 126 ? 126 : up < -126 ? -126 : up;
  const float scale = bits_float(static_cast<unsigned>(127 + up) << 23);
  if (threadIdx.x == 0) *back = bits_float(static_cast<unsigned>(127 - up) << 23);
  for (int k = 4 * threadIdx.x; k < K; k += 4 * blockDim.x) {
    float x[4];
    f16 high[4], low[4];
    load<4, float, 0>(row + k, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      high[i] = from_float<f16>(x[i] * scale);
      low[i] = from_float<f16>(x[i] * scale - to_float(high[i]));
    }
    store<4, f16, 0>(greater + k, high);
    store<4, f16, 0>(lesser + k, low);
  }
}

}  // namespace ws
