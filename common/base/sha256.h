// SHA-256, for content addresses and digests.
#pragma once

#include <string>
#include <string_view>

namespace warpsmith::base {

// 64 lower-case hex digits.
std::string Sha256Hex(std::string_view data);

}  // namespace warpsmith::base
