#include "cli/export/files.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/problem/problem.h"

namespace warpsmith::exporter {

absl::Status CheckSolution(const v1::Problem& problem, const v1::Solution& solution) {
  if (!solution.problem_digest().empty() && solution.problem_digest() != problem::Digest(problem)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "problem '", problem.name(), "': the solution was made for another version of it"));
  }
  if (solution.plans_size() == 0 || solution.plans_size() != problem.workloads_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("problem '", problem.name(), "': the solution has ", solution.plans_size(),
                     " plans for ", problem.workloads_size(), " workloads"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteOut(OutFolder& folder, const std::string& path,
                                     const std::string& text) {
  const std::filesystem::path full = std::filesystem::path(folder.path) / path;
  if (!folder.written.insert(path).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("another problem of this run is in ", full.string(), ": rename one of them"));
  }
  if (auto status = base::WriteFileAtomically(full.string(), text); !status.ok()) return status;
  return full.string();
}

}  // namespace warpsmith::exporter
