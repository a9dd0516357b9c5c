// Whole files. Errors carry the path and the system's reason (NotFound, PermissionDenied, ...).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::base {

// More than this in one file is ResourceExhausted: nothing of ours is as large.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

absl::StatusOr<std::string> ReadFile(const std::string& path);

// Readers see the old file or the new one, never a part of it, also after a power failure: the
// contents go to a temporary file beside it, are synced, and are renamed onto `path`. Directories
// on the way are made. Two writers at once are safe; the last one wins.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);

}  // namespace warpsmith::base
