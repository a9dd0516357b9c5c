#include "worker/device/cuda_roof.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/device/plan_builder.h"

namespace warpsmith::device {
namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30;  // large against L2, whose writes come late
constexpr int kRounds = 8;
constexpr absl::Duration kLimit = absl::Seconds(5);
constexpr absl::Duration kSettleLimit = absl::Seconds(1);
constexpr int64_t kVectorBytes = 16;
// Buffers hold a whole number of every shape's tiles, also in their halves.
constexpr int64_t kUnitBytes = 2 * 4096 * kVectorBytes;
constexpr int kFmaThreads = 256;
constexpr int kFmaSteps = 4096;
constexpr int kAccumulators = 16;  // of a thread: hides the latency of four cycles
constexpr int kFmaBlocksPerSm = 8;
// Products: operations of a block in one round of its loop, and how it is launched.
constexpr int kProductRounds = 2048;
struct ProductKernel {
  uint32_t threads, shared_bytes;
  int blocks_per_sm;
  double operations;  // of a block in a round
  // What a card's own instructions do at most, over those that are measured.
  double margin;
};
// Two groups of four warps, each with four steps of 64 x 256 x 16 in each of three stages.
constexpr ProductKernel kGroupProducts = {256, 3 * (2 * 8 + 32) * 1024 + 1024, 1,
                                          2.0 * 2 * 3 * 4 * 64 * 256 * 16, 1};
// Eight warps, each with eight products of 16 x 8 x 16.
constexpr ProductKernel kWarpProducts = {256, 0, 2, 2.0 * 8 * 8 * 16 * 8 * 16, 1};
// Tensor cores that are fed from tensor memory do up to four times what those instructions do
// there.
constexpr double kTensorMemoryMargin = 4;

// A tile is what a block moves at once: V vectors a thread, each a block's width apart. A grid of
// fewer blocks than tiles takes turns.
constexpr char kSource[] = R"(
template <int V>
static __device__ unsigned seen_in(const uint4* p) {
  uint4 v[V];
#pragma unroll
  for (int j = 0; j < V; ++j) v[j] = __ldg(p + j * blockDim.x);
  unsigned seen = 0;
#pragma unroll
  for (int j = 0; j < V; ++j) seen |= v[j].x | v[j].y | v[j].z | v[j].w;
  return seen;
}
template <int V, int STREAMS>
static __device__ void read(const uint4* from, unsigned* to, long long vectors) {
  const long long part = vectors / STREAMS, tile = (long long)blockDim.x * V;
  unsigned seen = 0;
  for (long long i = blockIdx.x * tile; i < part; i += gridDim.x * tile) {
#pragma unroll
    for (int s = 0; s < STREAMS; ++s) seen |= seen_in<V>(from + s * part + i + threadIdx.x);
  }
  if (seen == 12345u) *to = seen;      // the compiler cannot know that it never is
}
extern "C" __global__ void __launch_bounds__(1024, 2)
read4(const uint4* from, unsigned* to, long long n) { read<4, 1>(from, to, n); }
extern "C" __global__ void __launch_bounds__(512, 2)
read8(const uint4* from, unsigned* to, long long n) { read<8, 1>(from, to, n); }
extern "C" __global__ void __launch_bounds__(256, 2)
read16(const uint4* from, unsigned* to, long long n) { read<16, 1>(from, to, n); }
extern "C" __global__ void __launch_bounds__(1024, 2)
read2x2(const uint4* from, unsigned* to, long long n) { read<2, 2>(from, to, n); }
extern "C" __global__ void __launch_bounds__(512, 2)
read4x2(const uint4* from, unsigned* to, long long n) { read<4, 2>(from, to, n); }

template <int V>
static __device__ void copy(const uint4* from, uint4* to) {
  const long long i = blockIdx.x * (long long)blockDim.x * V + threadIdx.x;
  uint4 v[V];
#pragma unroll
  for (int j = 0; j < V; ++j) v[j] = from[i + j * blockDim.x];
#pragma unroll
  for (int j = 0; j < V; ++j) to[i + j * blockDim.x] = v[j];
}
extern "C" __global__ void __launch_bounds__(256) copy1(const uint4* from, uint4* to) { copy<1>(from, to); }
extern "C" __global__ void __launch_bounds__(256) copy4(const uint4* from, uint4* to) { copy<4>(from, to); }

template <int V>
static __device__ void write(uint4* to) {
  const long long i = blockIdx.x * (long long)blockDim.x * V + threadIdx.x;
#pragma unroll
  for (int j = 0; j < V; ++j) to[i + j * blockDim.x] = make_uint4(1, 2, 3, 4);
}
extern "C" __global__ void __launch_bounds__(256) write1(uint4* to) { write<1>(to); }
extern "C" __global__ void __launch_bounds__(256) write4(uint4* to) { write<4>(to); }

extern "C" __global__ void __launch_bounds__(256) multiply(float* out, float scale, float offset) {
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = threadIdx.x + i;
#pragma unroll 4
  for (int step = 0; step < 4096; ++step) {
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i] = fmaf(sums[i], scale, offset);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += sums[i];
  if (sum == 12345.0f) out[0] = sum;   // the compiler cannot know that it never is
}
)";

// Products on Hopper: both operands in shared memory, as a good kernel has them, three stages of
// them so that what is multiplied changes. `random`: factors of (-1, 1), else zeros, which take
// least power.
constexpr char kGroupSource[] = R"(#include <warpsmith/wgmma.cuh>
using namespace ws::hopper;
constexpr int kStages = 3, kStageBytes = (2 * 8 + 32) << 10;
extern "C" __global__ void __launch_bounds__(256, 1) products(float* out, int random) {
  char* const tiles = ws::shared() + (-(int)shared_address(ws::shared()) & (kPatternBytes - 1));
  unsigned state = (blockIdx.x * 256 + threadIdx.x + 1) * 2654435761u;
  for (int i = threadIdx.x; i < kStages * kStageBytes / 4; i += 256) {
    unsigned word = 0;
    for (int half = 0; half < 2; ++half) {
      state = state * 1664525u + 1013904223u;
      const float value = (float)(int)state * 0x1p-31f;
      word |= (__float_as_uint(value) >> 16) << (16 * half);
    }
    reinterpret_cast<unsigned*>(tiles)[i] = random ? word : 0;
  }
  __syncthreads();
  fence_async();
  __syncthreads();
  const int group = threadIdx.x / 128;
  float sums[128];
#pragma unroll
  for (int v = 0; v < 128; ++v) sums[v] = 0;
  products_begin();
  for (int round = 0; round < @rounds; ++round) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      const char* const at = tiles + stage * kStageBytes;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        Product<Bf16, 256, 0, 0>::run(sums, operand(at + group * 8192 + k * 32, kPatternBytes, 16),
                                      operand(at + 16384 + k * 32, kPatternBytes, 16), 1);
      }
      products_commit();
      products_wait<1>();
    }
  }
  products_wait<0>();
  float sum = 0;
#pragma unroll
  for (int v = 0; v < 128; ++v) sum += sums[v];
  if (sum == 12345.0f) out[0] = sum;   // the compiler cannot know that it never is
}
)";

// Elsewhere, from compute capability 8.0: both operands in registers.
constexpr char kWarpSource[] = R"(
extern "C" __global__ void __launch_bounds__(256) products(float* out, int random) {
  unsigned state = (blockIdx.x * 256 + threadIdx.x + 1) * 2654435761u, a[4], b[8][2];
  const auto factors = [&] {
    unsigned word = 0;
    for (int half = 0; half < 2; ++half) {
      state = state * 1664525u + 1013904223u;
      word |= (__float_as_uint((float)(int)state * 0x1p-31f) >> 16) << (16 * half);
    }
    return random ? word : 0;
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = factors();
  float sums[8][4];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    b[i][0] = factors();
    b[i][1] = factors();
#pragma unroll
    for (int v = 0; v < 4; ++v) sums[i][v] = 0;
  }
  for (int round = 0; round < @rounds; ++round) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i][0]), "r"(b[i][1]));
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  if (sum == 12345.0f) out[0] = sum;   // the compiler cannot know that it never is
}
)";

// Of "sm_90a": 90; 0: no such name.
int CapabilityOf(const std::string& arch) {
  int capability = 0;
  for (const char c : arch) {
    if (absl::ascii_isdigit(c)) capability = 10 * capability + (c - '0');
  }
  return capability;
}

bool HasGroupProducts(const std::string& arch) { return arch == "sm_90a"; }

ProductKernel ProductKernelOf(const std::string& arch) {
  if (HasGroupProducts(arch)) return kGroupProducts;
  ProductKernel kernel = kWarpProducts;
  const int capability = CapabilityOf(arch);
  if (capability >= 90 && capability < 120) kernel.margin = kTensorMemoryMargin;
  return kernel;
}

// How a kernel goes over its memory. blocks_per_sm 0: a block for each tile.
struct Shape {
  const char* entry;
  int threads, vectors, blocks_per_sm;
};
constexpr Shape kReads[] = {{"read4", 1024, 4, 2},  {"read8", 512, 8, 2}, {"read8", 256, 8, 0},
                            {"read16", 256, 16, 2}, {"read4", 512, 4, 0}, {"read2x2", 1024, 2, 2},
                            {"read4x2", 512, 4, 2}};
constexpr Shape kCopies[] = {{"copy1", 256, 1, 0}, {"copy4", 256, 4, 0}};
constexpr Shape kWrites[] = {{"write1", 256, 1, 0}, {"write4", 256, 4, 0}};

// Runs plans over the same two buffers: memory that is freed in between would be scrubbed by the
// driver while the next one is timed.
class Stopwatch {
 public:
  Stopwatch(Device& device, Binary binary) : device_(device), binary_(std::move(binary)) {}

  absl::Status Start() {
    auto free = device_.FreeBytes();
    if (!free.ok()) return free.status();
    bytes_ = std::max<int64_t>(std::min(kMaxBytes, *free / 4) / kUnitBytes, 1) * kUnitBytes;
    for (auto* memory : {&from_, &to_}) {
      auto allocated = device_.Allocate(bytes_);
      if (!allocated.ok()) return allocated.status();
      *memory = *std::move(allocated);
      if (absl::Status status = device_.Fill(**memory, 0); !status.ok()) return status;
    }
    return device_.Settle(kSettleLimit);
  }

  int64_t bytes() const { return bytes_; }
  // A plan over buffers 0 and 1, to be completed.
  PlanBuilder Plan() const { return PlanBuilder("").Buffer("from", bytes_).Buffer("to", bytes_); }

  // Seconds of the fastest of kRounds runs.
  absl::StatusOr<double> Fastest(const v1::Plan& plan) { return Fastest(plan, binary_); }
  absl::StatusOr<double> Fastest(const v1::Plan& plan, const Binary& binary) {
    auto program = device_.Load(plan, binary);
    if (!program.ok()) return program.status();
    Memory* const bound[] = {from_.get(), to_.get()};
    if (absl::Status status = (*program)->Bind(bound); !status.ok()) return status;
    double best = 0;
    for (int round = 0; round < kRounds; ++round) {
      auto seconds = device_.Time(**program, kLimit);
      if (!seconds.ok()) return seconds.status();
      best = round == 0 ? *seconds : std::min(best, *seconds);
    }
    return best;
  }

  // Of all shapes, and of what `best` says already (0: nothing yet).
  template <size_t N>
  absl::StatusOr<double> Fastest(const Shape (&shapes)[N],
                                 const std::vector<v1::Argument>& arguments, double best) {
    for (const Shape& shape : shapes) {
      const int64_t tiles = bytes_ / (kVectorBytes * shape.vectors * shape.threads);
      const int64_t blocks =
          shape.blocks_per_sm == 0 ? tiles : device_.info().sm_count * shape.blocks_per_sm;
      auto seconds = Fastest(Plan()
                                 .Launch(shape.entry, static_cast<uint32_t>(blocks),
                                         static_cast<uint32_t>(shape.threads), arguments)
                                 .Build());
      if (!seconds.ok()) return seconds;
      best = best == 0 ? *seconds : std::min(best, *seconds);
    }
    return best;
  }

 private:
  Device& device_;
  const Binary binary_;
  int64_t bytes_ = 0;
  std::unique_ptr<Memory> from_, to_;
};

}  // namespace

std::string CudaRoofSource() { return kSource; }

std::string CudaProductsSource(const std::string& arch) {
  if (CapabilityOf(arch) < 80) return "";
  return absl::StrReplaceAll(HasGroupProducts(arch) ? kGroupSource : kWarpSource,
                             {{"@rounds", absl::StrCat(kProductRounds)}});
}

absl::StatusOr<graph::Roof> MeasureCudaRoof(Device& device, Compiler& compiler) {
  auto binary = compiler.Compile(kSource, absl::Seconds(30));
  if (!binary.ok()) return binary.status();
  Stopwatch watch(device, *std::move(binary));
  if (absl::Status status = watch.Start(); !status.ok()) return status;
  const int64_t bytes = watch.bytes();

  auto read = watch.Fastest(kReads, {Arg(0), Arg(1), Arg64(bytes / kVectorBytes)}, 0);
  if (!read.ok()) return read.status();
  // The driver's own copies and fills count as well.
  auto copy = watch.Fastest(watch.Plan().Copy(0, 1, bytes).Build());
  if (copy.ok()) copy = watch.Fastest(kCopies, {Arg(0), Arg(1)}, *copy);
  if (!copy.ok()) return copy.status();
  auto write = watch.Fastest(watch.Plan().Fill(1, 1, bytes).Build());
  if (write.ok()) write = watch.Fastest(kWrites, {Arg(1)}, *write);
  if (!write.ok()) return write.status();

  const int fma_blocks = device.info().sm_count * kFmaBlocksPerSm;
  auto multiply = watch.Fastest(watch.Plan()
                                    .Launch("multiply", static_cast<uint32_t>(fma_blocks),
                                            kFmaThreads, {Arg(1), ArgF(0.999f), ArgF(0.5f)})
                                    .Build());
  if (!multiply.ok()) return multiply.status();

  graph::Roof roof;
  roof.read_bytes = static_cast<double>(bytes) / *read;
  roof.copy_bytes = 2.0 * static_cast<double>(bytes) / *copy;
  roof.write_bytes = static_cast<double>(bytes) / *write;
  roof.operations =
      2.0 * kAccumulators * kFmaSteps * kFmaThreads * static_cast<double>(fma_blocks) / *multiply;
  const std::string source = CudaProductsSource(device.info().arch);
  if (source.empty()) return roof;
  auto products = compiler.Compile(source, absl::Seconds(30));
  if (!products.ok()) return products.status();
  const ProductKernel kernel = ProductKernelOf(device.info().arch);
  const int blocks = device.info().sm_count * kernel.blocks_per_sm;
  const double operations = kernel.margin * kernel.operations * kProductRounds * blocks;
  for (const bool random : {true, false}) {
    auto seconds = watch.Fastest(watch.Plan()
                                     .Launch("products", static_cast<uint32_t>(blocks),
                                             kernel.threads, {Arg(1), Arg32(random)})
                                     .Shared(kernel.shared_bytes)
                                     .Build(),
                                 *products);
    if (!seconds.ok()) return seconds.status();
    (random ? roof.products : roof.most_products) = operations / *seconds;
  }
  roof.most_products = std::max(roof.products, roof.most_products);
  return roof;
}

}  // namespace warpsmith::device
