// warpsmith-device-check --device cuda:0
//
// Shows that a device does what device.h says: every case runs in a process of its own, since some
// of them leave the device unusable. Prints a table; the exit status is the number of failures.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "worker/device/check/cases.h"
#include "worker/device/process.h"

namespace warpsmith::device {
namespace {

constexpr absl::Duration kCaseLimit = absl::Seconds(60);

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
    {"windows", Windows},
    {"programmatic launch", Programmatic},
    {"lanes", Lanes},
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
