// Each thread computes output elements, V neighbours at a time; reduces inside are its loops.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* MapSkeleton();

}  // namespace warpsmith::codegen
