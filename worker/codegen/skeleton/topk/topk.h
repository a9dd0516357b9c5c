// The first elements of rows, in order (form.h). worker/kernels/topk.cuh runs it.
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* TopkSkeleton();

}  // namespace warpsmith::codegen
