// What a plan has to keep to before it is loaded, on any device.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "warpsmith/v1/solution.pb.h"
#include "worker/device/device.h"

namespace warpsmith::device {

inline constexpr int kMaxBlockThreads = 1024;
inline constexpr int kMaxSteps = 1024;       // of a plan
inline constexpr int kMaxArguments = 128;    // of a launch
inline constexpr int kMapBytes = 128;        // of a tensor map as the kernel sees it
inline constexpr int kMatrixAlignment = 16;  // bytes of a library product's matrices
inline constexpr int kMaxAlgorithms = 8;     // of a library, for one product
inline constexpr int kMaxHostCluster = 16;   // blocks; info() says 1 on the host, tests use more

// InvalidArgument names the step and what is wrong with it: an index of no buffer, a size beyond a
// buffer's end, a grid, block, cluster or shared memory beyond what the device takes; or lanes that
// are none (common/problem/lanes.h).
absl::Status CheckPlan(const v1::Plan& plan, const DeviceInfo& info, int max_cluster);

// That `buffers` are what the plan declares: as many, each mapped and large enough.
absl::Status CheckBinding(const v1::Plan& plan, absl::Span<Memory* const> buffers);

// Of an element of a tensor map's dtype: 1, 2, 4 or 8; 0 for a name that is no such type.
int MapElementBytes(const v1::TensorMap& map);

// Bytes of an argument as the kernel sees it.
int ArgumentBytes(const v1::Argument& argument);

}  // namespace warpsmith::device
