// Attention in one kernel, on the tensor cores of sm_90a (worker/kernels/attend.cuh).
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* AttendSkeleton();

}  // namespace warpsmith::codegen
