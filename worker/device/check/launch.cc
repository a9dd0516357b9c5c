// Ways of launching, and what is refused.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "worker/device/check/cases.h"
#include "worker/kernels/headers.h"

namespace warpsmith::device {

Result BigSharedMemory(Bench& bench) {
  const auto bytes = static_cast<uint32_t>(bench.device->info().shared_per_block);
  auto loaded =
      Load(bench, PlanBuilder(R"(#include <warpsmith/base.cuh>
extern "C" __global__ void reverse(int* y, int n) {
  int* s = (int*)ws::shared();
  for (int i = ws::thread(); i < n; i += ws::block_threads()) s[i] = i;
  ws::sync_block();
  for (int i = ws::thread(); i < n; i += ws::block_threads()) y[i] = s[n - 1 - i];
})")
                      .Buffer("y", bytes)
                      .Launch("reverse", 1, 256, {Arg(0), Arg32(static_cast<int>(bytes / 4))})
                      .Shared(bytes)
                      .Build());
  if (!loaded.ok()) return loaded.status();
  RETURN_IF_ERROR(loaded->Run());
  auto y = loaded->Ints(0);
  if (!y.ok()) return y.status();
  for (size_t i = 0; i < y->size(); ++i) {
    RETURN_IF_ERROR(Expect((*y)[i] == static_cast<int>(y->size() - 1 - i), "the values"));
  }
  return absl::StrCat(bytes, " bytes a block");
}

constexpr char kMeet[] = R"(#include <warpsmith/base.cuh>
extern "C" __global__ void meet(unsigned long long* exchange, int* y) {
  if (ws::thread() == 0) {
    ws::post(exchange + ws::block(), ws::block() + 1, 1);
    int total = 0;
    for (int i = 0; i < ws::blocks(); ++i) {
      unsigned long long word;
      do { word = ws::peek(exchange + i, 1); } while (word >> 32 != 1);
      total += (int)word;
    }
    y[ws::block()] = total;
  }
}
extern "C" __global__ void rotate(int* y) {
  int* mine = (int*)ws::shared();
  mine[ws::thread()] = ws::block() * 100 + ws::thread();
  ws::sync_cluster();
  int* other = ws::peer(mine, (ws::cluster_rank() + 1) % ws::cluster_size());
  y[ws::block() * 64 + ws::thread()] = other[ws::thread()];
  ws::sync_cluster();
}
extern "C" __global__ void first(int* x) {
  ws::grid_launch_dependents();
  for (int k = 0; k < 1000; ++k) ((volatile int*)x)[ws::block() * 256 + ws::thread()] = k + 1;
}
extern "C" __global__ void second(const int* x, int* y) {
  ws::grid_wait();
  const int i = ws::block() * 256 + ws::thread();
  y[i] = ((volatile const int*)x)[i ^ 255] + 1;
}
extern "C" __global__ void add(const int* a, const int* b, int* y) {
  const int i = ws::block() * 256 + ws::thread();
  y[i] = ((volatile const int*)a)[i] + ((volatile const int*)b)[i];
}
// As `first`, of values that lie in its multiprocessor's cache as they were.
extern "C" __global__ void first_known(int* x) {
  ws::grid_launch_dependents();
  int seen = 0;
  for (int k = 0; k < 8; ++k) seen += __ldg(x + (ws::block() + k) % ws::blocks() * 256 + ws::thread());
  for (int k = 0; k < 1000; ++k) ((volatile int*)x)[ws::block() * 256 + ws::thread()] = k + 1 + (seen < 0);
}
// As `second`, of values that are steady from there on.
extern "C" __global__ void second_steady(const int* x, int* y) {
  ws::grid_wait();
  [&](const int* __restrict__ x) {
    const int i = ws::block() * 256 + ws::thread();
    y[i] = __ldg(x + (i ^ 255)) + 1;
  }(x);
}
)";

Result Cooperative(Bench& bench) {
  const int blocks = bench.device->info().kind == "host" ? 8 : bench.device->info().sm_count * 2;
  const PlanBuilder plan = PlanBuilder(kMeet)
                               .Buffer("exchange", blocks * 8)
                               .Buffer("y", blocks * 4)
                               .Fill(0, 0, blocks * 8)
                               .Launch("meet", blocks, 128, {Arg(0), Arg(1)})
                               .Cooperative();
  auto loaded = Load(bench, plan.Build());
  if (!loaded.ok()) return loaded.status();
  for (int run = 0; run < 20; ++run) RETURN_IF_ERROR(loaded->Run());
  auto y = loaded->Ints(1);
  if (!y.ok()) return y.status();
  for (int total : *y) RETURN_IF_ERROR(Expect(total == blocks * (blocks + 1) / 2, "the sums"));
  // More blocks than can be resident are refused.
  v1::Plan large = plan.Build();
  large.mutable_steps(1)->mutable_launch()->set_grid(0, 1 << 20);
  auto refused = Load(bench, large);
  absl::Status status = refused.ok() ? refused->Run() : refused.status();
  RETURN_IF_ERROR(Expect(absl::IsInvalidArgument(status),
                         absl::StrCat("InvalidArgument, got ", status.ToString())));
  return absl::StrCat(blocks, " blocks; ", status.message());
}

Result Clusters(Bench& bench) {
  std::string done;
  for (const int cluster : {2, 8, 16}) {
    if (bench.device->info().kind != "host" && cluster > bench.device->info().max_cluster) continue;
    const int blocks = cluster * 10;
    auto loaded = Load(bench, PlanBuilder(kMeet)
                                  .Buffer("y", blocks * 64 * 4)
                                  .Launch("rotate", blocks, 64, {Arg(0)})
                                  .Cluster(cluster)
                                  .Shared(256)
                                  .Build());
    if (!loaded.ok()) return loaded.status();
    for (int run = 0; run < 5; ++run) RETURN_IF_ERROR(loaded->Run());
    auto y = loaded->Ints(0);
    if (!y.ok()) return y.status();
    for (int i = 0; i < blocks * 64; ++i) {
      const int block = i / 64, peer = block / cluster * cluster + (block + 1) % cluster;
      RETURN_IF_ERROR(Expect((*y)[i] == peer * 100 + i % 64, "the peers' values"));
    }
    absl::StrAppend(&done, done.empty() ? "" : ", ", cluster);
  }
  return absl::StrCat("clusters of ", done);
}

// A box of 32 x 16 integers a block: through shared memory, one added to each. What lies outside of
// x must come as zero.
constexpr char kBoxes[] = R"(#include <warpsmith/wgmma.cuh>
using namespace ws::hopper;
extern "C" __global__ void __launch_bounds__(128) boxes(const __grid_constant__ Map x, const __grid_constant__ Map y, int* outside) {
  __shared__ alignas(1024) unsigned char box[16 * kRowBytes];
  __shared__ Barrier come;
  const int column = blockIdx.x % 2 * 32, row = blockIdx.x / 2 * 16;
  if (threadIdx.x == 0) {
    init(come, 1);
    init_done();
    fence_async();
    arrive_expecting(come, sizeof(box));
    load_box(box, x, come, column, row, 0);
  }
  __syncthreads();
  wait(come, 0, "come", 0);
  for (int i = threadIdx.x; i < 16 * 32; i += 128) {
    int* at = reinterpret_cast<int*>(box + swizzled(i / 32, i % 32 * 4));
    if ((column + i % 32 >= 40 || row + i / 32 >= 50) && *at != 0) atomicAdd(outside, 1);
    *at += 1;
  }
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    store_box(y, box, column, row, 0);
    commit_stores();
    wait_stores<0>();
  }
}
)";

Result TensorMaps(Bench& bench) {
  constexpr int kColumns = 40, kRows = 50;
  const auto map = [](int buffer) {
    v1::Argument argument;
    v1::TensorMap& map = *argument.mutable_map();
    map.set_buffer(buffer);
    map.set_dtype("i32");
    for (const int64_t size : {kColumns, kRows, 1}) map.add_sizes(size);
    for (const int64_t stride : {kColumns * 4, kColumns * kRows * 4}) map.add_strides(stride);
    for (const int box : {32, 16, 1}) map.add_box(box);
    map.set_swizzle(128);
    return argument;
  };
  const v1::Plan plan = PlanBuilder(bench.device->info().tensor_maps ? kBoxes : kWrite)
                            .Buffer("x", kColumns * kRows * 4)
                            .Buffer("y", kColumns * kRows * 4)
                            .Buffer("outside", 4)
                            .Launch("boxes", 8, 128, {map(0), map(1), Arg(2)})
                            .Build();
  auto loaded = Load(bench, plan);
  if (!bench.device->info().tensor_maps) {
    RETURN_IF_ERROR(Expect(absl::IsInvalidArgument(loaded.status()), "no tensor maps here"));
    return std::string(loaded.status().message());
  }
  if (!loaded.ok()) return loaded.status();
  std::vector<int> values(kColumns * kRows);
  std::iota(values.begin(), values.end(), 7);
  RETURN_IF_ERROR(bench.device->Write(*loaded->memory[0], values.data(), values.size() * 4));
  for (int move = 0; move < 5; ++move) {
    RETURN_IF_ERROR(bench.device->Fill(*loaded->memory[1], 0));
    RETURN_IF_ERROR(loaded->Run());
    auto y = loaded->Ints(1), outside = loaded->Ints(2);
    if (!y.ok()) return y.status();
    if (!outside.ok()) return outside.status();
    for (size_t i = 0; i < y->size(); ++i) {
      RETURN_IF_ERROR(Expect((*y)[i] == values[i] + 1, "each element through its box"));
    }
    RETURN_IF_ERROR(Expect((*outside)[0] == 0, "zeros outside"));
    for (auto& memory : loaded->memory) {
      auto intact = memory->GuardIntact();
      if (!intact.ok()) return intact.status();
      RETURN_IF_ERROR(Expect(*intact, "nothing written outside"));
      RETURN_IF_ERROR(memory->Unmap());
    }
    for (auto& memory : loaded->memory) RETURN_IF_ERROR(memory->Map());
    RETURN_IF_ERROR(loaded->Bind());
  }
  return "boxes of 128 bytes, at 5 places of memory";
}

// 32 of a window's places a block, moved by one of its 3 x 3 taps: through shared memory to y. It
// stands at 4 x 5 places of each image.
constexpr char kWindows[] = R"(#include <warpsmith/wgmma.cuh>
using namespace ws::hopper;
extern "C" __global__ void __launch_bounds__(128) windows(const __grid_constant__ Map x, int* y) {
  __shared__ alignas(1024) unsigned char box[32 * kRowBytes];
  __shared__ Barrier come;
  if (threadIdx.x == 0) {
    const int place = blockIdx.x / 9 * 32, tap = blockIdx.x % 9;
    init(come, 1);
    init_done();
    fence_async();
    arrive_expecting(come, sizeof(box));
    load_window(box, x, come, 0, place % 4 * 2 - 1, place / 4 % 5 - 1, place / 20, tap % 3, tap / 3);
  }
  __syncthreads();
  wait(come, 0, "come", 0);
  for (int i = threadIdx.x; i < 32 * 32; i += 128)
    y[blockIdx.x * 32 * 32 + i] = *reinterpret_cast<const int*>(box + swizzled(i / 32, i % 32 * 4));
}
)";

Result Windows(Bench& bench) {
  if (!bench.device->info().tensor_maps) return "no tensor maps here";
  // Of 64 channels of f16, which are 32 integers; one row and column of zeros around.
  constexpr int kWide = 7, kHigh = 5, kImages = 2, kPixel = 32, kBlocks = 2 * 9;
  v1::Argument argument;
  v1::TensorMap& map = *argument.mutable_map();
  map.set_dtype("f16");
  for (const int64_t size : {2 * kPixel, kWide, kHigh, kImages}) map.add_sizes(size);
  for (const int pixels : {1, kWide, kWide * kHigh}) map.add_strides(pixels * kPixel * 4);
  for (const int box : {2 * kPixel, 32}) map.add_box(box);
  map.set_swizzle(128);
  for (const int stride : {2, 1}) {
    map.mutable_window()->add_lower(-1);
    map.mutable_window()->add_upper(-1);  // its last tap is 2 further on
    map.mutable_window()->add_strides(stride);
  }
  std::vector<int> values(kImages * kHigh * kWide * kPixel);
  std::iota(values.begin(), values.end(), 7);
  auto loaded = Load(bench, PlanBuilder(kWindows)
                                .Buffer("x", static_cast<int64_t>(values.size()) * 4)
                                .Buffer("y", kBlocks * 32 * kPixel * 4)
                                .Launch("windows", kBlocks, 128, {argument, Arg(1)})
                                .Build());
  if (!loaded.ok()) return loaded.status();
  RETURN_IF_ERROR(bench.device->Write(*loaded->memory[0], values.data(), values.size() * 4));
  RETURN_IF_ERROR(loaded->Run());
  auto y = loaded->Ints(1);
  if (!y.ok()) return y.status();
  for (int i = 0; i < static_cast<int>(y->size()); ++i) {
    const int block = i / (32 * kPixel), place = block / 9 * 32 + i / kPixel % 32, tap = block % 9;
    const int image = place / 20, h = place / 4 % 5 - 1 + tap / 3, w = place % 4 * 2 - 1 + tap % 3;
    const bool inside = image < kImages && h >= 0 && h < kHigh && w >= 0 && w < kWide;
    const int pixel = (image * kHigh + h) * kWide + w;
    RETURN_IF_ERROR(Expect((*y)[i] == (inside ? values[pixel * kPixel + i % kPixel] : 0),
                           absl::StrCat("place ", place, " moved by tap ", tap)));
  }
  return "windows of 3 x 3, 2 apart, over the ends of lines and images";
}

Result Programmatic(Bench& bench) {
  const int blocks = bench.device->info().kind == "host" ? 8 : 512;
  std::string done = "two kernels in";
  for (const auto& [first, second] :
       {std::pair{"first", "second"}, {"first_known", "second_steady"}}) {
    auto loaded = Load(bench, PlanBuilder(kMeet)
                                  .Buffer("x", blocks * 1024)
                                  .Buffer("y", blocks * 1024)
                                  .Fill(0, 0, blocks * 1024)
                                  .Launch(first, blocks, 256, {Arg(0)})
                                  .Launch(second, blocks, 256, {Arg(0), Arg(1)})
                                  .Programmatic()
                                  .Build());
    if (!loaded.ok()) return loaded.status();
    for (int run = 0; run < 20; ++run) {
      RETURN_IF_ERROR(loaded->Run());
      auto y = loaded->Ints(1);
      if (!y.ok()) return y.status();
      for (int value : *y)
        RETURN_IF_ERROR(Expect(value == 1001, absl::StrCat("last values of ", first)));
    }
    auto seconds = bench.device->Time(*loaded->program, kRunLimit);
    if (!seconds.ok()) return seconds.status();
    absl::StrAppendFormat(&done, " %.1f us", *seconds * 1e6);
  }
  return done;
}

// Two chains of two kernels and their sum, beside each other and one after the other.
Result Lanes(Bench& bench) {
  constexpr int kBlocks = 8;  // so that all of them have room at once
  constexpr int kBytes = kBlocks * 1024;
  const auto plan = [](bool lanes) {
    PlanBuilder builder(kMeet);
    for (const char* name : {"x", "y", "u", "v", "z"}) builder.Buffer(name, kBytes);
    const auto in = [&](uint32_t lane, const std::vector<uint32_t>& after = {}) {
      if (lanes) builder.InLane(lane, after);
    };
    builder.Launch("first", kBlocks, 256, {Arg(0)});
    builder.Launch("first", kBlocks, 256, {Arg(2)}), in(1);
    // In a third lane, so that it waits for one of another.
    builder.Launch("second", kBlocks, 256, {Arg(0), Arg(1)}), in(2, {0});
    builder.Launch("second", kBlocks, 256, {Arg(2), Arg(3)}).Programmatic(), in(1);
    builder.Launch("add", kBlocks, 256, {Arg(1), Arg(3), Arg(4)}), in(0, {2, 3});
    return builder.Build();
  };
  std::string done;
  for (const bool lanes : {true, false}) {
    auto loaded = Load(bench, plan(lanes));
    if (!loaded.ok()) return loaded.status();
    for (int run = 0; run < 20; ++run) {
      for (auto& memory : loaded->memory) RETURN_IF_ERROR(bench.device->Fill(*memory, 0));
      RETURN_IF_ERROR(loaded->Bind());  // captured again, by the same streams and events
      RETURN_IF_ERROR(loaded->Run());
      auto z = loaded->Ints(4);
      if (!z.ok()) return z.status();
      for (int value : *z) RETURN_IF_ERROR(Expect(value == 2002, "the sum of both chains"));
    }
    auto launches = bench.device->TimeLaunches(*loaded->program, kRunLimit);
    if (!launches.ok()) return launches.status();
    RETURN_IF_ERROR(Expect(launches->size() == 5, "a time of each kernel"));
    auto seconds = bench.device->Time(*loaded->program, kRunLimit);
    if (!seconds.ok()) return seconds.status();
    absl::StrAppendFormat(&done, "%s%.1f us", lanes ? "in lanes " : ", in one ", *seconds * 1e6);
  }
  return done;
}

Result Refusals(Bench& bench) {
  auto global = bench.compiler->Compile(
      "__device__ int calls; extern \"C\" __global__ void f(int* x) { *x = ++calls; }",
      kCompileLimit);
  RETURN_IF_ERROR(Expect(absl::IsFailedPrecondition(global.status()), "a refused global"));
  const auto refused = [&](const PlanBuilder& plan) -> absl::Status {
    auto loaded = Load(bench, plan.Build());
    return Expect(absl::IsInvalidArgument(loaded.status()),
                  absl::StrCat("InvalidArgument, got ", loaded.status().ToString()));
  };
  RETURN_IF_ERROR(refused(WritePlan(8, 0, 8).Launch("nothing", 1, 1, {})));
  RETURN_IF_ERROR(refused(WritePlan(8, 0, 8).Launch("write", 1, 1, {Arg(0)})));
  RETURN_IF_ERROR(refused(WritePlan(8, 0, 8).Launch("write", 1, 1, {Arg(0), Arg64(1), Arg32(1)})));
  RETURN_IF_ERROR(refused(WritePlan(8, 0, 8).Shared(1 << 20)));
  return "a global, a missing kernel, wrong arguments, too much shared memory";
}

Result Headers(Bench& bench) {
  double milliseconds = 0;
  for (const auto& [name, text] : kernels::Headers()) {
    if (absl::StartsWith(name, "warpsmith/host")) continue;
    // What is for sm_90a alone.
    const bool hopper = absl::StrContains(absl::StrCat(name, text), "warpsmith/hopper.cuh") ||
                        absl::StrContains(text, "warpsmith/wgmma.cuh");
    if (hopper && bench.device->info().kind == "host") continue;
    auto binary = bench.compiler->Compile(
        absl::StrCat("#include <", name, ">\nextern \"C\" __global__ void f() {}\n"),
        kCompileLimit);
    if (!binary.ok())
      return absl::UnknownError(absl::StrCat(name, ": ", binary.status().message()));
    milliseconds = std::max(milliseconds, binary->report.compile_ms());
  }
  return absl::StrFormat("slowest %.0f ms", milliseconds);
}

}  // namespace warpsmith::device
