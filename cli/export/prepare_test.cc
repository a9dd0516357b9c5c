// Exports of solutions that prepare constant weights.
#include "cli/export/cuda_source.h"
#include "cli/export/testing.h"

namespace warpsmith::exporter {
namespace {

constexpr char kLinear[] = R"PY(import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) @ (2 * self.second.weight)


def get_inputs():
    return [torch.rand(128, 256)]


def get_init_inputs():
    return [256]
)PY";

v1::Problem LinearProblem() {
  v1::Problem problem;
  problem.set_name("Linear");
  for (const char* line :
       {"input x: f32[128, 256] ~ normal", "param first.weight: f32[256, 256] ~ normal",
        "param first.bias: f32[256] ~ normal", "param second.weight: f32[256, 256] ~ normal",
        "s: f32[m: 128, n: 256] = sum[k: 256](x[m, k] * first.weight[n, k])",
        "t: f32[m: 128, n: 256] = s[m, n] + first.bias[n]",
        "w: f32[k: 256, n: 256] = second.weight[k, n] * 2.0",
        "y: f32[m: 128, n: 256] = sum[k: 256](t[m, k] * w[k, n])", "output y"}) {
    problem.add_graph(line);
  }
  problem.add_workloads()->set_name("default");
  problem.mutable_torch()->set_path("level1/Linear.py");
  problem.mutable_torch()->set_source(kLinear);
  problem.set_weights_constant(true);
  return problem;
}

// A group of weights alone, and two products whose second operands are packed.
Part LinearPart(const v1::Problem& problem) {
  Part part = PartOf(problem, 0, /*op_by_op=*/true);
  v1::Schedule& schedule = *part.solution.mutable_schedule();
  for (v1::Group& group : *schedule.mutable_groups()) {
    if (group.roots(0) == "s" || group.roots(0) == "y")
      group.mutable_contract()->set_math(v1::PRODUCT_FP16X3);
  }
  const auto graph = problem::GraphOf(problem, problem.workloads(0));
  REQUIRE(graph.ok());
  auto plan = codegen::Lower(*graph, schedule, codegen::Target());
  INFO(plan.status());
  REQUIRE(plan.ok());
  REQUIRE(plan->prepare().steps_size() == 3);
  plan->set_workload("default");
  *part.solution.mutable_plans(0) = *plan;
  return part;
}

TEST_CASE("a KernelBench file that prepares its weights", "[export]") {
  const Folder folder("prepare");
  OutFolder out{folder.path, {}};
  const v1::Problem problem = LinearProblem();
  const auto path = Exported(ExportKernelBench, problem, {LinearPart(problem)}, out);
  INFO(path.status());
  REQUIRE(path.ok());
  const std::string text = Read(*path);
  CHECK(Has(text, "Weights are taken for constants"));
  CHECK(Has(text, "\"prepare\": {"));
  TryInPython(folder, kLinear, *path);
}

TEST_CASE("plain CUDA that prepares weights", "[export]") {
  const Folder folder("plain_prepare");
  OutFolder out{folder.path, {}};
  const v1::Problem problem = LinearProblem();
  const auto path = Exported(ExportPlain, problem, {LinearPart(problem)}, out);
  INFO(path.status());
  REQUIRE(path.ok());
  const std::string text = Read(*path);
  CHECK(Has(text, "extern \"C\" int Linear_prepare(void* const* buffers, cudaStream_t stream"));
  CHECK(Has(text, "extern \"C\" int Linear_run(void* const* buffers, cudaStream_t stream"));
  CHECK(Has(text, "//   int Linear_prepare(void* const* buffers"));
  CHECK(Has(text, "  w  f32[256, 256]  prepared, read"));
  CHECK(Has(text, "  w  f32[256, 256]  output, every element is written"));
  CheckCompiles(*path, folder);
}

}  // namespace
}  // namespace warpsmith::exporter
