// One reduction over any subset of the axes, in whatever order kept and reduced axes follow each
// other in memory; worker/kernels/fold.cuh runs it.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* FoldSkeleton();

}  // namespace warpsmith::codegen
