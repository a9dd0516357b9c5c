// SHA-256, for content addresses and digests.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace warpsmith::base {

// 64 lower-case hex digits.
std::string Sha256Hex(std::string_view data);

// Of a file of any size. Errors name the path.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace warpsmith::base
