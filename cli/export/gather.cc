#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/export/export.h"
#include "common/problem/problem.h"

namespace warpsmith::exporter {
namespace {

// A solution says which problem it was made for by the digest of it with the workloads it is for.
bool IsFor(const v1::Problem& problem, const v1::Solution& solution) {
  std::vector<std::string> names;
  for (const v1::Plan& plan : solution.plans()) names.push_back(plan.workload());
  const auto part = problem::WithWorkloads(problem, names);
  if (!part.ok()) return false;
  return solution.problem_digest().empty() || solution.problem_digest() == problem::Digest(*part);
}

}  // namespace

absl::StatusOr<Kernels> Gather(const v1::Problem& problem, const std::vector<Part>& parts) {
  const auto wrong = [&](const auto&... what) {
    return absl::FailedPreconditionError(absl::StrCat("problem '", problem.name(), "': ", what...));
  };
  Kernels kernels;
  kernels.problem = problem;
  std::map<std::string, Kernels::One> by_workload;
  for (const Part& part : parts) {
    const v1::Solution& solution = part.solution;
    if (!IsFor(problem, solution)) {
      return wrong("the solution was made for another version of it");
    }
    if (kernels.arch.empty()) kernels.arch = solution.arch();
    if (solution.arch() != kernels.arch) {
      return wrong("it has solutions for '", kernels.arch, "' and for '", solution.arch(), "'");
    }
    for (int i = 0; i < solution.plans_size(); ++i) {
      const v1::Plan& plan = solution.plans(i);
      const bool has_cubin = i < static_cast<int>(part.cubins.size());
      Kernels::One one{{}, plan, has_cubin ? part.cubins[i] : ""};
      if (by_workload.emplace(plan.workload(), std::move(one)).second) continue;
      return wrong("it has two plans for workload '", plan.workload(), "'");
    }
  }
  if (by_workload.empty()) return wrong("the solution has no plan");
  for (const v1::Workload& workload : problem.workloads()) {
    auto found = by_workload.find(workload.name());
    if (found == by_workload.end()) {
      kernels.missing.push_back(workload.name());
      continue;
    }
    found->second.workload = workload;
    kernels.workloads.push_back(std::move(found->second));
  }
  return kernels;
}

}  // namespace warpsmith::exporter
