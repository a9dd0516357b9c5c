// The peak rates of a card: reading, writing, copying, and multiplying, in fp32 and by tensor
// cores.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Takes up to 4 GiB of device memory for a moment and some 200 ms.
absl::StatusOr<graph::Roof> MeasureCudaRoof(Device& device, Compiler& compiler);

// What it compiles; for tests that compile without a card. The second: for tensor cores; empty
// where none are known.
std::string CudaRoofSource();
std::string CudaProductsSource(const std::string& arch);

}  // namespace warpsmith::device
