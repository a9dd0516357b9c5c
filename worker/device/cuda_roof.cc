#include "worker/device/cuda_roof.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  absl::StatusOr<double> Fastest(const v1::Plan& plan) {
    auto program = device_.Load(plan, binary_);
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
  return roof;
}

}  // namespace warpsmith::device
