// Whose turn it is: what submitters have used of the cards, for their weight.
//
// Use fades with a half-life of a day, as in Slurm's fair share, so a submitter that has used much
// last week is not behind for ever. All fade alike, so how two compare changes only when one of
// them uses something: Standing orders them without a time.
//
// Pure; any thread.
#pragma once

#include <cstdint>

#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

inline constexpr double kHalfLifeMs = 24 * 3600e3;

// The lower has its turn before the higher.
struct Standing {
  // log2(seconds / weight) + time in half-lives: equal at all times for equal use. Minus infinity:
  // it has used nothing.
  double used = 0;
  int64_t since = 0;  // of equal ones, the one that came first

  auto operator<=>(const Standing&) const = default;
};

Standing StandingOf(const v1::Submitter& submitter);

// `seconds` more of a card's time; less than 0: so much was charged too much. Time that goes back
// stands still.
void Use(double seconds, int64_t at_unix_ms, v1::Submitter& submitter);

}  // namespace warpsmith::planner
