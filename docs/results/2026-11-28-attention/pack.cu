// Times the packing of one fp32 operand in two fp16 parts (worker/kernels/contract_pack.cuh) alone, for threads of a row
// (LANES), blocks that share K (SHARE) and blocks a multiprocessor that the compiler has registers for. The L2 is
// flushed before each launch; medians of seven.
//
//   ln -s $PWD/worker/kernels /tmp/include/warpsmith
//   nvcc -std=c++17 -O3 -arch=sm_90a --expt-relaxed-constexpr -I /tmp/include -o pack docs/results/2026-11-28-attention/pack.cu
#include <cuda_runtime.h>
#include <warpsmith/contract_pack.cuh>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

enum Kind { kPlain, kExp, kTwo };  // as it is; a softmax's result; a product of two tensors

template <int BATCH, int M, int K, int W, Kind KIND, bool ALONG_ROWS>
struct Glue {
  using Index = int;
  using Sum = float;
  static constexpr long long kBatch = BATCH, kM = M, kN = 64, kK = K;
  static constexpr int kWidthA = W, kWidthB = 1, kWidth = 1;
  static constexpr bool kAlongM = ALONG_ROWS, kAlongN = true, kPair = false;
  const float *x, *most, *sum, *y;
  template <int V>
  WS_DEVICE void a(Index batch, Index m, Index k, Sum (&to)[V]) const {
    const long long at = static_cast<long long>(batch) * M * K + (ALONG_ROWS ? static_cast<long long>(k) * M + m : static_cast<long long>(m) * K + k);
    float first[V], second[V];
    ws::load<V, float, 0>(x + at, first);
    if constexpr (KIND == kTwo) ws::load<V, float, 0>(y + at, second);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if constexpr (KIND == kPlain) to[i] = first[i];
      if constexpr (KIND == kExp) to[i] = ws::exp(first[i] - most[batch * M + m]) / sum[batch * M + m];
      if constexpr (KIND == kTwo) to[i] = second[i] * (first[i] - most[batch * M + m]);
    }
  }
  template <int V> WS_DEVICE void b(Index, Index, Index, Sum (&)[V]) const {}
};

template <class G, int LANES, int SHARE, int AT_ONCE>
__global__ void __launch_bounds__(256, AT_ONCE) pack(G g, ws::f16* parts, float* back, int* wide) {
  ws::contract_pack<G, ws::f16, 2, true, false, LANES, 1, SHARE, ws::NoLines, ws::NoLines>(g, parts, back, nullptr, nullptr, wide, nullptr, nullptr);
}

float *x, *y, *rows, *back;
ws::f16* parts;
int* wide;
char* flush;
std::vector<std::pair<float, std::string>> found;

template <class G, int LANES, int SHARE, int AT_ONCE>
void time() {
  const int beside = G::kAlongM ? ws::pack_across(G::kWidthA) * G::kWidthA : 1;
  const long long rows_in_all = G::kBatch * G::kM;
  long long blocks = G::kAlongM ? G::kBatch * ((G::kM + beside - 1) / beside) * SHARE : (rows_in_all + 256 / LANES - 1) / (256 / LANES);
  blocks = (std::min(blocks, 132ll * 8) + SHARE - 1) / SHARE * SHARE;
  const auto kernel = pack<G, LANES, SHARE, AT_ONCE>;
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, kernel);
  cudaLaunchAttribute cluster{cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim = {SHARE, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = 256;
  config.dynamicSmemBytes = sizeof(ws::Spread) * std::max(11 * beside, 8);
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<float> us;
  for (int i = 0; i < 7; ++i) {
    cudaMemsetAsync(flush, i, 128 << 20);
    cudaEventRecord(begin);
    cudaLaunchKernelEx(&config, kernel, G{x, rows, rows, y}, parts, back, wide);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float ms;
    cudaEventElapsedTime(&ms, begin, end);
    us.push_back(ms * 1e3f);
  }
  std::sort(us.begin(), us.end());
  if (cudaGetLastError() != cudaSuccess) return;
  char text[64];
  std::snprintf(text, sizeof text, "%d/%d/%d r%d", LANES, SHARE, AT_ONCE, attributes.numRegs);
  found.push_back({us[3], text});
}

template <class G>
void show(const char* name) {
  std::sort(found.begin(), found.end());
  std::printf("%-26s ideal %7.1f :", name, G::kBatch * G::kM * G::kK * 8 / 4.3e6);
  for (size_t i = 0; i < std::min<size_t>(5, found.size()); ++i) std::printf(" %.1f (%s)", found[i].first, found[i].second.c_str());
  std::printf("\n");
  found.clear();
}
template <class G, int LANES, int SHARE> void each() { time<G, LANES, SHARE, 1>(), time<G, LANES, SHARE, 2>(), time<G, LANES, SHARE, 3>(), time<G, LANES, SHARE, 4>(); }
template <int BATCH, int M, int K, int W, Kind KIND>
void along_k(const char* name) {
  using G = Glue<BATCH, M, K, W, KIND, false>;
  if constexpr (K <= 1024 * W) each<G, 8, 1>(), each<G, 16, 1>();
  each<G, 32, 1>(), each<G, 64, 1>(), each<G, 128, 1>(), each<G, 256, 1>();
  show<G>(name);
}
template <int BATCH, int M, int K, int W, Kind KIND>
void along_rows(const char* name) {
  using G = Glue<BATCH, M, K, W, KIND, true>;
  each<G, 1, 1>(), each<G, 1, 2>(), each<G, 1, 4>(), each<G, 1, 8>();
  show<G>(name);
}

int main() {
  const size_t most = size_t{400} << 20;  // elements
  cudaMalloc(&x, most * 4), cudaMalloc(&y, most * 4), cudaMalloc(&parts, most * 6), cudaMalloc(&rows, 64 << 20);
  cudaMalloc(&back, 64 << 20), cudaMalloc(&wide, 1 << 20), cudaMalloc(&flush, 128 << 20);
  for (float* memory : {x, y}) cudaMemset(memory, 0x3f, most * 4);
  cudaMemset(rows, 0x3f, 64 << 20);
  along_k<96, 1249, 1249, 1, kExp>("96x1249x1249 w1 exp");
  along_k<368, 577, 577, 1, kTwo>("368x577x577 w1 two");
  along_k<1, 9992, 768, 4, kPlain>("9992x768 w4");
  along_k<1, 4096, 4096, 4, kPlain>("4096x4096 w4");
  along_k<1, 8192, 8192, 4, kPlain>("8192x8192 w4");
  along_k<1, 20000, 1249, 1, kPlain>("20000x1249 w1");
  along_k<1, 16384, 128, 4, kPlain>("16384x128 w4");
  along_rows<1, 5921, 2949, 1, kPlain>("5921x2949 w1 beside");
  along_rows<1, 4096, 4096, 4, kPlain>("4096x4096 w4 beside");
  along_rows<1, 1024, 13271, 4, kPlain>("1024x13271 w4 beside");
}
