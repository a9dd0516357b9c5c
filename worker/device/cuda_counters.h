// Performance counters of kernels, by CUPTI's range profiler in this process.
//
//   auto counters = CudaCounters::Make(context, nvrtc);
//   auto read = counters->Read({true, false}, [&](const Around& around) {
//     return around(0, launch_first) ...            // each kernel within `around`
//   });
//
// A run of the plan is a pass: what does not fit into one pass is read in another run. So nothing
// is saved and restored, and no memory is needed for that. CUPTI is enabled while Read runs and at
// no other time, so that what is timed before and after is not touched by it. Kernels whose blocks
// wait for each other are not counted.
//
// One thread, the context current.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/trial.pb.h"
#include "worker/device/cuda_context.h"
#include "worker/device/cupti.h"

namespace warpsmith::device {

// The metrics behind v1::Counters.
std::vector<std::string> CounterMetrics();
// From the values of those metrics, as CUPTI gives them, in any order; what is missing stays 0.
v1::Counters CountersOf(const std::vector<std::string>& metrics, const std::vector<double>& values);
// A range is longer than its kernel, by some 20 us: what is told of the range's time is told of the
// kernel's, which takes `us`.
void RelateToKernel(double us, v1::Counters& counters);

class CudaCounters {
 public:
  // NotFound, PermissionDenied, Internal: there are no counters; the message says why. `beside`:
  // path of a library of the toolkit, empty: none.
  static absl::StatusOr<std::unique_ptr<CudaCounters>> Make(std::shared_ptr<CudaContext> context,
                                                            const std::string& beside);

  // Leaves no trace of counting in the process: until then a graph takes longer to launch on an
  // idle device, by a quarter of a microsecond a kernel (on an H200), even with its profiler
  // disabled.
  static absl::Status End(std::unique_ptr<CudaCounters> counters);

  // Puts a range around what a kernel's launch enqueues, which has to have ended when it returns.
  using Around =
      std::function<absl::Status(int kernel, const std::function<absl::Status()>& launch)>;
  // Runs the plan once, each kernel's launch within `around`.
  using Run = std::function<absl::Status(const Around& around)>;
  // One for each kernel; none of those that are not `counted`. Errors of `run` are passed on.
  // Aborted: CUPTI cannot be turned off again, and the context is lost.
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> Read(const std::vector<bool>& counted,
                                                                const Run& run);

 private:
  CudaCounters(std::shared_ptr<CudaContext> context, const cupti::Library& cupti,
               std::string availability, cupti::Schedule schedule)
      : context_(std::move(context)),
        cupti_(cupti),
        availability_(std::move(availability)),
        schedule_(std::move(schedule)) {}
  absl::StatusOr<std::vector<std::optional<v1::Counters>>> ReadEnabled(
      cupti::RangeObject ranges, const std::vector<bool>& counted, size_t kernels, const Run& run);
  absl::Status RunPasses(cupti::RangeObject ranges, const std::vector<bool>& counted,
                         const Run& run);
  absl::StatusOr<std::string> MakeData(cupti::RangeObject ranges, size_t kernels);
  absl::StatusOr<std::vector<v1::Counters>> Decode(cupti::RangeObject ranges, std::string& data,
                                                   size_t kernels);

  const std::shared_ptr<CudaContext> context_;
  const cupti::Library& cupti_;
  const std::string availability_;  // which the schedule's host object was given
  const cupti::Schedule schedule_;
};

}  // namespace warpsmith::device
