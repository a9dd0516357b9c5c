// What algebra and fusion share: carrying knobs over to a schedule with other groups.
#pragma once

#include "warpsmith/v1/schedule.pb.h"

namespace warpsmith::agent {

// Gives every group of `to` that has a group with the same roots in `from` that group's knobs, and
// any other the precision of the first group of `from` that shares a root with it.
void KeepKnobs(const v1::Schedule& from, v1::Schedule& to);

// Gives `to` the precision that was chosen for what it computes, of `a` and of `b`: the more
// accurate where both chose.
void KeepPrecision(const v1::Group& a, const v1::Group& b, v1::Group& to);

}  // namespace warpsmith::agent
