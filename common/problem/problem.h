// Problems and problem sets as files, and the checks that every other part relies on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/problem.pb.h"

namespace warpsmith::problem {

// Limits; more is an InvalidArgument that names them.
inline constexpr int kMaxProblems = 10000;
inline constexpr int kMaxWorkloads = 64;
inline constexpr int kMaxNodes = 4096;

// Reads a problem set (protobuf JSON, by file name; unknown fields are errors) and validates it.
absl::StatusOr<v1::ProblemSet> LoadSet(const std::string& path);
// Writes it atomically (temporary file, rename), two-space indented.
absl::Status SaveSet(const v1::ProblemSet& set, const std::string& path);

// Names, workloads, every graph under every workload. Errors read
// `problem 'softmax_rows', workload 'wide': line 3: axis ...`.
absl::Status Validate(const v1::ProblemSet& set);
absl::Status Validate(const v1::Problem& problem);

// The problem with these of its workloads alone, in its own order. InvalidArgument: it has none of
// that name.
absl::StatusOr<v1::Problem> WithWorkloads(const v1::Problem& problem,
                                          const std::vector<std::string>& names);

// The workload's graph. The problem must be valid for OK.
absl::StatusOr<graph::Graph> GraphOf(const v1::Problem& problem, const v1::Workload& workload);

// sha256 (hex) of what decides the answer: graph text, workloads, accuracy, module source.
std::string Digest(const v1::Problem& problem);

}  // namespace warpsmith::problem
