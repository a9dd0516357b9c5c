// What the formats share.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warpsmith/v1/problem.pb.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::exporter {

// FailedPrecondition: not a solution of this problem.
absl::Status CheckSolution(const v1::Problem& problem, const v1::Solution& solution);

// Writes `text` to out_dir/path atomically, making folders. Gives the path.
absl::StatusOr<std::string> WriteOut(const std::string& out_dir, const std::string& path,
                                     const std::string& text);

}  // namespace warpsmith::exporter
