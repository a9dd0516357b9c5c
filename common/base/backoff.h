// Pauses between attempts that keep failing: growing, jittered, bounded.
//
//   Backoff backoff(absl::Milliseconds(200), absl::Seconds(30), seed);
//   while (!Try()) Sleep(backoff.Next());
//   backoff.Reset();
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace warpsmith::base {

class Backoff {
 public:
  // Each pause is drawn from the upper half of a bound, which goes from `shortest` to `longest`,
  // each time by kGrowth.
  Backoff(absl::Duration shortest, absl::Duration longest, uint64_t seed)
      : shortest_(shortest), longest_(longest), bound_(shortest), random_(seed) {}

  absl::Duration Next() {
    const absl::Duration pause = bound_ * std::uniform_real_distribution<>(0.5, 1.0)(random_);
    bound_ = std::min(bound_ * kGrowth, longest_);
    return pause;
  }
  void Reset() { bound_ = shortest_; }

 private:
  static constexpr double kGrowth = 1.5;

  const absl::Duration shortest_, longest_;
  absl::Duration bound_;
  std::mt19937_64 random_;
};

}  // namespace warpsmith::base
