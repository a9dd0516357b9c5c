// What one thread of this processor can do at best, for the host device's speed of light.
#pragma once

namespace warpsmith::device {

// Bytes read plus bytes written in a second by the fastest copy over several sizes: mostly out of a
// cache, since caches cannot be emptied for certain here. Takes some 50 ms.
double HostCopyRate();
// fp32 operations in a second, two for a fused multiply-add, with the widest vectors there are.
double HostFmaRate();

}  // namespace warpsmith::device
