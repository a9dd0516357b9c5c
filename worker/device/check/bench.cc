#include "worker/device/check/bench.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::device {

absl::Status Expect(bool condition, absl::string_view what) {
  return condition ? absl::OkStatus() : absl::UnknownError(absl::StrCat("expected: ", what));
}

absl::StatusOr<Loaded> Load(Bench& bench, const v1::Plan& plan) {
  Loaded loaded;
  loaded.device = bench.device.get();
  auto binary = bench.compiler->Compile(plan.source(), kCompileLimit);
  if (!binary.ok()) return binary.status();
  for (const v1::Buffer& buffer : plan.buffers()) {
    auto memory = bench.device->Allocate(buffer.bytes());
    if (!memory.ok()) return memory.status();
    loaded.memory.push_back(*std::move(memory));
    RETURN_IF_ERROR(bench.device->Fill(*loaded.memory.back(), 0));
  }
  auto program = bench.device->Load(plan, *binary);
  if (!program.ok()) return program.status();
  loaded.program = *std::move(program);
  RETURN_IF_ERROR(loaded.Bind());
  return loaded;
}

const char kWrite[] = R"(
extern "C" __global__ void write(int* y, long long first, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[first + i] = (int)i;
}
extern "C" __global__ void read(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void spin(int* y) { while (*(volatile int*)y == 0) {} }
)";

PlanBuilder WritePlan(int64_t buffer_ints, int64_t first, int64_t n) {
  return PlanBuilder(kWrite)
      .Buffer("y", buffer_ints * 4)
      .Launch("write", static_cast<uint32_t>((n + 255) / 256), 256,
              {Arg(0), Arg64(first), Arg64(n)});
}

}  // namespace warpsmith::device
