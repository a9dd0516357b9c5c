// What the machine, a container or a service manager keeps from a worker that it would use.
//
// The worker goes on without: a kernel is then profiled by less, or a workload of PyTorch fails
// that would have passed. So it says at its start what is for its operator to mend. Rights and
// memory are looked up, libraries are tried. No part of a worker wants namespaces.
#pragma once

#include <string>
#include <vector>

#include "worker/device/device.h"

namespace warpsmith::device {

// Through /dev/shm PyTorch on the processor hands over what a workload has: its inputs and its
// outputs. Containers have 64 MiB there if nobody says otherwise.
inline constexpr int64_t kSharedBytes = int64_t{1} << 30;

// What a worker has found of what others make. Libraries are of those for a card.
struct Software {
  bool torch = false;  // a Python with PyTorch
  bool nvrtc = false, cupti = false, cublaslt = false;
};
// Loads the libraries, from where the judge would. Paths: as for MakeCompiler and CublasLt::Open.
// `device.library` is filled in.
Software FindSoftware(bool torch, const std::string& nvrtc, const std::string& cublaslt,
                      DeviceInfo& device);

// A sentence each, with what to do. `root`: of the file system, for tests; "" is this machine's.
std::vector<std::string> Lacks(const DeviceInfo& device, const Software& software,
                               const std::string& root = "");

}  // namespace warpsmith::device
