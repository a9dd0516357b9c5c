// A card as a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// NotFound, Unavailable: no driver or no such card. `nvrtc`: path of libnvrtc.so, for MeasureRoof;
// empty: it is looked for.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int ordinal, const std::string& nvrtc,
                                                       const std::string& cublaslt);

// Empty: there is no such card.
std::string PciBusIdOfCard(int ordinal);

}  // namespace warpsmith::device
