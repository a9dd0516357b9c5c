// What a task's work is called, for people and in ids.
#pragma once

#include <string>

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::problem {

// Stands in no name: of runs, problems, workloads and architectures.
inline constexpr char kWorkloadMark[] = ":";

// "softmax_rows"; "softmax_rows:wide" where the problem has several workloads.
inline std::string NameOf(const v1::Task& task) {
  if (task.workload().empty()) return task.problem_name();
  return task.problem_name() + kWorkloadMark + task.workload();
}

}  // namespace warpsmith::problem
