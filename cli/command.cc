#include "cli/command.h"

namespace warpsmith::cli {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return kUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kNoPlanner;
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kCancelled:
      return kInterrupted;
    default:
      return kFailed;
  }
}

absl::Status CheckDir(const Context& context) {
  if (!context.dir.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "neither HOME nor XDG_DATA_HOME is set: say with --dir where the state lives");
}

}  // namespace warpsmith::cli
