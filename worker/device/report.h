// What a plan's launches add to the compiler's report.
#pragma once

#include "warpsmith/v1/solution.pb.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Adds each kernel's dynamic shared memory to its static one and works out blocks_per_sm from
// registers, threads, shared memory and the device's limits (CUDA's occupancy rules of compute
// capability 8 and later: registers in units of 256 a warp, 1 KiB of shared memory reserved a
// block). A kernel that is launched twice counts as its larger launch. On the host nothing changes.
void CompleteReport(const v1::Plan& plan, const DeviceInfo& info, v1::StaticReport* report);

}  // namespace warpsmith::device
