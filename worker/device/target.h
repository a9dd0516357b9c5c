// What code generation needs to know of a device.
#pragma once

#include "worker/codegen/codegen.h"
#include "worker/device/device.h"

namespace warpsmith::device {

codegen::Target TargetOf(const DeviceInfo& info);

}  // namespace warpsmith::device
