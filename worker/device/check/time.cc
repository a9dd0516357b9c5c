// What takes how long, and what never ends.
#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "worker/device/check/cases.h"
#include "worker/device/same_time.h"

namespace warpsmith::device {

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

static absl::StatusOr<double> MedianSeconds(Bench& bench, Program& program,
                                            Launching how = Launching::kHidden) {
  std::vector<double> seconds;
  for (int round = 0; round < 41; ++round) {
    auto time = bench.device->Time(program, kRunLimit, how);
    if (!time.ok()) return time.status();
    seconds.push_back(*time);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 20, seconds.end());
  return seconds[20];
}

// A plan whose time on an idle device is that of launching it.
static absl::StatusOr<Loaded> ManyLaunches(Bench& bench) {
  PlanBuilder plan(kWrite);
  plan.Buffer("y", 1024);
  for (int i = 0; i < 24; ++i) plan.Launch("write", 1, 256, {Arg(0), Arg64(0), Arg64(256)});
  auto loaded = Load(bench, plan.Build());
  if (loaded.ok()) RETURN_IF_ERROR(loaded->Run());
  return loaded;
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
  auto many = ManyLaunches(bench);
  if (!many.ok()) return many.status();
  auto many_before = MedianSeconds(bench, *many->program, Launching::kCounted);
  for (const absl::Status& status :
       {before.status(), tiny_before.status(), launches.status(), many_before.status()}) {
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
  auto many_after = MedianSeconds(bench, *many->program, Launching::kCounted);
  // And counters can be read again after that.
  auto later = bench.device->Count(*loaded->program, kRunLimit);
  for (const absl::Status& status :
       {after.status(), tiny_after.status(), many_after.status(), later.status()}) {
    RETURN_IF_ERROR(status);
  }
  for (const auto& [then, now] :
       {std::pair(*before, *after), {*tiny_before, *tiny_after}, {*many_before, *many_after}}) {
    RETURN_IF_ERROR(Expect(SameTime(then * 1e6, now * 1e6),
                           absl::StrFormat("the times of before the counting: %.2f us, got %.2f us",
                                           then * 1e6, now * 1e6)));
  }
  return absl::StrFormat(
      "%s; counting %.0f ms, again %.0f ms: %s; read: %s; timed before and after: %.2f and %.2f "
      "us, "
      "1 KiB %.2f and %.2f us, 24 launches on an idle device %.2f and %.2f us",
      text, first_ms, again_ms, c.ShortDebugString(), (*counters)[1]->ShortDebugString(),
      *before * 1e6, *after * 1e6, *tiny_before * 1e6, *tiny_after * 1e6, *many_before * 1e6,
      *many_after * 1e6);
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

}  // namespace warpsmith::device
