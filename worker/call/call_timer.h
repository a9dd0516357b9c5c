// What a user's call of the exported kernels takes: timed by a Python process of its own, which has
// neither the reference nor answers, over the launcher that exports carry.
//
//   CallTimer timer({.python = "python3", .python_path = folder, .device = "cuda:0", ...});
//   timer.Prepare();                          // when it is known that something will be timed
//   auto times = timer.Time(plans, cubins);
//
// The device must be idle while something is timed. Each time has a process of its own, which ends
// with it; one that was prepared has imported PyTorch by then, and has not touched the device. Not
// thread-safe; a prepared process ends with the thread that prepared it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/child.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::call {

// Geometric means over plans, in microseconds, on an idle device with L2 flushed.
struct CallTimes {
  double call_us = 0;
  double graph_us = 0;  // of the same call, replayed as a CUDA graph by the same process
};

class CallTimer {
 public:
  struct Options {
    std::string python;       // with PyTorch; empty: there is none
    std::string python_path;  // the folder that holds warpsmith_torch/
    std::string device;       // "cuda:0"
    std::vector<std::pair<std::string, std::string>> environment;  // beside this process's
    std::string arch;                                              // "sm_90a"
    std::string clock;                                             // path of libwarpsmith_clock.so
    double seconds = 0.3;                                          // of timing, a plan
    absl::Duration limit = absl::Minutes(2);  // of all of it; importing PyTorch is most
  };

  explicit CallTimer(Options options) : options_(std::move(options)) {}

  // Starts the process of the next time, unless that was done. What goes wrong Time says.
  void Prepare();
  // `cubins`: one for each plan. FailedPrecondition: there is no Python with PyTorch. Internal:
  // what the process said. DeadlineExceeded: it was killed.
  absl::StatusOr<CallTimes> Time(const std::vector<v1::Plan>& plans,
                                 const std::vector<std::string>& cubins);

 private:
  absl::StatusOr<std::unique_ptr<base::Child>> Start() const;

  const Options options_;
  std::unique_ptr<base::Child> prepared_;
};

}  // namespace warpsmith::call
