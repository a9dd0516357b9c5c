// Sums of rows into places that keys name, such as an embedding's gradient or what experts give
// back to tokens (worker/kernels/scatter.cuh).
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* ScatterSkeleton();

}  // namespace warpsmith::codegen
