// What the machine, a container or a service manager keeps from a worker that it would use.
//
// The worker goes on without: a kernel is then profiled by less, or a workload of PyTorch fails
// that would have passed. So it says at its start what is for its operator to mend.
#pragma once

#include <string>
#include <vector>

#include "worker/device/device.h"

namespace warpsmith::device {

// Through /dev/shm PyTorch on the processor hands over what a workload has: its inputs and its
// outputs. Containers have 64 MiB there if nobody says otherwise.
inline constexpr int64_t kSharedBytes = int64_t{1} << 30;

// A sentence each, with what to do. `root`: of the file system, for tests; "" is this machine's.
std::vector<std::string> Lacks(const DeviceInfo& device, bool torch, const std::string& root = "");

}  // namespace warpsmith::device
