// How a group's kernels are named, so that what was measured of a kernel finds its group.
#pragma once

#include <string>

#include "common/graph/graph.h"

namespace warpsmith::codegen {

// Every entry of the group whose first root is tensor `root` of the rewritten graph begins so, and
// no other group's: "k3_".
std::string EntryPrefix(int root);

}  // namespace warpsmith::codegen
