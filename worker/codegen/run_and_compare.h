// For tests: runs what was lowered on the host device and compares it with the oracle.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::codegen {

// A host with as many blocks at once as tests of meetings need.
Target TestTarget();

// Applies the schedule's rewrites to `graph`, lowers, compiles, runs twice on inputs drawn with
// `seed`, and compares every output and updated state with the evaluation of the graph as it was.
// InvalidArgument: not lowered. Any other error: the code does not compile, fails, or is wrong.
absl::Status RunAndCompare(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed);

}  // namespace warpsmith::codegen
