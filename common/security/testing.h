// What the tests of common/security share.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpsmith::security {

using Catch::Matchers::Contains;

inline const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
inline constexpr absl::Duration kDay = absl::Hours(24);

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace warpsmith::security
