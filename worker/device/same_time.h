// When two times of the same work agree.
#pragma once

#include <algorithm>
#include <cmath>

namespace warpsmith::device {

inline constexpr double kSameShare = 0.03;
inline constexpr double kSameUs = 0.3;

// They differ by no more than either of the two.
inline bool SameTime(double a_us, double b_us) {
  return std::abs(a_us - b_us) <= std::max(kSameUs, kSameShare * std::max(a_us, b_us));
}

}  // namespace warpsmith::device
