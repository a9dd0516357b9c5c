// Files that hold a secret: nobody but their owner may read or write them; or root's, which a group
// of ours may read.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::base {

inline constexpr mode_t kPrivateMode = 0600;

// As WriteFileAtomically (file.h); at no time may others read what is written.
absl::Status WritePrivateFile(const std::string& path, std::string_view contents);

// FailedPrecondition: others can read or write it, or it is another user's (root's is taken); what
// to do about it is said. Otherwise as ReadFile.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

}  // namespace warpsmith::base
