// Exports a problem set as KernelBench files without any search: each problem's default schedule,
// compiled for the architecture. What their calls cost, bench/export/call.py measures.
//
//   warpsmith import kernelbench bench/export --level 1 --out set.json
//   warpsmith-bench-export set.json --out exports
//   python bench/export/call.py bench/export exports
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/export/cubins.h"
#include "cli/export/export.h"
#include "common/problem/problem.h"
#include "worker/codegen/codegen.h"

namespace warpsmith {
namespace {

absl::StatusOr<v1::Solution> DefaultSolution(const v1::Problem& problem,
                                             const codegen::Target& target, bool op_by_op) {
  v1::Solution solution;
  solution.set_arch(target.arch);
  for (const v1::Workload& workload : problem.workloads()) {
    auto graph = problem::GraphOf(problem, workload);
    if (!graph.ok()) return graph.status();
    auto rewritten = codegen::Rewrite(*graph, {});
    if (!rewritten.ok()) return rewritten.status();
    const v1::Schedule schedule = op_by_op ? codegen::OpByOpSchedule(*rewritten, target)
                                           : codegen::DefaultSchedule(*rewritten, target);
    auto plan = codegen::Lower(*rewritten, schedule, target);
    if (!plan.ok()) return plan.status();
    plan->set_workload(workload.name());
    *solution.add_plans() = *std::move(plan);
  }
  return solution;
}

absl::StatusOr<std::string> Export(const v1::Problem& problem, const codegen::Target& target,
                                   bool op_by_op, const std::string& nvrtc,
                                   exporter::OutFolder& out) {
  auto solution = DefaultSolution(problem, target, op_by_op);
  if (!solution.ok()) return solution.status();
  auto cubins = exporter::CompileCubins(*solution, nvrtc);
  if (!cubins.ok()) return cubins.status();
  auto kernels = exporter::Gather(problem, {{*solution, *cubins}});
  if (!kernels.ok()) return kernels.status();
  return exporter::ExportKernelBench(*kernels, out);
}

int Run(const std::string& problems, const std::string& arch, bool op_by_op,
        const std::string& nvrtc, const std::string& folder) {
  auto set = problem::LoadSet(problems);
  if (!set.ok()) {
    std::fprintf(stderr, "%s\n", std::string(set.status().message()).c_str());
    return 1;
  }
  codegen::Target target;
  target.arch = arch;
  exporter::OutFolder out{folder, {}};
  int failures = 0;
  for (const v1::Problem& problem : set->problems()) {
    auto path = Export(problem, target, op_by_op, nvrtc, out);
    failures += !path.ok();
    std::printf("%s\n", path.ok() ? path->c_str() : path.status().ToString().c_str());
  }
  return failures > 0 ? 2 : 0;
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  std::string problems, arch = "sm_90a", nvrtc, out = "exports";
  bool op_by_op = false;
  CLI::App app("Exports default schedules as KernelBench files");
  app.add_option("problems", problems, "problem set (JSON) of PyTorch modules")->required();
  app.add_option("--arch", arch)->capture_default_str();
  app.add_option("--nvrtc", nvrtc, "path of libnvrtc.so, where it is not found by itself");
  app.add_option("--out", out, "folder to write to")->capture_default_str();
  app.add_flag("--op-by-op", op_by_op, "one kernel for each node");
  CLI11_PARSE(app, argc, argv);
  return warpsmith::Run(problems, arch, op_by_op, nvrtc, out);
}
