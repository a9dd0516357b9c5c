// The peak rates of a card, by a copy and an FMA kernel.
#pragma once

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Takes up to 4 GiB of device memory for a moment and some 100 ms.
absl::StatusOr<Device::Rates> MeasureCudaRates(Device& device, Compiler& compiler);

}  // namespace warpsmith::device
