// warpsmith-device-check --device cuda:0
//
// Shows that a device does what device.h says: every case runs in a process of its own, since some
// of them leave the device unusable. Prints a table; the exit status is the number of failures.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "worker/device/cuda_driver.h"
#include "worker/device/device.h"
#include "worker/device/plan_builder.h"
#include "worker/device/process.h"
#include "worker/device/same_time.h"
#include "worker/kernels/headers.h"

namespace warpsmith::device {
namespace {

constexpr absl::Duration kCaseLimit = absl::Seconds(60);
constexpr absl::Duration kRunLimit = absl::Seconds(5);
constexpr absl::Duration kCompileLimit = absl::Seconds(30);

struct Options {
  std::string device = "cuda:0", nvrtc, cache = "/tmp/warpsmith-device-check", only;
};

// What a case works with. A case returns what it found, for people, or why it failed.
struct Bench {
  std::unique_ptr<Device> device;
  std::unique_ptr<Compiler> compiler;
  Options options;
};
using Result = absl::StatusOr<std::string>;

absl::Status Expect(bool condition, absl::string_view what) {
  return condition ? absl::OkStatus() : absl::UnknownError(absl::StrCat("expected: ", what));
}

#define RETURN_IF_ERROR(expression)            \
  do {                                         \
    const absl::Status status_ = (expression); \
    if (!status_.ok()) return status_;         \
  } while (false)

// A plan with memory, loaded and bound.
struct Loaded {
  Device* device = nullptr;
  std::vector<std::unique_ptr<Memory>> memory;
  std::unique_ptr<Program> program;

  absl::Status Bind() {
    std::vector<Memory*> buffers;
    for (auto& m : memory) buffers.push_back(m.get());
    return program->Bind(buffers);
  }
  absl::Status Run(absl::Duration limit = kRunLimit) { return device->Run(*program, limit); }
  absl::StatusOr<std::vector<int>> Ints(int buffer) {
    std::vector<int> values(memory[buffer]->bytes() / 4);
    RETURN_IF_ERROR(device->Read(*memory[buffer], values.data(), values.size() * 4));
    return values;
  }
};

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

constexpr char kWrite[] = R"(
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

Result ItsName(Bench& bench) {
  const DeviceInfo& info = bench.device->info();
  return absl::StrFormat(
      "%s, %s, driver %s, %d SMs (%d, %d, %d in clusters of 4, 8, 16), L2 %d MiB, shared %d KiB, "
      "cluster %d, memory %d GiB, %.0f MHz",
      info.name, info.arch, info.driver, info.sm_count, info.clustered_blocks[0],
      info.clustered_blocks[1], info.clustered_blocks[2], info.l2_bytes >> 20,
      info.shared_per_block >> 10, info.max_cluster, info.memory_bytes >> 30,
      bench.device->SmClockMhz());
}

Result Roof(Bench& bench) {
  auto roof = bench.device->MeasureRoof();
  if (!roof.ok()) return roof.status();
  RETURN_IF_ERROR(Expect(roof->copy_bytes > 1e9 && roof->operations > 1e9, "rates above 1e9"));
  return absl::StrFormat(
      "read %.3f, write %.3f, copy %.3f TB/s; fp32 %.2f, products of 16 bits %.0f (at most %.0f) "
      "TFLOP/s",
      roof->read_bytes / 1e12, roof->write_bytes / 1e12, roof->copy_bytes / 1e12,
      roof->operations / 1e12, roof->products / 1e12, roof->most_products / 1e12);
}

Result MapFillCopy(Bench& bench) {
  auto loaded = Load(
      bench, WritePlan(1000, 0, 1000).Buffer("z", 4000).Fill(1, 7, 4000).Copy(0, 1, 2000).Build());
  if (!loaded.ok()) return loaded.status();
  for (int run = 0; run < 3; ++run) RETURN_IF_ERROR(loaded->Run());
  auto z = loaded->Ints(1);
  if (!z.ok()) return z.status();
  for (int i = 0; i < 1000; ++i)
    RETURN_IF_ERROR(Expect((*z)[i] == (i < 500 ? i : 7), "the values"));
  return "1000 values";
}

Result GuardBands(Bench& bench) {
  auto inside = Load(bench, WritePlan(501, 0, 501).Build());
  auto behind = Load(bench, WritePlan(501, 0, 502).Build());
  auto before = Load(bench, WritePlan(501, -1, 5).Build());
  for (auto* loaded : {&inside, &behind, &before}) {
    if (!loaded->ok()) return loaded->status();
    RETURN_IF_ERROR((*loaded)->Run());
    auto intact = (*loaded)->memory[0]->GuardIntact();
    if (!intact.ok()) return intact.status();
    RETURN_IF_ERROR(Expect(*intact == (loaded == &inside), "the guard's verdict"));
    RETURN_IF_ERROR(Expect((*loaded)->memory[0]->address() % 256 == 0, "alignment"));
  }
  return "4 bytes behind and before are seen";
}

Result Moves(Bench& bench) {
  auto loaded = Load(bench, WritePlan(100000, 0, 10).Build());
  if (!loaded.ok()) return loaded.status();
  Memory& memory = *loaded->memory[0];
  std::vector<int> values(100000);
  std::iota(values.begin(), values.end(), 5);
  RETURN_IF_ERROR(bench.device->Write(memory, values.data(), 400000));
  double microseconds = 0;
  for (int move = 0; move < 10; ++move) {
    const uint64_t address = memory.address();
    const base::Instant start = base::Now();
    RETURN_IF_ERROR(memory.Unmap());
    RETURN_IF_ERROR(Expect(memory.address() == 0, "no address while unmapped"));
    RETURN_IF_ERROR(memory.Map());
    microseconds = absl::ToDoubleMicroseconds(base::Now() - start);
    RETURN_IF_ERROR(Expect(memory.address() != address, "a new address"));
    RETURN_IF_ERROR(loaded->Bind());
    RETURN_IF_ERROR(loaded->Run());
  }
  auto got = loaded->Ints(0);
  if (!got.ok()) return got.status();
  for (int i = 0; i < 100000; ++i) {
    RETURN_IF_ERROR(Expect((*got)[i] == (i < 10 ? i : i + 5), "the content"));
  }
  auto intact = memory.GuardIntact();
  if (!intact.ok()) return intact.status();
  RETURN_IF_ERROR(Expect(*intact, "an intact guard"));
  return absl::StrFormat("10 moves, the last in %.0f us", microseconds);
}

Result Overrun(Bench& bench) {
  auto loaded = Load(bench, WritePlan(1024, 0, 1088).Build());
  if (!loaded.ok()) return loaded.status();
  const absl::Status status = loaded->Run();
  RETURN_IF_ERROR(
      Expect(absl::IsOutOfRange(status), absl::StrCat("OutOfRange, got ", status.ToString())));
  RETURN_IF_ERROR(Expect(absl::IsFailedPrecondition(loaded->Run()), "a lost device"));
  return std::string(status.message());
}

Result ReadOfUnmapped(Bench& bench) {
  auto secret = bench.device->Allocate(4096);
  if (!secret.ok()) return secret.status();
  v1::Plan plan =
      PlanBuilder(kWrite)
          .Buffer("y", 4096)
          .Launch("read", 1, 32, {Arg64(static_cast<int64_t>((*secret)->address())), Arg(0)})
          .Build();
  auto loaded = Load(bench, plan);
  if (!loaded.ok()) return loaded.status();
  RETURN_IF_ERROR(loaded->Run());  // mapped: it can be read
  RETURN_IF_ERROR((*secret)->Unmap());
  const absl::Status status = loaded->Run();
  RETURN_IF_ERROR(
      Expect(absl::IsOutOfRange(status), absl::StrCat("OutOfRange, got ", status.ToString())));
  return std::string(status.message());
}

Result Hang(Bench& bench) {
  auto loaded =
      Load(bench, PlanBuilder(kWrite).Buffer("y", 4).Launch("spin", 1, 1, {Arg(0)}).Build());
  if (!loaded.ok()) return loaded.status();
  const base::Instant start = base::Now();
  const absl::Status status = loaded->Run(absl::Milliseconds(300));
  RETURN_IF_ERROR(Expect(absl::IsDeadlineExceeded(status),
                         absl::StrCat("DeadlineExceeded, got ", status.ToString())));
  return absl::StrCat("after ", absl::FormatDuration(base::Now() - start));
}

Result Timing(Bench& bench) {
  const int64_t ints = bench.device->info().kind == "host" ? 1 << 16 : 64 << 20;
  auto loaded = Load(bench, WritePlan(ints, 0, ints).Build());
  if (!loaded.ok()) return loaded.status();
  std::vector<double> seconds;
  for (int round = 0; round < 15; ++round) {
    auto time = bench.device->Time(*loaded->program, kRunLimit);
    if (!time.ok()) return time.status();
    seconds.push_back(*time);
  }
  std::sort(seconds.begin(), seconds.end());
  auto tiny = Load(bench, WritePlan(256, 0, 256).Build());
  if (!tiny.ok()) return tiny.status();
  double tiny_best = 1;
  for (int round = 0; round < 15; ++round) {
    auto time = bench.device->Time(*tiny->program, kRunLimit);
    if (!time.ok()) return time.status();
    tiny_best = std::min(tiny_best, *time);
  }
  return absl::StrFormat(
      "%d MiB written: median %.1f us, spread %.1f us (%.3f TB/s); 1 KiB: %.2f us", ints * 4 >> 20,
      seconds[7] * 1e6, (seconds[13] - seconds[1]) * 1e6, ints * 4 / seconds[7] / 1e12,
      tiny_best * 1e6);
}

absl::StatusOr<double> MedianSeconds(Bench& bench, Program& program) {
  std::vector<double> seconds;
  for (int round = 0; round < 41; ++round) {
    auto time = bench.device->Time(program, kRunLimit);
    if (!time.ok()) return time.status();
    seconds.push_back(*time);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 20, seconds.end());
  return seconds[20];
}

// Where a plan's time goes, and that asking does not change what is timed afterwards.
Result Counting(Bench& bench) {
  const int64_t ints = bench.device->info().kind == "host" ? 1 << 16 : 64 << 20;
  const auto blocks = static_cast<uint32_t>(ints / 256);
  auto loaded = Load(bench, PlanBuilder(kWrite)
                                .Buffer("y", ints * 4)
                                .Buffer("z", 1024)
                                .Launch("write", blocks, 256, {Arg(0), Arg64(0), Arg64(ints)})
                                .Launch("read", 1, 256, {Arg(0), Arg(1)})
                                .Build());
  if (!loaded.ok()) return loaded.status();
  auto tiny = Load(bench, WritePlan(256, 0, 256).Build());
  if (!tiny.ok()) return tiny.status();
  RETURN_IF_ERROR(loaded->Run());
  auto before = MedianSeconds(bench, *loaded->program);
  auto tiny_before = MedianSeconds(bench, *tiny->program);
  auto launches = bench.device->TimeLaunches(*loaded->program, kRunLimit);
  for (const absl::Status& status : {before.status(), tiny_before.status(), launches.status()}) {
    RETURN_IF_ERROR(status);
  }
  RETURN_IF_ERROR(Expect(launches->size() == 2 && (*launches)[1] > 0, "a time for each launch"));
  std::string text = absl::StrFormat("%.2f us: %.2f and %.2f us", *before * 1e6,
                                     (*launches)[0] * 1e6, (*launches)[1] * 1e6);
  base::Instant start = base::Now();
  auto first = bench.device->Count(*loaded->program, kRunLimit);
  if (!first.ok()) return absl::StrCat(text, "; no counters: ", first.status().message());
  const double first_ms = absl::ToDoubleMilliseconds(base::Now() - start);
  start = base::Now();
  auto counters = bench.device->Count(*loaded->program, kRunLimit);
  if (!counters.ok()) return counters.status();
  const double again_ms = absl::ToDoubleMilliseconds(base::Now() - start);
  RETURN_IF_ERROR(
      Expect(counters->size() == 2 && (*counters)[0] && (*counters)[1], "counters of each launch"));
  const v1::Counters& c = *(*counters)[0];
  RETURN_IF_ERROR(
      Expect(c.dram_written_bytes() > 2.0 * static_cast<double>(ints) &&
                 c.dram_written_bytes() < 6.0 * static_cast<double>(ints),
             absl::StrCat("as many bytes written as there are, got ", c.ShortDebugString())));
  auto after = MedianSeconds(bench, *loaded->program);
  auto tiny_after = MedianSeconds(bench, *tiny->program);
  for (const absl::Status& status : {after.status(), tiny_after.status()}) RETURN_IF_ERROR(status);
  for (const auto& [then, now] : {std::pair(*before, *after), {*tiny_before, *tiny_after}}) {
    RETURN_IF_ERROR(Expect(SameTime(then * 1e6, now * 1e6),
                           absl::StrFormat("the times of before the counting: %.2f us, got %.2f us",
                                           then * 1e6, now * 1e6)));
  }
  return absl::StrFormat(
      "%s; counting %.0f ms, again %.0f ms: %s; read: %s; timed before and after: %.2f and %.2f "
      "us, "
      "1 KiB %.2f and %.2f us",
      text, first_ms, again_ms, c.ShortDebugString(), (*counters)[1]->ShortDebugString(),
      *before * 1e6, *after * 1e6, *tiny_before * 1e6, *tiny_after * 1e6);
}

// A kernel may ask the L2 cache to keep what it reads; it must not find it there the next time. The
// same kernel reads memory that it has read before, and memory that it has not.
Result KeptLines(Bench& bench) {
  if (bench.device->info().kind == "host") return std::string("not of a host");
  constexpr int64_t kBytes = 16 << 20;  // a good part of what a cache keeps if asked
  constexpr size_t kRounds = 9;
  const v1::Plan plan = PlanBuilder(R"(
extern "C" __global__ void keep(const uint4* x, unsigned* y, long long n) {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
  unsigned sum = 0;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
    uint4 v;
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(x + i), "l"(policy));
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 1) *y = sum;
})")
                            .Buffer("x", kBytes)
                            .Buffer("y", 4)
                            .Launch("keep", 1056, 256, {Arg(0), Arg(1), Arg64(kBytes / 16)})
                            .Build();
  // All of them stay: memory that is freed and given out again would have been read before.
  std::vector<Loaded> all;
  std::vector<double> first, again;
  for (size_t round = 0; round < kRounds; ++round) {
    auto loaded = Load(bench, plan);
    if (!loaded.ok()) return loaded.status();
    auto time = bench.device->Time(*loaded->program, kRunLimit);
    if (!time.ok()) return time.status();
    first.push_back(*time);
    all.push_back(*std::move(loaded));
  }
  for (size_t round = 0; round < kRounds; ++round) {
    auto time = bench.device->Time(*all.back().program, kRunLimit);
    if (!time.ok()) return time.status();
    again.push_back(*time);
  }
  std::sort(first.begin(), first.end());
  std::sort(again.begin(), again.end());
  const std::string found =
      absl::StrFormat("16 MiB read with evict_last in %.1f us at first, %.1f us again",
                      first[kRounds / 2] * 1e6, again[kRounds / 2] * 1e6);
  RETURN_IF_ERROR(Expect(again[kRounds / 2] > 0.93 * first[kRounds / 2],
                         absl::StrCat("nothing kept over the flush: ", found)));
  return found;
}

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
  wait(come, 0);
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
    auto binary = bench.compiler->Compile(
        absl::StrCat("#include <", name, ">\nextern \"C\" __global__ void f() {}\n"),
        kCompileLimit);
    if (!binary.ok())
      return absl::UnknownError(absl::StrCat(name, ": ", binary.status().message()));
    milliseconds = std::max(milliseconds, binary->report.compile_ms());
  }
  return absl::StrFormat("slowest %.0f ms", milliseconds);
}

// ---- memory of another process
// ------------------------------------------------------------------------

constexpr int kForeignInts = 1000;

// The other process: owns memory, says how to find it, and lives until its input ends.
int OwnMemory(const Options& options) {
  std::vector<int> values(kForeignInts);
  std::iota(values.begin(), values.end(), 0);
  std::string handle;
  const std::string name = absl::StrCat("/warpsmith-device-check-", getpid());
  if (options.device == "host") {
    const int fd = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || write(fd, values.data(), kForeignInts * 4) != kForeignInts * 4) return 1;
    handle = name;
  } else {
    auto device = MakeDevice(options.device);  // makes its context current
    auto driver = cuda::LoadDriver();
    if (!device.ok() || !driver.ok()) return 1;
    cuda::Address address = 0;
    cuda::IpcHandle ipc;
    if ((*driver)->MemAlloc(&address, kForeignInts * 4) != 0 ||
        (*driver)->MemcpyHtoDAsync(address, values.data(), kForeignInts * 4, nullptr) != 0 ||
        (*driver)->StreamSynchronize(nullptr) != 0 ||
        (*driver)->IpcGetMemHandle(&ipc, address) != 0) {
      return 1;
    }
    handle.assign(ipc.bytes, sizeof(ipc.bytes));
    std::cout << absl::BytesToHexString(handle) << std::endl;
    std::cin.get();
    return 0;
  }
  std::cout << absl::BytesToHexString(handle) << std::endl;
  std::cin.get();
  shm_unlink(name.c_str());
  return 0;
}

Result Foreign(Bench& bench) {
  int to_child[2], from_child[2];
  if (pipe(to_child) != 0 || pipe(from_child) != 0) return absl::UnknownError("no pipe");
  const std::string device = bench.options.device;
  const pid_t child = fork();
  if (child == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    close(to_child[1]);
    execl("/proc/self/exe", "warpsmith-device-check", "--device", device.c_str(), "--own-memory",
          nullptr);
    _exit(127);
  }
  close(to_child[0]);
  close(from_child[1]);
  std::string hex;
  for (char c; read(from_child[0], &c, 1) == 1 && c != '\n';) hex += c;
  const auto copy = [&]() -> Result {
    RETURN_IF_ERROR(Expect(!hex.empty(), "a handle from the other process"));
    auto memory = bench.device->Allocate(400);
    if (!memory.ok()) return memory.status();
    int got[100] = {};
    for (int round = 0; round < 3; ++round) {
      RETURN_IF_ERROR(
          bench.device->CopyFromForeign(absl::HexStringToBytes(hex), 80, **memory, 400));
      RETURN_IF_ERROR(bench.device->Read(**memory, got, 400));
      for (int i = 0; i < 100; ++i) RETURN_IF_ERROR(Expect(got[i] == i + 20, "the values"));
    }
    return "400 bytes, three times";
  };
  Result result = copy();
  close(to_child[1]);
  close(from_child[0]);
  waitpid(child, nullptr, 0);
  return result;
}

// ---- the table
// ----------------------------------------------------------------------------------------

const struct {
  const char* name;
  Result (*run)(Bench&);
} kCases[] = {
    {"info", ItsName},
    {"headers compile", Headers},
    {"map, fill, copy", MapFillCopy},
    {"guard bands", GuardBands},
    {"unmap and map", Moves},
    {"overrun faults", Overrun},
    {"read of unmapped memory", ReadOfUnmapped},
    {"hang", Hang},
    {"graph timing", Timing},
    {"launches and counters", Counting},
    {"kept lines", KeptLines},
    {"large shared memory", BigSharedMemory},
    {"cooperative launch", Cooperative},
    {"clusters", Clusters},
    {"tensor maps", TensorMaps},
    {"programmatic launch", Programmatic},
    {"refusals", Refusals},
    {"memory of another process", Foreign},
    {"roof", Roof},
};

int RunOne(const Options& options) {
  Bench bench;
  bench.options = options;
  Result result = absl::NotFoundError("no such case");
  auto device = MakeDevice(options.device, options.nvrtc);
  auto compiler = device.ok() ? MakeCompiler((*device)->info().arch, options.cache, options.nvrtc)
                              : absl::StatusOr<std::unique_ptr<Compiler>>(device.status());
  if (!compiler.ok()) {
    result = compiler.status();
  } else {
    bench.device = *std::move(device);
    bench.compiler = *std::move(compiler);
    for (const auto& [name, run] : kCases) {
      if (options.only == name) result = run(bench);
    }
  }
  std::cout << (result.ok() ? *result : result.status().ToString()) << std::endl;
  // Without destructors: the device may be lost.
  _exit(result.ok() ? 0 : 1);
}

int RunAll(const Options& options) {
  int failures = 0;
  for (const auto& entry : kCases) {
    std::vector<std::string> command = {"/proc/self/exe", "--device", options.device, "--cache",
                                        options.cache,    "--case",   entry.name};
    if (!options.nvrtc.empty()) command.insert(command.end(), {"--nvrtc", options.nvrtc});
    const base::Instant start = base::Now();
    const auto result = RunProcess(command, kCaseLimit, /*memory_bytes=*/0);
    const bool passed = result.ok() && result->exit_code == 0;
    failures += !passed;
    std::string text = result.ok() ? result->output : result.status().ToString();
    if (result.ok() && result->exit_code > 1) {
      absl::StrAppend(&text, "exit status ", result->exit_code);
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::printf("%s  %-27s %6.0f ms  %s\n", passed ? "pass" : "FAIL", entry.name,
                absl::ToDoubleMilliseconds(base::Now() - start), text.c_str());
    std::fflush(stdout);
  }
  return failures;
}

}  // namespace
}  // namespace warpsmith::device

int main(int argc, char** argv) {
  warpsmith::device::Options options;
  bool own_memory = false;
  CLI::App app{"Checks that a device does what Warpsmith needs of it."};
  app.add_option("--device", options.device, "cuda:0, ... or host")->capture_default_str();
  app.add_option("--nvrtc", options.nvrtc, "path of libnvrtc.so; looked for by default");
  app.add_option("--cache", options.cache, "folder for compiled objects")->capture_default_str();
  app.add_option("--case", options.only, "run this case alone, in this process");
  app.add_flag("--own-memory", own_memory, "used by a case")->group("");
  CLI11_PARSE(app, argc, argv);
  if (own_memory) return warpsmith::device::OwnMemory(options);
  if (!options.only.empty()) return warpsmith::device::RunOne(options);
  return warpsmith::device::RunAll(options);
}
