// Maps whose inputs do not lie in the order of their output: boxes go through shared memory, so
// that both sides move whole lines. worker/kernels/tile.cuh runs them.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* TileSkeleton();

}  // namespace warpsmith::codegen
