// What the formats share.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/export/export.h"

namespace warpsmith::exporter {

// Writes `text` to path in the folder, atomically, making folders. Gives the whole path.
// AlreadyExists: another problem of this export was written there.
absl::StatusOr<std::string> WriteOut(OutFolder& folder, const std::string& path,
                                     const std::string& text);

}  // namespace warpsmith::exporter
