// Prototype: convolution as products whose columns are places of an image, brought by im2col maps.
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <dlfcn.h>
namespace ws { }
#include <warpsmith/contract.cuh>

#define CHECK(x) do { auto e = (x); if (e != 0) { printf("%s:%d error %d\n", __FILE__, __LINE__, (int)e); exit(1);} } while (0)

template <int N_, int CI, int CO, int H, int W, int KS, int S, int P, int D, int TM, int TN, int ST, int CL, bool TURNS, int RASTER>
struct Shape {
  static constexpr int OH = (H + 2 * P - D * (KS - 1) - 1) / S + 1, OW = (W + 2 * P - D * (KS - 1) - 1) / S + 1;
  static constexpr int kChunks = (CI + 63) / 64, kSteps = kChunks * KS * KS;
  struct Window {
    static constexpr int kRank = 4, kAcross = OW, kDown = OH, kChunks = Shape::kChunks;
    static constexpr int kStrideW = S, kStrideH = S, kFromW = -P, kFromH = -P, kTapsW = KS, kApartW = D, kApartH = D;
  };
  struct Glue {
    using Index = long long; using Sum = float;
    static constexpr int kBatch = 1, kM = CO, kN = N_ * OH * OW, kK = kSteps * 64;
    static constexpr int kWidth = 4, kRawEnd = 0;
    static constexpr bool kPair = false, kTotalDown = false, kTotalAcross = false;
    static constexpr int kBesideA = 0, kBesideB = 0;
    struct RawEnd {};
    float* y; const float* bias;
    static __device__ bool wanted(int, int, int, int) { return true; }
    __device__ void load_end(int, int, int, RawEnd&) const {}
    template <int V> __device__ void finish(int, int m, int n, const RawEnd&, const float (&sums)[V]) const {
      const int image = n / (OH * OW), at = n % (OH * OW);
      float4 v;
      const float b = __ldg(bias + m);
      v.x = fmaxf(sums[0] + b, 0.f); v.y = fmaxf(sums[1] + b, 0.f); v.z = fmaxf(sums[2] + b, 0.f); v.w = fmaxf(sums[3] + b, 0.f);
      if ((OH * OW) % 4 == 0) *reinterpret_cast<float4*>(y + ((long long)(image) * CO + m) * (OH * OW) + at) = v;
      else for (int i = 0; i < 4; ++i) if (n + i < kN) y[((long long)((n + i) / (OH * OW)) * CO + m) * (OH * OW) + (n + i) % (OH * OW)] = (&v.x)[i];
    }
  };
  struct C {
    using Glue = Shape::Glue; using Type = ws::hopper::Fp16; using Window = Shape::Window;
    static constexpr int kM = CO, kN = Glue::kN, kK = Glue::kK, kBatch = 1, kTileM = TM, kTileN = TN, kStages = ST, kCluster = CL,
                         kRaster = RASTER, kSplit = 1, kParts = 1, kRun = 0, kRunsOfStep = 1, kTail = 1, kWhole = 1 << 30, kBlocksOfSm = 1;
    static constexpr bool kAlongM = false, kAlongN = false, kMeet = false, kInline = false, kLast = false, kTurned = false, kOneA = false,
                          kOneB = false, kOnceA = false, kOnceB = false, kTurns = TURNS, kScaled = false;
    static constexpr int kJoined = 0, kCut = 0;
  };
};

template <class S>
__global__ void __launch_bounds__(ws::Contract<typename S::C, ws::WholeSums<typename S::Glue>>::kThreads, 1)
conv(typename S::Glue g, const __grid_constant__ ws::hopper::Map a, const __grid_constant__ ws::hopper::Map b) {
  ws::contract<typename S::C>(g, a, b, a, nullptr);
}

// fp32 NCHW to fp16 NHWC: 64 places of 64 channels a block.
template <int CI, int CP, int HW>
__global__ void pack(const float* __restrict__ x, __half* __restrict__ y, int* wide) {
  __shared__ float tile[64][65];
  const int image = blockIdx.y, p0 = blockIdx.x * 64, t = threadIdx.x;
  for (int c0 = 0; c0 < CP; c0 += 64) {
    bool bad = false;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int c = i * 4 + t / 64, p = p0 + t % 64;
      float v = (c0 + c < CI && p < HW) ? __ldcs(x + ((long long)image * CI + c0 + c) * HW + p) : 0.f;
      bad |= !(fabsf(v) < 60000.f);
      tile[c][t % 64] = v;
    }
    if (__syncthreads_or(bad) && t == 0) *wide = 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int p = i * 32 + t / 8, c = t % 8 * 8;
      if (p0 + p < HW && c0 + c < CP) {
        __half2 h[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) h[j] = __floats2half2_rn(tile[c + 2 * j][p], tile[c + 2 * j + 1][p]);
        *reinterpret_cast<uint4*>(y + ((long long)image * HW + p0 + p) * CP + c0 + c) = *reinterpret_cast<uint4*>(h);
      }
    }
    __syncthreads();
  }
}
__global__ void fill(float* x, long long n, unsigned seed, float scale) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)(i * 2654435761u) ^ seed; h ^= h >> 15; h *= 2246822519u; h ^= h >> 13; h *= 3266489917u; h ^= h >> 16;
    x[i] = ((h & 0xffffff) / 8388608.f - 1.f) * scale;
  }
}
__global__ void pack_weights(const float* w, __half* o, int CO, int CI, int taps, int chunks) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x, co = blockIdx.y, K = taps * chunks * 64;
  if (k >= K) return;
  const int tap = k / (chunks * 64), c = k % (chunks * 64);
  o[(long long)co * K + k] = __float2half(c < CI ? w[((long long)co * CI + c) * taps + tap] : 0.f);
}
static void* driver(const char* name) { void* f = nullptr; cudaDriverEntryPointQueryResult q; cudaGetDriverEntryPoint(name, &f, cudaEnableDefault, &q); return f; }

template <class S, int N_, int CI, int CO, int H, int W, int KS, int ST, int P, int D>
void run_shape(const char* name) {
  constexpr int CP = (CI + 7) / 8 * 8;
  using C = typename S::C;
  const long long nx = (long long)N_ * CI * H * W, ny = (long long)N_ * CO * S::OH * S::OW, nw = (long long)CO * CI * KS * KS;
  float *x, *w, *y, *bias; __half *xp, *wp; int* wide; char* flush;
  CHECK(cudaMalloc(&x, nx * 4)); CHECK(cudaMalloc(&w, nw * 4)); CHECK(cudaMalloc(&y, ny * 4)); CHECK(cudaMalloc(&bias, CO * 4));
  CHECK(cudaMalloc(&xp, (long long)N_ * H * W * CP * 2)); CHECK(cudaMalloc(&wp, (long long)CO * C::kK * 2)); CHECK(cudaMalloc(&wide, 4));
  CHECK(cudaMalloc(&flush, 256 << 20)); cudaMemset(y, 0xff, ny * 4);
  fill<<<1024, 256>>>(x, nx, 1, 1.f); fill<<<256, 256>>>(w, nw, 2, 0.1f); fill<<<1, 256>>>(bias, CO, 3, 1.f);
  auto tiled = (CUresult(*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))driver("cuTensorMapEncodeTiled");
  auto im2col = (CUresult(*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))driver("cuTensorMapEncodeIm2col");
  CUtensorMap ma, mb;
  { cuuint64_t size[3] = {(cuuint64_t)C::kK, CO, 1}, stride[2] = {(cuuint64_t)C::kK * 2, (cuuint64_t)C::kK * 2 * CO};
    cuuint32_t box[3] = {64, (cuuint32_t)(CO < C::kTileM ? (CO + 7) / 8 * 8 : C::kTileM), 1}, one[3] = {1, 1, 1};
    CHECK(tiled(&ma, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, wp, size, stride, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)); }
  { cuuint64_t size[4] = {CP, W, H, N_}, stride[3] = {CP * 2, (cuuint64_t)CP * 2 * W, (cuuint64_t)CP * 2 * W * H};
    cuuint32_t step[4] = {1, ST, ST, 1}; int lower[2] = {-P, -P}, upper[2] = {P - (KS - 1) * D, P - (KS - 1) * D};
    CHECK(im2col(&mb, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, xp, size, stride, lower, upper, 64, C::kTileN / C::kCluster, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)); }
  using K = ws::Contract<C, ws::WholeSums<typename S::Glue>>;
  auto kernel = conv<S>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, K::kSharedBytes));
  typename S::Glue g{y, bias};
  ws::hopper::Map ka, kb; memcpy(&ka, &ma, 128); memcpy(&kb, &mb, 128);
  cudaEvent_t e[4]; for (auto& ev : e) cudaEventCreate(&ev);
  float best_pack = 1e9, best_conv = 1e9, best_all = 1e9;
  for (int i = 0; i < 12; ++i) {
    cudaMemset(flush, i, 256 << 20);
    cudaEventRecord(e[0]);
    pack_weights<<<dim3((C::kK + 255) / 256, CO), 256>>>(w, wp, CO, CI, KS * KS, S::kChunks);
    pack<CI, CP, H * W><<<dim3((H * W + 63) / 64, N_), 256>>>(x, xp, wide);
    cudaEventRecord(e[1]);
    const int tiles = K::kTiles * C::kCluster;
    cudaLaunchConfig_t cfg = {}; cfg.gridDim = tiles < 132 ? tiles : 132 / C::kCluster * C::kCluster; cfg.blockDim = K::kThreads; cfg.dynamicSmemBytes = K::kSharedBytes;
    cudaLaunchAttribute at; at.id = cudaLaunchAttributeClusterDimension; at.val.clusterDim.x = C::kCluster; at.val.clusterDim.y = at.val.clusterDim.z = 1; cfg.attrs = &at; cfg.numAttrs = C::kCluster > 1;
    CHECK(cudaLaunchKernelEx(&cfg, kernel, g, ka, kb));
    cudaEventRecord(e[2]);
    CHECK(cudaDeviceSynchronize());
    float p, c, all; cudaEventElapsedTime(&p, e[0], e[1]); cudaEventElapsedTime(&c, e[1], e[2]); cudaEventElapsedTime(&all, e[0], e[2]);
    if (p < best_pack) best_pack = p; if (c < best_conv) best_conv = c; if (all < best_all) best_all = all;
  }
  // check a sample
  std::vector<float> hx(nx), hw(nw), hb(CO); std::vector<float> hy(ny);
  cudaMemcpy(hx.data(), x, nx * 4, cudaMemcpyDeviceToHost); cudaMemcpy(hw.data(), w, nw * 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(hb.data(), bias, CO * 4, cudaMemcpyDeviceToHost); cudaMemcpy(hy.data(), y, ny * 4, cudaMemcpyDeviceToHost);
  double worst = 0, square = 0; long long bad = -1; const int samples = 20000;
  for (int t = 0; t < samples; ++t) {
    long long i = t < 2000 ? t : t < 4000 ? ny - 1 - (t - 2000) : ((long long)rand() * RAND_MAX + rand()) % ny; if (i < 0) i += ny;
    long long r = i; const int ow = r % S::OW; r /= S::OW; const int oh = r % S::OH; r /= S::OH; const int co = r % CO; const int n = r / CO;
    double sum = hb[co];
    for (int ci = 0; ci < CI; ++ci) for (int a = 0; a < KS; ++a) for (int b = 0; b < KS; ++b) {
      const int h = oh * ST + a * D - P, v = ow * ST + b * D - P;
      if (h < 0 || h >= H || v < 0 || v >= W) continue;
      sum += (double)hx[(((long long)n * CI + ci) * H + h) * W + v] * hw[(((long long)co * CI + ci) * KS + a) * KS + b];
    }
    sum = sum > 0 ? sum : 0; square += sum * sum;
    const double err = std::fabs(sum - hy[i]); if (!(err <= worst)) { worst = err; bad = i; }
  }
  const double flops = 2.0 * ny * CI * KS * KS;
  printf("%-34s tile %dx%d st %d cl %d turns %d: pack %.1f us conv %.1f us all %.1f us | %.0f TFLOP/s | error/rms %.2e at %lld\n", name, C::kTileM, C::kTileN, C::kStages, C::kCluster, (int)C::kTurns,
         best_pack * 1e3, best_conv * 1e3, best_all * 1e3, flops / best_conv / 1e9, worst / std::sqrt(square / samples), bad);
  cudaFree(x); cudaFree(w); cudaFree(y); cudaFree(bias); cudaFree(xp); cudaFree(wp); cudaFree(wide); cudaFree(flush);
}
#define RUN(name, N_, CI, CO, H, W, KS, S_, P, D, TM, TN, ST, CL, TURNS, R) \
  run_shape<Shape<N_, CI, CO, H, W, KS, S_, P, D, TM, TN, ST, CL, TURNS, R>, N_, CI, CO, H, W, KS, S_, P, D>(name)
int main() {
  RUN("16x64x256^2 128 3x3", 16, 64, 128, 256, 256, 3, 1, 1, 1, 128, 256, 3, 1, false, 1);
  RUN("16x64x256^2 128 3x3", 16, 64, 128, 256, 256, 3, 1, 1, 1, 128, 192, 4, 1, false, 1);
  RUN("16x64x256^2 128 3x3", 16, 64, 128, 256, 256, 3, 1, 1, 1, 128, 128, 5, 1, true, 1);
  RUN("16x64x256^2 128 3x3 nopad", 16, 64, 128, 256, 256, 3, 1, 0, 1, 128, 256, 3, 1, false, 1);
  RUN("16x128x64^2 256 3x3 s2", 16, 128, 256, 64, 64, 3, 2, 1, 1, 128, 256, 3, 1, false, 2);
  RUN("8x96x57^2 100 3x3 d2", 8, 96, 100, 57, 57, 3, 1, 2, 2, 128, 256, 3, 1, false, 1);
  RUN("16x32x128^2 64 5x5", 16, 32, 64, 128, 128, 5, 1, 2, 1, 64, 256, 4, 1, false, 1);
  RUN("16x256x32^2 512 3x3", 16, 256, 512, 32, 32, 3, 1, 1, 1, 128, 256, 3, 2, false, 2);
  return 0;
}
