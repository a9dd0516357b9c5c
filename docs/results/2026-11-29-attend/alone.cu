// Times configurations of worker/kernels/attend.cuh, one a line of LIST (T(...), as below), and checks some of their queries
// against a plain kernel. In us: `cold`, second-level cache flushed by writes, CUDA events round it (4.4 of nothing), median of
// 9; `chain`, launches one after the other in a graph, on data that is not in the cache: about the device's time and a start;
// `overlapped`, those that may begin while the one before ends. INCLUDE: a folder in which `warpsmith` is worker/kernels.
//   nvcc -gencode arch=compute_90a,code=sm_90a -std=c++17 -O2 -I INCLUDE -DLIST='"alone.inc"' -o alone alone.cu; ./alone [PART]
#include <warpsmith/attend.cuh>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <vector>
#include <cmath>
#include <csignal>
#include <unistd.h>
#include <string>
int first_line = 0, line_now = -1;
const char* line_name = "";
char** main_argv;
// Goes on with the next line in a process of its own: an error stays with the old one.
void GoOn(const char* why) {
  printf("%-44s FAILED: %s\n", line_name, why); fflush(stdout);
  const std::string next = std::to_string(line_now + 1);
  execl(main_argv[0], main_argv[0], "", next.c_str(), (char*)nullptr);
  _exit(1);
}
void Hung(int) { GoOn("hangs"); }
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) GoOn(cudaGetErrorString(e)); } while (0)

namespace ws {
constexpr float ScaleOf(int d) { return d == 64 ? 0.18033688f : d == 96 ? 0.14724464f : d == 128 ? 0.12751743f : 0.09016844f; }

template <int B, int GROUP, int SQ, int SK, int D, bool CAUSAL>
struct Plain {
  static constexpr bool kPlain = true, kOrZero = true, kNoNan = false;
  static constexpr int kTogether = 1;
  static constexpr float kScale = ScaleOf(D);
  WS_DEVICE int at_q(int b) const { return b; }
  WS_DEVICE int at_k(int b) const { return b / GROUP; }
  WS_DEVICE int at_v(int b) const { return b / GROUP; }
  WS_DEVICE int at_out(int b) const { return b; }
  WS_DEVICE AttendKeys keys(int, int q, int end) const { return {0, CAUSAL && end < SK ? end : SK}; }
  WS_DEVICE AttendKeys clear(int, int q, int end) const { return {0, CAUSAL && q + 1 < SK ? q + 1 : SK}; }
  WS_DEVICE bool seen(int, int q, int k) const { return !CAUSAL || k <= q; }
  WS_DEVICE void score(int, int, int, float (&)[1]) const {}
};
// B: batch of queries; GROUP: heads of a key head.
template <int B, int GROUP, int SQ, int SK, int D, bool CAUSAL, int TQ, int TK, int ST, int SEC, int SPLIT, bool MEET>
struct Conf {
  using Type = hopper::Bf16;
  using Element = bf16;
  static constexpr int kHead = D, kHeadV = D, kTileQ = TQ, kTileK = TK, kStages = ST, kBatch = B, kQueries = SQ, kKeys = SK, kSection = SEC, kSplit = SPLIT;
  static constexpr bool kLaterLonger = CAUSAL, kMeet = MEET, kOnce = false;
  static constexpr int kGroupHeads = GROUP;
  static constexpr bool kCausal = CAUSAL;
  using Glue = Plain<B, GROUP, SQ, SK, D, CAUSAL>;
};
template <class C>
__global__ void __launch_bounds__(128 * (C::kTileQ / 64 + 1), 1) att(const __grid_constant__ hopper::Map q, const __grid_constant__ hopper::Map k, const __grid_constant__ hopper::Map v, const __grid_constant__ hopper::Map o, float* left) {
  grid_launch_dependents();
  grid_wait();
  attend<C>(typename C::Glue(), q, k, v, o, left);
}
template <class C>
__global__ void __launch_bounds__(128, 1) fin(const __grid_constant__ hopper::Map o, float* left) {
  grid_launch_dependents();
  grid_wait();
  attend_combine<C>(typename C::Glue(), o, left);
}
__global__ void nothing() {}
__global__ void fill(__nv_bfloat16* p, long long n, unsigned seed, float scale) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
    unsigned x = (unsigned)i * 2654435761u + seed; x ^= x >> 15; x *= 2246822519u; x ^= x >> 13; x *= 3266489917u; x ^= x >> 16;
    p[i] = __float2bfloat16((x / 4294967296.0f - 0.5f) * 2 * scale);
  }
}
// One block for each of some queries: largest error.
__global__ void check(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const __nv_bfloat16* o, int group, int sq, int sk, int d, bool causal, int per, unsigned* worst) {
  __shared__ float s[8192];
  __shared__ float red[256];
  const int b = blockIdx.x / per, at = (int)((blockIdx.x % per) * 977LL % sq), t = threadIdx.x;
  const __nv_bfloat16 *qq = q + ((long long)b * sq + at) * d, *kk = k + (long long)(b / group) * sk * d, *vv = v + (long long)(b / group) * sk * d;
  const int n = causal ? min(sk, at + 1) : sk;
  float m = -1e30f;
  for (int i = t; i < n; i += 256) { float a = 0; for (int j = 0; j < d; ++j) a += __bfloat162float(qq[j]) * __bfloat162float(kk[(long long)i * d + j]); s[i] = a * rsqrtf(d); m = fmaxf(m, s[i]); }
  red[t] = m; __syncthreads();
  for (int w = 128; w > 0; w /= 2) { if (t < w) red[t] = fmaxf(red[t], red[t + w]); __syncthreads(); }
  m = red[0]; __syncthreads();
  float sum = 0;
  for (int i = t; i < n; i += 256) { s[i] = expf(s[i] - m); sum += s[i]; }
  red[t] = sum; __syncthreads();
  for (int w = 128; w > 0; w /= 2) { if (t < w) red[t] += red[t + w]; __syncthreads(); }
  sum = red[0];
  for (int j = t; j < d; j += 256) {
    float a = 0;
    for (int i = 0; i < n; ++i) a += s[i] * __bfloat162float(vv[(long long)i * d + j]);
    const float e = fabsf(a / sum - __bfloat162float(o[((long long)b * sq + at) * d + j]));
    atomicMax(worst, __float_as_uint(isfinite(e) ? e : 1e9f));
  }
}

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
Encode encode;
hopper::Map MapOf(void* p, int d, int rows, int outers, int box) {
  hopper::Map m;
  cuuint64_t sizes[3] = {(cuuint64_t)d, (cuuint64_t)rows, (cuuint64_t)outers}, strides[2] = {(cuuint64_t)d * 2, (cuuint64_t)d * 2 * rows};
  cuuint32_t boxes[3] = {64, (cuuint32_t)box, 1}, ones[3] = {1, 1, 1};
  CUresult r = encode((CUtensorMap*)&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, p, sizes, strides, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r) printf("encode %d\n", r);
  return m;
}
char *arena, *flush;
constexpr size_t kArena = size_t(3) << 30, kFlush = size_t(256) << 20;
float* workspace;
unsigned* worst;
cudaStream_t st;
const char* only = "";

void Launch(void* f, int grid, int threads, int shared, int cluster, bool dependent, void** args) {
  cudaLaunchConfig_t c{};
  c.gridDim = grid; c.blockDim = threads; c.dynamicSmemBytes = shared; c.stream = st;
  cudaLaunchAttribute a[2];
  int n = 0;
  if (cluster > 1) { a[n].id = cudaLaunchAttributeClusterDimension; a[n].val.clusterDim = {(unsigned)cluster, 1, 1}; ++n; }
  if (dependent) { a[n].id = cudaLaunchAttributeProgrammaticStreamSerialization; a[n].val.programmaticStreamSerializationAllowed = 1; ++n; }
  c.attrs = a; c.numAttrs = n;
  cudaError_t e = cudaLaunchKernelExC(&c, f, args);
  if (e) printf("launch: %s\n", cudaGetErrorString(e));
}

template <class C>
void Time(const char* name) {
  if (++line_now < first_line || (*only && !strstr(name, only))) return;
  line_name = name;
  alarm(12);
  using A = Attend<C>;
  auto* f = att<C>;
  CK(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, A::kSharedBytes));
  const int cluster = C::kMeet ? C::kSplit : 1;
  if (cluster > 8) CK(cudaFuncSetAttribute(f, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaFuncAttributes attr; CK(cudaFuncGetAttributes(&attr, f));
  int blocks = 0; CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, A::kThreads, A::kSharedBytes));
  const int tiles = A::kTiles, grid = C::kSplit > 1 ? tiles * C::kSplit : std::min(tiles, 132);
  const size_t bytes_q = size_t(C::kBatch) * C::kQueries * C::kHead * 2, bytes_k = size_t(C::kBatch) / C::kGroupHeads * C::kKeys * C::kHead * 2;
  const size_t set = (2 * bytes_q + 2 * bytes_k + 1023) / 1024 * 1024;
  const int sets = std::max<int>(1, std::min<size_t>(kArena / set, std::max<size_t>(1, (size_t(400) << 20) / set)));
  struct Maps { hopper::Map q, k, v, o; };
  std::vector<Maps> maps;
  for (int i = 0; i < sets; ++i) {
    char* at = arena + i * set;
    maps.push_back({MapOf(at, C::kHead, C::kQueries, C::kBatch, C::kTileQ), MapOf(at + 2 * bytes_q, C::kHead, C::kKeys, C::kBatch / C::kGroupHeads, C::kTileK),
                    MapOf(at + 2 * bytes_q + bytes_k, C::kHead, C::kKeys, C::kBatch / C::kGroupHeads, C::kTileK), MapOf(at + bytes_q, C::kHead, C::kQueries, C::kBatch, 64)});
  }
  const auto go = [&](int i, bool dependent) {
    void* args[] = {&maps[i].q, &maps[i].k, &maps[i].v, &maps[i].o, &workspace};
    Launch((void*)f, grid, A::kThreads, A::kSharedBytes, cluster, dependent, args);
    if constexpr (C::kSplit > 1 && !C::kMeet) {
      void* args2[] = {&maps[i].o, &workspace};
      Launch((void*)fin<C>, tiles * (C::kTileQ / 64) * A::kBoxesV, 128, 1024 + 64 * 128 * A::kBoxesV, 1, true, args2);
    }
  };
  CK(cudaMemsetAsync(arena + bytes_q, 0xff, bytes_q, st));
  go(0, false);
  CK(cudaMemsetAsync(worst, 0, 4, st));
  const int per = std::max(1, std::min(C::kQueries, 256 / C::kBatch + 1));
  check<<<C::kBatch * per, 256, 0, st>>>((__nv_bfloat16*)arena, (__nv_bfloat16*)(arena + 2 * bytes_q), (__nv_bfloat16*)(arena + 2 * bytes_q + bytes_k), (__nv_bfloat16*)(arena + bytes_q), C::kGroupHeads, C::kQueries, C::kKeys, C::kHead, C::kCausal, per, worst);
  float error = 0;
  CK(cudaMemcpyAsync(&error, worst, 4, cudaMemcpyDeviceToHost, st));
  CK(cudaStreamSynchronize(st));
  cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
  std::vector<float> cold;
  for (int i = 0; i < 9; ++i) {
    cudaMemsetAsync(flush, i, kFlush, st);
    cudaEventRecord(a, st); go(i % sets, false); cudaEventRecord(b, st);
    CK(cudaStreamSynchronize(st));
    float ms; cudaEventElapsedTime(&ms, a, b); cold.push_back(ms * 1000);
  }
  std::nth_element(cold.begin(), cold.begin() + 4, cold.end());
  // A graph of a chain over all sets, each apart.
  const int rounds = std::max(1, std::min(8, 24 / sets)), links = rounds * sets;
  float chain[2];
  for (int dependent = 0; dependent < 2; ++dependent) {
    cudaGraph_t graph; cudaGraphExec_t exec;
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < links; ++i) go(i % sets, dependent);
    CK(cudaStreamEndCapture(st, &graph));
    CK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    for (int i = 0; i < 3; ++i) {
      cudaEventRecord(a, st); cudaGraphLaunch(exec, st); cudaEventRecord(b, st);
      CK(cudaStreamSynchronize(st));
      float ms; cudaEventElapsedTime(&ms, a, b); times.push_back(ms * 1000 / links);
    }
    std::sort(times.begin(), times.end());
    chain[dependent] = times[1];
    cudaGraphExecDestroy(exec); cudaGraphDestroy(graph);
  }
  printf("%-44s cold %7.1f chain %7.1f overlapped %7.1f regs %3d spill %d blocks/SM %d smem %6d grid %4d err %.5f\n", name, cold[4], chain[0], chain[1], attr.numRegs, (int)attr.localSizeBytes, blocks, A::kSharedBytes, grid, error);
  fflush(stdout);
}
#define T(...) Time<Conf<__VA_ARGS__>>(#__VA_ARGS__)
void All();
int Main(int argc, char** argv) {
  main_argv = argv;
  if (argc > 1) only = argv[1];
  if (argc > 2) first_line = atoi(argv[2]);
  struct sigaction action{};
  action.sa_handler = Hung;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGALRM, &action, nullptr);
  cudaDriverEntryPointQueryResult r;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void**)&encode, 12000, cudaEnableDefault, &r);
  if (cudaMalloc(&arena, kArena) || cudaMalloc(&flush, kFlush) || cudaMalloc(&workspace, 64 << 20) || cudaMalloc(&worst, 4)) { puts("no memory"); return 1; }
  cudaStreamCreate(&st);
  fill<<<1024, 256, 0, st>>>((__nv_bfloat16*)arena, kArena / 2, 7, 1.0f);
  cudaStreamSynchronize(st);
  cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
  std::vector<float> cold;
  for (int i = 0; i < 9; ++i) {
    cudaMemsetAsync(flush, i, kFlush, st);
    cudaEventRecord(a, st); nothing<<<1, 32, 0, st>>>(); cudaEventRecord(b, st); cudaStreamSynchronize(st);
    float ms; cudaEventElapsedTime(&ms, a, b); cold.push_back(ms * 1000);
  }
  std::sort(cold.begin(), cold.end());
  printf("nothing cold %.1f (us)\n", cold[4]);
  All();
  return 0;
}
void All() {
  // batch, heads of a key head, queries, keys, head, causal, tile of queries, of keys, stages, section, split, meet
#include LIST
}
}  // namespace ws
int main(int argc, char** argv) { return ws::Main(argc, argv); }
