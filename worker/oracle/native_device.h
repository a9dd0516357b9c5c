// The native oracle on a device: evaluates the graph node by node with plain kernels of its own
// (device_source.h), in fp64, and draws inputs with a counter-based generator.
//
// A draw runs three plans. `draw` makes the inputs. `exact` evaluates the graph with fp64 between
// the nodes and stores the answers, rounded once, and the exact values at the sampled positions.
// `plain` evaluates it again as one would without thinking, in the tensors' own types; how far that
// is from exact is the reference's error: what a candidate's accuracy is held against where there
// is no PyTorch.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "worker/device/device.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::oracle {

// Positions of an answer at which its exact values are kept; all, if it has no more.
inline constexpr int64_t kSampled = int64_t{1} << 16;

// The graph must be valid. The compiler is for the device that Draw will be given, and is used only
// here. Errors are the compiler's.
absl::StatusOr<std::unique_ptr<Oracle>> MakeNativeOracle(const graph::Graph& graph,
                                                         device::Compiler& compiler,
                                                         const device::DeviceInfo& info);

// The source that MakeNativeOracle compiles; for tests that compile without a device.
std::string NativeOracleSource(const graph::Graph& graph, const device::DeviceInfo& info);

}  // namespace warpsmith::oracle
