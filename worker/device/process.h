// Runs a program to its end, within limits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpsmith::device {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal if one ended it
  std::string output;  // standard output and error, the first kMaxProcessOutput bytes
};
inline constexpr size_t kMaxProcessOutput = 64 << 10;
inline constexpr int64_t kMaxProcessMemory = int64_t{4} << 30;

// `arguments[0]` is looked up in PATH. The process and its children get a group of their own, are
// killed with it after `limit`, and may not use more processor time than that even if this process
// dies first. `memory_bytes` bounds the address space of each; 0: no bound. NotFound: no such
// program. DeadlineExceeded: killed. Thread-safe.
absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& arguments,
                                         absl::Duration limit,
                                         int64_t memory_bytes = kMaxProcessMemory);

}  // namespace warpsmith::device
