// The two ways in which a run is timed; see cuda_clock.h.
#pragma once

namespace warpsmith::device {

enum class Launching {
  kHidden,   // the device is busy with the flush while the run is launched: the device's time
  kCounted,  // the device is idle when the run is launched: what a caller waits for
};

}  // namespace warpsmith::device
