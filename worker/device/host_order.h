// In which order the host runs a plan's steps.
#pragma once

#include <cstdint>
#include <vector>

#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::device {

// Indices of the plan's steps, whose lanes are right (common/problem/lanes.h). Seed 0: the plan's
// own order. Else one that respects lanes and what steps wait for, and nothing else: of lanes that
// can go on it is always the turn of the one that the seed puts first, so that its steps come
// before those of others as early as they may. Of two seeds, 2 n - 1 and 2 n, each puts lanes in
// the other's order reversed: of any two lanes either is before the other once. Plans of other
// lengths draw others.
std::vector<int> StepOrder(const v1::Plan& plan, uint64_t seed);

}  // namespace warpsmith::device
