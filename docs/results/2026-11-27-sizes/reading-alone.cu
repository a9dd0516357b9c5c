// What reading alone takes, beside products of few rows by another main loop: `readk` by loads of
// 16 bytes, `readb` by the copy engine, `few` a product of M rows whose weights the copy engine
// brings into shared memory, a ring for each warp. Medians of 25 by events, the cache flushed by
// reading before each; reading-alone.txt is what it printed.
//
//   nvcc -O3 -std=c++17 -arch=sm_90a -o reading-alone reading-alone.cu && ./reading-alone
//   FEW=1 ncu --cache-control all --clock-control none -k regex:read[kb] --metrics
//   gpu__time_duration.sum ./reading-alone
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
typedef unsigned u32;
typedef unsigned long long u64;
__device__ __forceinline__ u32 sa(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void bar_init(u32 b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n));
}
__device__ __forceinline__ void bar_expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n)
               : "memory");
}
__device__ __forceinline__ void bar_wait(u32 b, u32 ph) {
  asm volatile(
      "{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra L;\n}" ::
          "r"(b),
      "r"(ph)
      : "memory");
}
__device__ __forceinline__ void bulk(u32 d, const void* s, u32 n, u32 b) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(d),
      "l"(s), "r"(n), "r"(b)
      : "memory");
}
__device__ __forceinline__ uint4 ld(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__global__ void empty() {}
__global__ void read_all(const uint4* p, long long n, u32* o) {
  u32 x = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += 256ll * gridDim.x) {
    uint4 v = p[i];
    x ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (x == 0x12345) *o = x;
}
// contiguous reads: each block has `per` vectors
template <int U>
__global__ void readk(const uint4* p, int per, u32* o) {
  const uint4* q = p + (long long)blockIdx.x * per;
  u32 x = 0;
  for (int i = threadIdx.x; i < per; i += blockDim.x * U) {
    uint4 v[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (i + u * (int)blockDim.x < per)
        v[u] = ld(q + i + u * blockDim.x);
      else
        v[u] = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int u = 0; u < U; ++u) x ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (x == 0x12345) *o = x;
}
// bulk: each block `bytes`, stages of S bytes copied in pieces of C
template <int S, int N, int C>
__global__ void readb(const char* p, int bytes, u32* o) {
  extern __shared__ __align__(128) char sm[];
  u64* bars = (u64*)sm;
  char* ring = sm + 1024;
  const char* q = p + (long long)blockIdx.x * bytes;
  int n = bytes / S;
  if (threadIdx.x == 0) {
    for (int i = 0; i < N; ++i) bar_init(sa(bars + i), 1);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    int lane = threadIdx.x;
    for (int i = 0; i < n + N; ++i) {
      if (i >= N && i - N < n) bar_wait(sa(bars + (i - N) % N), ((i - N) / N) & 1);
      if (i < n) {
        if (lane == 0) bar_expect(sa(bars + i % N), S);
        __syncwarp();
        for (int c = lane; c < S / C; c += 32)
          bulk(sa(ring + (i % N) * S + c * C), q + (long long)i * S + c * C, C, sa(bars + i % N));
      }
    }
  }
  if (bytes < 0) *o = 1;
}
// the product: rows of W (16 a tile), few X rows NF<=8*J; warp w has K/8
template <int J, int KS, int NS>
__global__ void __launch_bounds__(256, 1) few(const __nv_bfloat16* W, const __nv_bfloat16* X,
                                              __nv_bfloat16* Y, int M, int N, int K, int tiles) {
  // X: M x K, W: N x K, Y: M x N. KS: k of a stage (of a warp), NS stages of a warp
  extern __shared__ __align__(128) char sm[];
  constexpr int PITCH = KS * 2 + 64;
  constexpr int STAGE = 16 * PITCH;
  u64* bars = (u64*)sm;
  float* sums = (float*)(sm + 1024);
  char* ring = sm + 1024 + 8 * 16 * 8 * J * 4;
  int w = threadIdx.x / 32, lane = threadIdx.x % 32;
  u64* bar = bars + w * NS;
  char* mine = ring + w * NS * STAGE;
  if (lane == 0) {
    for (int i = 0; i < NS; ++i) bar_init(sa(bar + i), 1);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncwarp();
  int kw = K / 8, per = kw / KS;
  int mytiles = (tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
  int total = mytiles * per;
  auto issue = [&](int i) {
    if (i >= total) return;
    int t = blockIdx.x + (i / per) * gridDim.x;
    int k = w * kw + (i % per) * KS;
    int s = i % NS;
    if (lane == 0) bar_expect(sa(bar + s), 16 * KS * 2);
    __syncwarp();
    if (lane < 16)
      bulk(sa(mine + s * STAGE + lane * PITCH), W + (long long)(t * 16 + lane) * K + k, KS * 2,
           sa(bar + s));
  };
  for (int i = 0; i < NS; ++i) issue(i);
  float acc[J][4];
  int i = 0;
  for (int t = 0; t < mytiles; ++t) {
    for (int j = 0; j < J; ++j)
      for (int c = 0; c < 4; ++c) acc[j][c] = 0;
    for (int p = 0; p < per; ++p, ++i) {
      int s = i % NS;
      const char* st = mine + s * STAGE;
      int k = w * kw + p * KS;
      uint4 b[J][KS / 32];
#pragma unroll
      for (int j = 0; j < J; ++j)
#pragma unroll
        for (int v = 0; v < KS / 32; ++v) {
          int m = j * 8 + lane / 4;
          b[j][v] = m < M ? *(const uint4*)(X + (long long)m * K + k + v * 32 + lane % 4 * 8)
                          : make_uint4(0, 0, 0, 0);
        }
      bar_wait(sa(bar + s), (i / NS) & 1);
#pragma unroll
      for (int v = 0; v < KS / 32; ++v) {
        uint4 a0 = *(const uint4*)(st + (lane / 4) * PITCH + v * 64 + lane % 4 * 16),
              a1 = *(const uint4*)(st + (lane / 4 + 8) * PITCH + v * 64 + lane % 4 * 16);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
              "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
              : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
              : "r"(a0.x), "r"(a1.x), "r"(a0.y), "r"(a1.y), "r"(b[j][v].x), "r"(b[j][v].y));
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
              "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
              : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
              : "r"(a0.z), "r"(a1.z), "r"(a0.w), "r"(a1.w), "r"(b[j][v].z), "r"(b[j][v].w));
        }
      }
      __syncwarp();
      issue(i + NS);
    }
    float* mysum = sums + w * 16 * 8 * J;
#pragma unroll
    for (int j = 0; j < J; ++j)
      for (int c = 0; c < 4; ++c)
        mysum[(j * 8 + lane % 4 * 2 + c % 2) * 16 + lane / 4 + 8 * (c / 2)] = acc[j][c];
    __syncthreads();
    int tile = blockIdx.x + t * gridDim.x;
    for (int e = threadIdx.x; e < 16 * 8 * J; e += 256) {
      float x = 0;
#pragma unroll
      for (int q = 0; q < 8; ++q) x += sums[q * 16 * 8 * J + e];
      int m = e / 16, n = tile * 16 + e % 16;
      if (m < M) Y[(long long)m * N + n] = __float2bfloat16(x);
    }
    if (t + 1 < mytiles) __syncthreads();
  }
}
__global__ void naive(const __nv_bfloat16* W, const __nv_bfloat16* X, float* Y, int M, int N,
                      int K) {
  int n = blockIdx.x, m = blockIdx.y;
  float s = 0;
  for (int k = threadIdx.x; k < K; k += 32)
    s += __bfloat162float(W[(long long)n * K + k]) * __bfloat162float(X[(long long)m * K + k]);
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  if (!threadIdx.x) Y[m * N + n] = s;
}
__global__ void init(__nv_bfloat16* p, long long n, u32 seed) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += 256ll * gridDim.x) {
    u32 h = (u32)i * 2654435761u + seed;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    p[i] = __float2bfloat16((h & 0xffff) / 32768.f - 1.f);
  }
}
char* flush;
u32* o;
template <class F>
double time_us(F f) {
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  std::vector<float> t;
  for (int i = 0; i < (getenv("FEW") ? 3 : 25); ++i) {
    read_all<<<1024, 256>>>((uint4*)flush, (256ll << 20) / 16, o);
    cudaEventRecord(a);
    f();
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float ms;
    cudaEventElapsedTime(&ms, a, b);
    t.push_back(ms * 1e3);
  }
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}
int main() {
  cudaMalloc(&flush, 256 << 20);
  cudaMemset(flush, 0, 256 << 20);
  cudaMalloc(&o, 4);
  printf("empty %.2f\n", time_us([&] { empty<<<1, 32>>>(); }));
  printf("empty132x1024 %.2f\n", time_us([&] { empty<<<132, 1024>>>(); }));
  for (int wh = 0; wh < 3; ++wh) {
    int N = wh == 2 ? 14336 : 4096, K = wh == 1 ? 14336 : 4096;
    long long bytes = 2ll * N * K;
    char* W;
    cudaMalloc(&W, bytes);
    init<<<1024, 256>>>((__nv_bfloat16*)W, bytes / 2, 1);
    __nv_bfloat16 *X, *Y;
    float* R;
    cudaMalloc(&X, 16 * K * 2);
    init<<<64, 256>>>(X, 16ll * K, 7);
    cudaMalloc(&Y, 16 * N * 2);
    cudaMalloc(&R, 16 * N * 4);
    naive<<<dim3(N, 16), 32>>>((__nv_bfloat16*)W, X, R, 16, N, K);
    printf("N %d K %d roof %.2f us\n", N, K, bytes / 4.3e6);
#define RK(U, T, B)                         \
  printf(" ldg U%d T%d B%d: %.2f", U, T, B, \
         time_us([&] { readk<U><<<B, T>>>((uint4*)W, (int)(bytes / 16 / (B)), o); }));
    RK(4, 256, 1024)
    RK(8, 256, 512) RK(8, 256, 1024) RK(8, 512, 256) RK(16, 256, 256) RK(16, 512, 128)
        RK(8, 256, 264 * 2) printf("\n");
#define RB(S, NN, C, B)                                                                  \
  {                                                                                      \
    auto k = readb<S, NN, C>;                                                            \
    cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024 + S * NN); \
    printf(" bulk S%d N%d C%d B%d: %.2f", S, NN, C, B,                                   \
           time_us([&] { k<<<B, 128, 1024 + S * NN>>>(W, (int)(bytes / (B)), o); }));    \
  }
    RB(16384, 13, 16384, 128)
    RB(16384, 13, 1024, 128) RB(16384, 13, 512, 128) RB(8192, 12, 8192, 256) RB(8192, 12, 1024, 256)
        RB(8192, 12, 512, 256) RB(32768, 6, 4096, 128) printf("\n");
    for (int M : {1, 4, 8, 16}) {
#define FW(J, KS, NS, G)                                                                    \
  if (M <= 8 * J) {                                                                         \
    auto k = few<J, KS, NS>;                                                                \
    int sm = 1024 + 8 * 16 * 8 * J * 4 + 8 * NS * 16 * (KS * 2 + 64);                       \
    cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, sm);               \
    auto run = [&] { k<<<G, 256, sm>>>((__nv_bfloat16*)W, X, Y, M, N, K, N / 16); };        \
    cudaMemset(Y, 0, 16 * N * 2);                                                           \
    double us = time_us(run);                                                               \
    std::vector<__nv_bfloat16> y(M* N);                                                     \
    std::vector<float> r(M* N);                                                             \
    cudaMemcpy(y.data(), Y, M* N * 2, cudaMemcpyDeviceToHost);                              \
    cudaMemcpy(r.data(), R, M* N * 4, cudaMemcpyDeviceToHost);                              \
    double e = 0, q = 0;                                                                    \
    for (int i = 0; i < M * N; ++i) {                                                       \
      e += pow(__bfloat162float(y[i]) - r[i], 2);                                           \
      q += r[i] * r[i];                                                                     \
    }                                                                                       \
    printf(" few M%d J%d KS%d NS%d G%d: %.2f (%.0e, %s)", M, J, KS, NS, G, us, sqrt(e / q), \
           cudaGetErrorString(cudaGetLastError()));                                         \
  }
      FW(1, 256, 3, 132)
      FW(1, 128, 5, 132) FW(1, 256, 2, 132) FW(1, 256, 1, 264) FW(1, 128, 2, 264) FW(1, 128, 3, 264)
          FW(2, 256, 3, 132) FW(2, 128, 5, 132) FW(2, 128, 2, 264) FW(1, 64, 5, 264)
              FW(2, 64, 5, 264) printf("\n");
    }
    cudaFree(W);
    cudaFree(X);
    cudaFree(Y);
    cudaFree(R);
  }
}
