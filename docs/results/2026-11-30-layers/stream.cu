// Needs worker/kernels as `warpsmith` in an include folder: nvcc -gencode arch=compute_90a,code=sm_90a -std=c++17 -O2 -I INCLUDE -o stream stream.cu
// Reads 512 planes of 8,192 x 128 bf16 (1.07 GB) by the copy engine, boxes of 64 x 128 as attention brings them, in two orders:
// each block a plane after the other (as decoding does: K and V in turns), or all blocks side by side through memory.
#include <warpsmith/wgmma.cuh>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <algorithm>
#include <vector>
namespace ws {
constexpr int kPlanes = 512, kRows = 8192, kStep = 128, kSteps = kRows / kStep, kStages = 6, kBytes = 2 * kStep * 128;
template <int ORDER>
__global__ void __launch_bounds__(128, 1) stream(const __grid_constant__ hopper::Map m, float* out) {
  extern __shared__ unsigned char raw[];
  unsigned char* all = raw + (1024 - hopper::shared_address(raw) % 1024) % 1024;
  hopper::Barrier* full = reinterpret_cast<hopper::Barrier*>(all + kStages * kBytes);
  if (threadIdx.x == 0) { for (int s = 0; s < kStages; ++s) hopper::init(full[s], 1); hopper::init_done(); }
  hopper::fence_async(); __syncthreads();
  const int total = kPlanes * kSteps;
  auto where = [&](int i, int& plane, int& row) -> bool {
    if (ORDER == 0) {  // pairs of planes, K and V in turns
      const int pair = blockIdx.x + i / (2 * kSteps) * gridDim.x, within = i % (2 * kSteps);
      plane = pair + (within % 2) * (kPlanes / 2); row = (kSteps - 1 - within / 2) * kStep;
      return pair < kPlanes / 2;
    }
    if (ORDER == 1) { const int at = blockIdx.x + i * gridDim.x; plane = at / kSteps; row = at % kSteps * kStep; return at < total; }
    // K and V in turns, blocks side by side
    const int at = blockIdx.x + i / 2 * gridDim.x; plane = at / kSteps + (i % 2) * (kPlanes / 2); row = at % kSteps * kStep; return at < total / 2;
  };
  if (threadIdx.x == 0) {
    int plane, row;
    auto bring = [&](int i) { if (!where(i, plane, row)) return; const int s = i % kStages; hopper::arrive_expecting(full[s], kBytes);
      for (int b = 0; b < 2; ++b) hopper::load_box(all + s * kBytes + b * kStep * 128, m, full[s], b * 64, row, plane); };
    for (int i = 0; i < kStages; ++i) bring(i);
    float sum = 0;
    for (int i = 0; where(i, plane, row); ++i) {
      hopper::wait(full[i % kStages], i / kStages % 2, "full", i % kStages);
      sum += *reinterpret_cast<volatile float*>(all + i % kStages * kBytes);
      bring(i + kStages);
    }
    if (sum == 12345.678f) out[0] = sum;
  }
}
__global__ void plain(const uint4* p, long long n, float* out) {
  unsigned s = 0;
  for (long long i = blockIdx.x * 1024LL + threadIdx.x; i < n; i += gridDim.x * 1024LL * 4) {
    for (int j = 0; j < 4; ++j) { long long k = i + j * 1024LL * gridDim.x; if (k < n) { uint4 v = __ldcs(p + k); s += v.x ^ v.y ^ v.z ^ v.w; } }
  }
  if (s == 123456789u) out[0] = s;
}
}  // namespace ws
using ws::stream; using ws::plain; using ws::kPlanes; using ws::kRows; using ws::kStep; using ws::kStages; using ws::kBytes; namespace hopper = ws::hopper;
typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
int main() {
  void* f; cudaDriverEntryPointQueryResult q; cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, cudaEnableDefault, &q); Encode encode = (Encode)f;
  char *p, *flush; float* out; size_t n = size_t(kPlanes) * kRows * 256;
  cudaMalloc(&p, n); cudaMalloc(&flush, 256 << 20); cudaMalloc(&out, 4); cudaMemset(p, 0, n);
  for (int promote : {0, 1, 2, 3}) {
    hopper::Map m; cuuint64_t sizes[3] = {128, kRows, kPlanes}, strides[2] = {256, 256ull * kRows}; cuuint32_t boxes[3] = {64, kStep, 1}, ones[3] = {1, 1, 1};
    if (encode((CUtensorMap*)&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, p, sizes, strides, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, (CUtensorMapL2promotion)promote, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) printf("encode\n");
    const int shared = kStages * kBytes + 2048;
    auto time = [&](auto run, const char* name) {
      std::vector<float> t; cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
      for (int i = 0; i < 9; ++i) { cudaMemsetAsync(flush, i, 256 << 20); cudaEventRecord(a); run(); cudaEventRecord(b); cudaEventSynchronize(b); float ms; cudaEventElapsedTime(&ms, a, b); t.push_back(ms * 1e3f); }
      std::sort(t.begin(), t.end()); printf("promotion %d %-28s %7.1f us %.3f TB/s  %s\n", promote, name, t[4], n / t[4] / 1e6, cudaGetErrorString(cudaGetLastError()));
    };
    cudaFuncSetAttribute(stream<0>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared); cudaFuncSetAttribute(stream<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared); cudaFuncSetAttribute(stream<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    time([&] { stream<0><<<132, 128, shared>>>(m, out); }, "a block a plane, in turns");
    time([&] { stream<1><<<132, 128, shared>>>(m, out); }, "blocks side by side");
    time([&] { stream<2><<<132, 128, shared>>>(m, out); }, "side by side, in turns");
  }
  for (int blocks : {132, 264, 528, 1056}) {
    std::vector<float> t; cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
    for (int i = 0; i < 9; ++i) { cudaMemsetAsync(flush, i, 256 << 20); cudaEventRecord(a); plain<<<blocks, 1024>>>((const uint4*)p, n / 16, out); cudaEventRecord(b); cudaEventSynchronize(b); float ms; cudaEventElapsedTime(&ms, a, b); t.push_back(ms * 1e3f); }
    std::sort(t.begin(), t.end()); printf("plain loads, %d blocks %7.1f us %.3f TB/s\n", blocks, t[4], n / t[4] / 1e6);
  }
}
