// Attention in one kernel, on the tensor cores of sm_90a (worker/kernels/attend.cuh).
#pragma once

#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

const Skeleton* AttendSkeleton();

// Whether the group, an attention, has scores that are products alone but for roundings to 16 bits.
bool RoundsScores(const Analysis& group);

}  // namespace warpsmith::codegen
