#include "worker/device/cuda_rates.h"

#include <algorithm>

#include "worker/device/plan_builder.h"

namespace warpsmith::device {
namespace {

constexpr int64_t kMaxCopyBytes = int64_t{2} << 30;  // large against L2, whose writes come late
constexpr int kRounds = 10;
constexpr absl::Duration kLimit = absl::Seconds(5);
constexpr int kThreads = 256;
constexpr int kVectorsPerBlock = kThreads;  // 16-byte vectors
constexpr int kReadThreads = 1024;
constexpr int kReadBlocksPerSm = 2;
constexpr int kFmaSteps = 4096;
constexpr int kAccumulators = 16;  // of a thread: hides the latency of four cycles
constexpr int kFmaBlocksPerSm = 8;

constexpr char kSource[] = R"(
extern "C" __global__ void __launch_bounds__(256) copy(const uint4* from, uint4* to) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  to[i] = from[i];
}
extern "C" __global__ void __launch_bounds__(1024, 2)
read(const uint4* from, unsigned* to, long long vectors) {
  const long long stride = gridDim.x * 1024ll;
  unsigned seen = 0;
  long long i = blockIdx.x * 1024ll + threadIdx.x;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    const uint4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
    seen |= a.x | a.y | a.z | a.w | b.x | b.y | b.z | b.w;
    seen |= c.x | c.y | c.z | c.w | d.x | d.y | d.z | d.w;
  }
  for (; i < vectors; i += stride) seen |= from[i].x;
  if (seen == 12345u) *to = seen;      // the compiler cannot know that it never is
}
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

// Seconds of the fastest of kRounds runs.
absl::StatusOr<double> Fastest(Device& device, const Binary& binary, const v1::Plan& plan) {
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<Memory*> buffers;
  for (const v1::Buffer& buffer : plan.buffers()) {
    auto allocated = device.Allocate(buffer.bytes());
    if (!allocated.ok()) return allocated.status();
    memory.push_back(*std::move(allocated));
    buffers.push_back(memory.back().get());
    if (absl::Status status = device.Fill(*memory.back(), 0); !status.ok()) return status;
  }
  auto program = device.Load(plan, binary);
  if (!program.ok()) return program.status();
  if (absl::Status status = (*program)->Bind(buffers); !status.ok()) return status;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto seconds = device.Time(**program, kLimit);
    if (!seconds.ok()) return seconds.status();
    best = round == 0 ? *seconds : std::min(best, *seconds);
  }
  return best;
}

}  // namespace

absl::StatusOr<Device::Rates> MeasureCudaRates(Device& device, Compiler& compiler) {
  auto binary = compiler.Compile(kSource, absl::Seconds(30));
  if (!binary.ok()) return binary.status();
  auto free = device.FreeBytes();
  if (!free.ok()) return free.status();
  constexpr int64_t kBlockBytes = kVectorsPerBlock * 16;
  const int64_t blocks = std::max<int64_t>(std::min(kMaxCopyBytes, *free / 4) / kBlockBytes, 1);
  const int64_t bytes = blocks * kBlockBytes;

  auto copy = Fastest(device, *binary,
                      PlanBuilder("")
                          .Buffer("from", bytes)
                          .Buffer("to", bytes)
                          .Launch("copy", static_cast<uint32_t>(blocks), kThreads, {Arg(0), Arg(1)})
                          .Build());
  if (!copy.ok()) return copy.status();
  // Reading alone is faster than reading and writing: the roof is the faster of the two.
  auto only_read = Fastest(device, *binary,
                           PlanBuilder("")
                               .Buffer("from", bytes)
                               .Buffer("to", 256)
                               .Launch("read", device.info().sm_count * kReadBlocksPerSm,
                                       kReadThreads, {Arg(0), Arg(1), Arg64(bytes / 16)})
                               .Build());
  if (!only_read.ok()) return only_read.status();
  const int fma_blocks = device.info().sm_count * kFmaBlocksPerSm;
  auto multiply =
      Fastest(device, *binary,
              PlanBuilder("")
                  .Buffer("out", 256)
                  .Launch("multiply", fma_blocks, kThreads, {Arg(0), ArgF(0.999f), ArgF(0.5f)})
                  .Build());
  if (!multiply.ok()) return multiply.status();
  Device::Rates rates;
  rates.bytes_per_second = static_cast<double>(bytes) * std::max(2.0 / *copy, 1.0 / *only_read);
  rates.operations_per_second =
      2.0 * kAccumulators * kFmaSteps * kThreads * static_cast<double>(fma_blocks) / *multiply;
  return rates;
}

}  // namespace warpsmith::device
