// Whether a baseline and a candidate of the same work are told the same time (same_time.h): nothing
// at all, and copies of 4 KiB, 1 MiB and 1 GiB, as PyTorch's CUDA graph and as a plan of our own.
#pragma once

#include "worker/device/device.h"
#include "worker/judge/judge.h"

namespace warpsmith::judge {

// Prints a table and gives the number of pairs that differ. Without PyTorch's oracle, or on the
// host, where PyTorch's side is a call from Python, nothing is held against anything: 0. A failure
// to measure counts as one that differs.
int CheckTimes(device::Device& device, device::Compiler& compiler, const OracleFactory& oracles);

}  // namespace warpsmith::judge
