#include "worker/device/report.h"

#include <algorithm>

namespace warpsmith::device {
namespace {

constexpr int64_t kWarpThreads = 32;
constexpr int64_t kRegisterUnit = 256;        // a warp
constexpr int64_t kReservedShared = 1 << 10;  // a block
constexpr int64_t kSharedUnit = 128;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

int BlocksPerSm(int64_t threads, int64_t registers, int64_t shared, const DeviceInfo& info) {
  const int64_t warps = (threads + kWarpThreads - 1) / kWarpThreads;
  int64_t blocks =
      std::min<int64_t>(info.max_blocks_per_sm, info.max_threads_per_sm / (warps * kWarpThreads));
  if (registers > 0) {
    const int64_t warp_registers = RoundUp(registers * kWarpThreads, kRegisterUnit);
    // An SM has four parts, each with its own registers and warps.
    const int64_t resident_warps = info.registers_per_sm / 4 / warp_registers * 4;
    blocks = std::min(blocks, resident_warps / warps);
  }
  if (info.shared_per_sm > 0) {
    blocks = std::min(blocks, info.shared_per_sm / RoundUp(shared + kReservedShared, kSharedUnit));
  }
  return static_cast<int>(blocks);
}

}  // namespace

void CompleteReport(const v1::Plan& plan, const DeviceInfo& info, v1::StaticReport* report) {
  if (info.kind == "host") return;
  for (v1::StaticReport::Kernel& kernel : *report->mutable_kernels()) {
    int64_t threads = 0, shared = 0;
    for (const v1::Step& step : plan.steps()) {
      if (!step.has_launch() || step.launch().entry() != kernel.entry()) continue;
      int64_t block = 1;
      for (const uint32_t size : step.launch().block()) block *= size;
      threads = std::max(threads, block);
      shared = std::max<int64_t>(shared, step.launch().shared_bytes());
    }
    if (threads == 0) continue;
    kernel.set_shared_bytes(static_cast<int>(kernel.shared_bytes() + shared));
    kernel.set_blocks_per_sm(BlocksPerSm(threads, kernel.registers(), kernel.shared_bytes(), info));
  }
}

}  // namespace warpsmith::device
