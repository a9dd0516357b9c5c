// Solutions of several tasks of one problem, each with a schedule of its own, in one export.
#include <tuple>

#include "absl/strings/str_cat.h"
#include "cli/export/testing.h"
#include "common/problem/problem.h"

namespace warpsmith::exporter {
namespace {

// Softmax over rows, for three shapes: a task each.
v1::Problem SoftmaxProblem() {
  v1::Problem problem;
  problem.set_name("23_Softmax");
  for (const char* line :
       {"input x: f32[R, C] ~ normal", "param w: f32[C] ~ normal",
        "m: f32[r: R] = max[c: C](x[r, c])", "e: f32[r: R, c: C] = exp(x[r, c] - m[r])",
        "s: f32[r: R] = sum[c: C](e[r, c])", "y: f32[r: R, c: C] = e[r, c] / s[r] * w[c]",
        "output y", "output s"}) {
    problem.add_graph(line);
  }
  for (const auto& [name, rows, columns] :
       {std::tuple("narrow", 64, 16), {"wide", 2, 16}, {"never", 5, 16}}) {
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name(name);
    (*workload.mutable_dims())["R"] = rows;
    (*workload.mutable_dims())["C"] = columns;
  }
  problem.mutable_torch()->set_path("level1/23_Softmax.py");
  problem.mutable_torch()->set_source(R"PY(import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(16))

    def forward(self, x):
        e = (x - x.max(1, keepdim=True).values).exp()
        s = e.sum(1)
        return e / s[:, None] * self.w, s


def get_inputs():
    return [torch.rand(2, 16)]


def get_init_inputs():
    return []
)PY");
  return problem;
}

TEST_CASE("solutions of several tasks, each with its own schedule, become one file", "[export]") {
  const v1::Problem problem = SoftmaxProblem();
  REQUIRE(problem::Validate(problem).message() == "");
  // In another order than the problem's; nothing was found for the third.
  const std::vector<Part> parts = {PartOf(problem, 1, true), PartOf(problem, 0, false)};
  REQUIRE(parts[0].solution.plans(0).steps_size() > parts[1].solution.plans(0).steps_size());
  const auto kernels = Gather(problem, parts);
  REQUIRE(kernels.status().message() == "");
  REQUIRE(kernels->workloads.size() == 2);
  CHECK(kernels->workloads[0].workload.name() == "narrow");
  CHECK(kernels->workloads[0].cubin == "cubin of narrow");
  CHECK(kernels->workloads[1].workload.name() == "wide");
  CHECK(kernels->workloads[1].cubin == "cubin of wide");
  CHECK(kernels->missing == std::vector<std::string>{"never"});

  const Folder folder("gathered");
  OutFolder out{folder.path, {}};
  const auto path = ExportKernelBench(*kernels, out);
  REQUIRE(path.status().message() == "");
  const std::string text = Read(*path);
  CHECK(Has(text,
            "  narrow: x f32[64, 16]\n  wide: x f32[2, 16]\n\nThere is no kernel for: never\n"));
  TryInPython(folder, problem.torch().source(), *path);
  OutFolder plain{folder.path, {}};
  REQUIRE(ExportPlain(*kernels, plain).ok());
  CHECK(plain.written == std::set<std::string>{"k_23_Softmax_narrow.cu", "k_23_Softmax_wide.cu"});
}

TEST_CASE("solutions that do not belong together say why", "[export]") {
  const v1::Problem problem = SoftmaxProblem();
  const Part narrow = PartOf(problem, 0, false);
  const auto refused = [&](std::vector<Part> parts) {
    return std::string(Gather(problem, parts).status().message());
  };
  CHECK(refused({narrow}).empty());
  CHECK(Has(refused({}), "no plan"));
  CHECK(Has(refused({narrow, narrow}), "two plans for workload 'narrow'"));
  Part other = PartOf(problem, 1, false);
  other.solution.set_arch("sm_100a");
  CHECK(Has(refused({narrow, other}), "for 'sm_90a' and for 'sm_100a'"));
  other = narrow;
  other.solution.mutable_plans(0)->set_workload("wide");  // its digest says narrow
  CHECK(Has(refused({other}), "another version"));
  other.solution.clear_problem_digest();
  CHECK(refused({other}).empty());
  other.solution.mutable_plans(0)->set_workload("of no such name");
  CHECK(Has(refused({other}), "another version"));
  // One solution for all, as runs stored before have it: the digest is the problem's.
  Part whole = narrow;
  for (const int workload : {1, 2}) {
    *whole.solution.add_plans() = PartOf(problem, workload, false).solution.plans(0);
  }
  whole.solution.set_problem_digest(problem::Digest(problem));
  CHECK(Gather(problem, {whole})->missing.empty());
}

}  // namespace
}  // namespace warpsmith::exporter
