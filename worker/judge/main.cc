// warpsmith-judge: the process that runs candidates. Started by the worker with one end of a
// socketpair; with --self-check it judges the built-in set of cheats and faults instead.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "common/base/install.h"
#include "worker/device/shown.h"
#include "worker/judge/self_check.h"
#include "worker/judge/server.h"
#include "worker/judge/time_check.h"
#include "worker/oracle/native_device.h"
#ifdef WARPSMITH_TORCH
#include "worker/oracle/torch_oracle.h"
#endif

namespace {

using namespace warpsmith;

struct Flags {
  std::string device = "host";
  int fd = -1;
  bool self_check = false;
  int64_t memory_budget = 0;
  std::string python, python_path, cache_dir, nvrtc, cublaslt;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "warpsmith-judge: %s\n", std::string(status.message()).c_str());
  return 1;
}

// PyTorch's oracle where it is asked for and can be had, else the native one.
class Oracles {
 public:
  Oracles(const Flags& flags, device::Device& device, device::Compiler& compiler)
      : flags_(flags), device_(device), compiler_(compiler) {}

  absl::StatusOr<std::unique_ptr<oracle::Oracle>> Make(const v1::Problem& problem,
                                                       const v1::Workload& workload,
                                                       const graph::Graph& graph, bool use_torch) {
    if (use_torch && problem.has_torch()) {
      auto torch = MakeTorch(problem, workload, graph);
      if (torch.ok()) return torch;
      std::fprintf(stderr, "warpsmith-judge: problem '%s': the native oracle stands in: %s\n",
                   problem.name().c_str(), std::string(torch.status().message()).c_str());
    }
    return oracle::MakeNativeOracle(graph, compiler_, device_.info());
  }

 private:
#ifdef WARPSMITH_TORCH
  absl::StatusOr<std::unique_ptr<oracle::Oracle>> MakeTorch(const v1::Problem& problem,
                                                            const v1::Workload& workload,
                                                            const graph::Graph& graph) {
    oracle::TorchOracleOptions options;
    options.workload = workload.name();
    options.python = flags_.python;
    options.python_path = flags_.python_path;
    const device::ShownCard shown = device::ShowAlone(flags_.device);
    options.device = flags_.device == "host" ? "cpu" : shown.name;
    options.environment = shown.environment;
    options.cache_dir = flags_.cache_dir;
    options.memory_bytes = flags_.memory_budget;
    options.clock = base::ProgramFolder() + "/libwarpsmith_clock.so";
    if (flags_.python.empty()) return absl::FailedPreconditionError("no --python was given");
    if (child_ == nullptr) {
      if (!refused_.ok()) return refused_;
      auto child = oracle::StartTorch(options);
      if (!child.ok()) return refused_ = child.status();
      child_ = *std::move(child);
    }
    options.child = child_;
    return oracle::MakeTorchOracle(options, problem, graph);
  }
  std::shared_ptr<oracle::TorchChild> child_;
  absl::Status refused_;
#else
  absl::StatusOr<std::unique_ptr<oracle::Oracle>> MakeTorch(const v1::Problem&, const v1::Workload&,
                                                            const graph::Graph&) {
    return absl::UnimplementedError("this judge was built without the PyTorch oracle");
  }
#endif
  const Flags& flags_;
  device::Device& device_;
  device::Compiler& compiler_;
};

// The device with all that a judge needs, in this process.
struct Bench {
  static absl::StatusOr<std::unique_ptr<Bench>> Make(const Flags& flags) {
    auto bench = std::make_unique<Bench>();
    auto device = device::MakeDevice(flags.device, flags.nvrtc, flags.cublaslt);
    if (!device.ok()) return device.status();
    bench->device = *std::move(device);
    bench->device->LimitMemory(flags.memory_budget);
    auto compiler = device::MakeCompiler(bench->device->info().arch, flags.cache_dir, flags.nvrtc);
    if (!compiler.ok()) return compiler.status();
    bench->compiler = *std::move(compiler);
    bench->oracles = std::make_unique<Oracles>(flags, *bench->device, *bench->compiler);
    return bench;
  }
  judge::OracleFactory factory() {
    return
        [this](const v1::Problem& problem, const v1::Workload& workload, const graph::Graph& graph,
               bool use_torch) { return oracles->Make(problem, workload, graph, use_torch); };
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Compiler> compiler;
  std::unique_ptr<Oracles> oracles;
};

int SelfCheck(const Flags& flags) {
  const int cheats = judge::SelfCheck(flags.device, flags.cache_dir, flags.nvrtc);
  auto bench = Bench::Make(flags);
  if (!bench.ok()) return Fail(bench.status());
  const int differ = judge::CheckTimes(*(*bench)->device, *(*bench)->compiler, (*bench)->factory());
  return cheats == 0 && differ == 0 ? 0 : 1;
}

int Run(const Flags& flags) {
  auto bench = Bench::Make(flags);
  if (!bench.ok()) return Fail(bench.status());
  judge::Judge judge(*(*bench)->device, *(*bench)->compiler, (*bench)->factory(), judge::Options());
  judge::Channel channel(flags.fd);
  judge::ExitWithParent(flags.fd);
  const int code = judge::Serve(channel, judge);
  // A device with a kernel that hangs cannot be taken down in an orderly way.
  if (code != 0) _exit(code);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Verifies and times candidates; started by warpsmith-worker."};
  app.add_option("--device", flags.device, "host, cuda:0, ...")->capture_default_str();
  app.add_option("--fd", flags.fd, "the worker's socket");
  app.add_flag("--self-check", flags.self_check,
               "judge a set of cheats and faults on the device, time the same work as baseline "
               "and as candidate, and print what became of them");
  app.add_option("--python", flags.python, "interpreter for the PyTorch oracle");
  app.add_option("--python-path", flags.python_path, "folder that has warpsmith_torch/");
  app.add_option("--memory-budget", flags.memory_budget,
                 "as if the device had only so much, e.g. 80GB; all it has if not given")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  app.add_option("--cache-dir", flags.cache_dir, "for compiled host kernels and baselines");
  app.add_option("--nvrtc", flags.nvrtc, "path of libnvrtc.so, where it is not found by itself");
  app.add_option("--cublaslt", flags.cublaslt, "path of libcublasLt.so, likewise");
  CLI11_PARSE(app, argc, argv);
  if (flags.cache_dir.empty()) {
    std::error_code none;
    flags.cache_dir = (std::filesystem::temp_directory_path(none) /
                       ("warpsmith-judge-" + std::to_string(getuid())))
                          .string();
  }
  if (flags.self_check) return SelfCheck(flags);
  if (flags.fd < 0) {
    std::fprintf(stderr, "warpsmith-judge: needs --fd (the worker gives it) or --self-check\n");
    return 2;
  }
  return Run(flags);
}
