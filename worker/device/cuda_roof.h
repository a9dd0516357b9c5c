// The peak rates of a card: reading, writing, copying, and multiplying.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Takes up to 4 GiB of device memory for a moment and some 200 ms.
absl::StatusOr<graph::Roof> MeasureCudaRoof(Device& device, Compiler& compiler);

// What it compiles; for tests that compile without a card.
std::string CudaRoofSource();

}  // namespace warpsmith::device
