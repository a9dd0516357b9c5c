// Cubins of solutions that were stored without them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::exporter {

// What NVRTC makes of each plan's source for the solution's architecture.
// `nvrtc`: path of libnvrtc.so; empty: it is looked for. NotFound: there is no NVRTC here. Other
// errors: it does not compile.
absl::StatusOr<std::vector<std::string>> CompileCubins(const v1::Solution& solution,
                                                       const std::string& nvrtc);

}  // namespace warpsmith::exporter
