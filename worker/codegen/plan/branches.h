// Steps that do not depend on each other run beside each other.
#pragma once

#include <map>
#include <set>

#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::codegen {

// Of launches, by their steps: buffers that the kernel reads and does not write. What else it is
// given counts as written.
using OnlyRead = std::map<int, std::set<int>>;

// Lays the plan's steps, which are right one after the other, over lanes. Each waits for earlier
// ones that write what it touches or touch what it writes, and cooperative launches for each other:
// two that are half resident would wait for ever. A step goes on in a lane whose last step it waits
// for anyway, else it begins a lane, and where there are kMaxLanes it goes where the last step is
// oldest. `programmatic`: kernels may begin before those before them in their lanes have ended.
void LayOverLanes(const OnlyRead& only_read, bool programmatic, v1::Plan& plan);

}  // namespace warpsmith::codegen
