// What a task may be given: seconds of a device.
#pragma once

namespace warpsmith::problem {

inline constexpr double kMinBudgetSeconds = 2;
inline constexpr double kMaxBudgetSeconds = 7 * 86'400;
inline constexpr double kDefaultBudgetSeconds = 60;

}  // namespace warpsmith::problem
