// Logging: spdlog's default logger, to stderr only; stdout is for data. Call once, in main().
//
//   absl::Status status = telemetry::StartLog("planner", "info");
//   spdlog::info("listening on {}", address);
#pragma once

#include <string>

#include "absl/status/status.h"

namespace warpsmith::telemetry {

// `name` stands in each line. `level`: trace, debug, info, warning, error or off; anything else is
// an InvalidArgument. Lines are coloured only on a terminal.
absl::Status StartLog(const std::string& name, const std::string& level);

}  // namespace warpsmith::telemetry
