// What a task's work is called, for people and in ids.
#pragma once

#include <string>
#include <string_view>

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::problem {

// Stands in no name: of runs, problems, workloads and architectures.
inline constexpr char kWorkloadMark[] = ":";

// "softmax_rows"; "softmax_rows:wide" where the problem has several workloads.
inline std::string NameOf(const v1::Task& task) {
  if (task.workload().empty()) return task.problem_name();
  return task.problem_name() + kWorkloadMark + task.workload();
}

// What ids lead back to: the run of a task, "r1/NAME@ARCH", and the lease of a trial,
// "LEASE/NUMBER".
inline std::string_view RunOf(std::string_view task_id) {
  return task_id.substr(0, task_id.find('/'));
}
inline std::string_view LeaseOf(std::string_view trial_id) {
  return trial_id.substr(0, trial_id.rfind('/'));
}

}  // namespace warpsmith::problem
