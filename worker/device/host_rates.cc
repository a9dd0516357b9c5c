#include "worker/device/host_rates.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "worker/device/host_clock.h"

namespace warpsmith::device {
namespace {

constexpr int kRounds = 5;

// Independent accumulators, enough to fill two FMA pipes over a latency of five cycles.
constexpr int kAccumulators = 12;
constexpr int kFmaSteps = 1 << 18;

// One function for each width: `Vector` is lowered to the instructions that `target` allows.
template <class Vector>
[[gnu::always_inline]] inline void FmaChain(float seed, float* out) {
  Vector sums[kAccumulators];
  for (int i = 0; i < kAccumulators; ++i) sums[i] = Vector{} + seed * static_cast<float>(i);
  const Vector scale = Vector{} + 0.999f, offset = Vector{} + seed;
  for (int step = 0; step < kFmaSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sums[i] = sums[i] * scale + offset;
  }
  for (int i = 1; i < kAccumulators; ++i) sums[0] += sums[i];
  std::memcpy(out, &sums[0], sizeof(float));
}

#if defined(__x86_64__)
using Floats8 [[gnu::vector_size(32)]] = float;
using Floats16 [[gnu::vector_size(64)]] = float;
__attribute__((target("avx512f,fma"), optimize("fp-contract=fast"))) void Fma512(float seed,
                                                                                 float* out) {
  FmaChain<Floats16>(seed, out);
}
__attribute__((target("avx2,fma"), optimize("fp-contract=fast"))) void Fma256(float seed,
                                                                              float* out) {
  FmaChain<Floats8>(seed, out);
}
#endif
using Floats4 [[gnu::vector_size(16)]] = float;
void Fma128(float seed, float* out) { FmaChain<Floats4>(seed, out); }

}  // namespace

double HostCopyRate() {
  double best = 0;
  for (int64_t bytes :
       {int64_t{16} << 10, int64_t{256} << 10, int64_t{4} << 20, int64_t{32} << 20}) {
    std::vector<char> from(bytes, 1), to(bytes);
    const int copies = static_cast<int>((int64_t{32} << 20) / bytes);
    for (int round = 0; round < kRounds; ++round) {
      const int64_t start = HostNanoseconds();
      for (int i = 0; i < copies; ++i) {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" : : "r"(to.data()) : "memory");
      }
      best = std::max(best, 2.0 * static_cast<double>(bytes) * copies / HostSecondsSince(start));
    }
  }
  return best;
}

double HostFmaRate() {
  void (*chain)(float, float*) = &Fma128;
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    chain = &Fma512;
    lanes = 16;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    chain = &Fma256;
    lanes = 8;
  }
#endif
  double best = 0;
  float result = 0.5f;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start = HostNanoseconds();
    chain(result, &result);
    asm volatile("" : "+m"(result));
    best = std::max(best, 2.0 * lanes * kAccumulators * kFmaSteps / HostSecondsSince(start));
  }
  return best;
}

}  // namespace warpsmith::device
