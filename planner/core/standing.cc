#include "planner/core/standing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warpsmith::planner {

Standing StandingOf(const v1::Submitter& submitter) {
  const double weight = submitter.weight() > 0 ? submitter.weight() : 1;
  const double used = submitter.seconds() > 0
                          ? std::log2(submitter.seconds() / weight) +
                                static_cast<double>(submitter.at_unix_ms()) / kHalfLifeMs
                          : -std::numeric_limits<double>::infinity();
  return {used, submitter.since()};
}

void Use(double seconds, int64_t at_unix_ms, v1::Submitter& submitter) {
  const int64_t passed = std::max<int64_t>(0, at_unix_ms - submitter.at_unix_ms());
  const double left = submitter.seconds() * std::exp2(-static_cast<double>(passed) / kHalfLifeMs);
  submitter.set_seconds(std::max(0.0, left + seconds));
  submitter.set_at_unix_ms(std::max(at_unix_ms, submitter.at_unix_ms()));
}

}  // namespace warpsmith::planner
