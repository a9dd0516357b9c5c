// This processor as a device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Never fails for want of hardware. Kernels run on one thread; Run lets threads go on in an order
// that changes from run to run (the same for each new device), Time in the natural one.
std::unique_ptr<Device> MakeHostDevice();

}  // namespace warpsmith::device
