// What code generation makes of a problem set without any search: for each workload the default
// schedule and the op-by-op one, compiled and timed on one device, beside the speed of light.
// Answers are not checked here; that is the judge's work.
//
//   warpsmith-bench-codegen problems/starter.json --device cuda:0 --only softmax
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/graph/graph.h"
#include "common/problem/problem.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"
#include "worker/device/device.h"

namespace warpsmith {
namespace {

struct Options {
  std::string problems;
  std::string device = "host";
  std::string only;
  std::string dump;  // folder for the sources
  bool op_by_op = false;
  int samples = 9;
  int moves = 0;  // times that all memory is moved to other addresses and timed again
};

codegen::Target TargetOf(const device::DeviceInfo& info) {
  codegen::Target target;
  target.arch = info.arch;
  target.sm_count = info.sm_count;
  target.max_threads_per_sm = info.max_threads_per_sm;
  target.max_blocks_per_sm = info.max_blocks_per_sm;
  target.registers_per_sm = info.registers_per_sm;
  target.shared_per_sm = info.shared_per_sm;
  target.shared_per_block = info.shared_per_block;
  target.l2_bytes = info.l2_bytes;
  target.max_cluster = info.max_cluster;
  return target;
}

struct Measured {
  double seconds = 0;
  std::vector<double> moved;  // seconds after each move
  double compile_ms = 0;
  int registers = 0, spills = 0, launches = 0;
};

absl::StatusOr<Measured> Measure(device::Device& device, device::Compiler& compiler,
                                 const v1::Plan& plan, int samples, int moves) {
  const absl::Time start = absl::Now();
  auto binary = compiler.Compile(plan.source(), absl::Seconds(60));
  if (!binary.ok()) return binary.status();
  Measured measured;
  measured.compile_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  for (const auto& kernel : binary->report.kernels()) {
    measured.registers = std::max(measured.registers, kernel.registers());
    measured.spills = std::max(measured.spills, kernel.spill_bytes());
  }
  for (const auto& step : plan.steps()) measured.launches += step.has_launch();
  auto program = device.Load(plan, *binary);
  if (!program.ok()) return program.status();
  std::vector<std::unique_ptr<device::Memory>> memory;
  std::vector<device::Memory*> bound;
  for (const auto& buffer : plan.buffers()) {
    auto one = device.Allocate(buffer.bytes());
    if (!one.ok()) return one.status();
    // 1.0 in fp32 and small positive numbers in other types; indexes stay inside (zero).
    const bool integer = buffer.dtype() == "i64" || buffer.dtype() == "i32";
    if (auto s = device.Fill(**one, integer ? 0u : 0x3f800000u); !s.ok()) return s;
    bound.push_back(one->get());
    memory.push_back(std::move(*one));
  }
  if (auto s = (*program)->Bind(bound); !s.ok()) return s;
  if (auto s = device.Run(**program, absl::Seconds(20)); !s.ok()) return s;
  const auto median = [&]() -> absl::StatusOr<double> {
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      auto seconds = device.Time(**program, absl::Seconds(20));
      if (!seconds.ok()) return seconds.status();
      times.push_back(*seconds);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  };
  auto first = median();
  if (!first.ok()) return first.status();
  measured.seconds = *first;
  for (int move = 0; move < moves; ++move) {
    for (auto& one : memory) {
      if (auto s = one->Unmap(); !s.ok()) return s;
    }
    for (auto& one : memory) {
      if (auto s = one->Map(); !s.ok()) return s;
    }
    if (auto s = (*program)->Bind(bound); !s.ok()) return s;
    auto again = median();
    if (!again.ok()) return again.status();
    measured.moved.push_back(*again);
  }
  return measured;
}

int Run(const Options& options) {
  auto set = problem::LoadSet(options.problems);
  auto device = device::MakeDevice(options.device);
  if (!set.ok() || !device.ok()) {
    std::fprintf(stderr, "%s\n", (set.ok() ? device.status() : set.status()).ToString().c_str());
    return 1;
  }
  auto compiler = device::MakeCompiler((*device)->info().arch, "/tmp/warpsmith-bench-cache");
  auto rates = (*device)->MeasureRates();
  if (!compiler.ok() || !rates.ok()) {
    std::fprintf(stderr, "%s\n",
                 (compiler.ok() ? rates.status() : compiler.status()).ToString().c_str());
    return 1;
  }
  const graph::Roof roof{rates->bytes_per_second, rates->operations_per_second};
  std::printf("%s, %.2f TB/s, %.1f TFLOP/s fp32\n", (*device)->info().name.c_str(),
              roof.bytes_per_second / 1e12, roof.operations_per_second / 1e12);
  std::printf("%-36s %10s %10s %6s %4s %9s %5s %6s\n", "problem", "us", "light us", "share", "kern",
              "compile", "regs", "spill");
  const codegen::Target target = TargetOf((*device)->info());
  int failures = 0;
  for (const auto& problem : set->problems()) {
    if (!options.only.empty() && !absl::StrContains(problem.name(), options.only)) continue;
    for (const auto& workload : problem.workloads()) {
      const std::string label = absl::StrCat(problem.name(), "/", workload.name());
      auto graph = problem::GraphOf(problem, workload);
      absl::Status status = graph.status();
      if (graph.ok()) {
        const v1::Schedule schedule = options.op_by_op ? codegen::OpByOpSchedule(*graph, target)
                                                       : codegen::DefaultSchedule(*graph, target);
        auto rewritten = codegen::Rewrite(*graph, schedule.rewrites());
        auto plan = rewritten.ok() ? codegen::Lower(*rewritten, schedule, target)
                                   : absl::StatusOr<v1::Plan>(rewritten.status());
        status = plan.status();
        if (plan.ok()) {
          if (!options.dump.empty()) {
            std::string file =
                absl::StrCat(options.dump, "/", problem.name(), ".", workload.name());
            std::ofstream(file + ".cu") << plan->source();
            std::ofstream(file + ".txt") << schedule.DebugString();
          }
          auto measured = Measure(**device, **compiler, *plan, options.samples, options.moves);
          status = measured.status();
          if (measured.ok()) {
            const double light = graph::LightSeconds(graph::Count(*graph), roof);
            std::printf("%-36s %10.1f %10.1f %6.2f %4d %6.0f ms %5d %6d\n", label.c_str(),
                        measured->seconds * 1e6, light * 1e6, light / measured->seconds,
                        measured->launches, measured->compile_ms, measured->registers,
                        measured->spills);
            for (double moved : measured->moved) {
              std::printf("%36s %10.1f  moved\n", "", moved * 1e6);
            }
          }
        }
      }
      if (!status.ok()) {
        ++failures;
        std::printf("%-36s %s\n", label.c_str(),
                    std::string(status.message()).substr(0, 400).c_str());
      }
      std::fflush(stdout);
    }
  }
  return failures > 0 ? 2 : 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  warpsmith::Options options;
  CLI::App app("Times what code generation makes of a problem set without search");
  app.add_option("problems", options.problems, "problem set (JSON)")->required();
  app.add_option("--device", options.device, "host or cuda:N")->capture_default_str();
  app.add_option("--only", options.only, "problems whose name contains this");
  app.add_option("--dump", options.dump, "existing folder for sources and schedules");
  app.add_flag("--op-by-op", options.op_by_op, "one kernel for each node");
  app.add_option("--samples", options.samples, "timed runs")->capture_default_str();
  app.add_option("--moves", options.moves, "times again at other addresses")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(options);
}
