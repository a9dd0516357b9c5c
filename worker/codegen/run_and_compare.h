// For tests: runs what was lowered on the host device and compares it with the oracle.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::codegen {

// A host with as many blocks at once as tests of meetings need.
Target TestTarget();

// Applies the schedule's rewrites to `graph`, lowers, compiles, runs it on inputs drawn with
// `seed`, and compares every output and updated state with the evaluation of the graph as it was.
// InvalidArgument: not lowered. Any other error: the code does not compile, fails, or is wrong.
absl::Status RunAndCompare(const graph::Graph& graph, const v1::Schedule& schedule, uint64_t seed);

struct Trial {
  graph::Graph graph;
  v1::Schedule schedule;
  uint64_t seed = 1;
  bool special = false;  // a few NaNs and infinities among the inputs
  double tolerance = 0;  // of the answers, relative; 0: what fits their types
  // What it is lowered for, if not TestTarget(): a card's kernels that the host device can run
  // (worker/kernels/hopper_host.cuh).
  std::optional<Target> target = std::nullopt;
};

// The same of many, compiled together and hardly optimised: a fraction of the time. An answer for
// each. Where the whole does not compile, each is compiled alone.
std::vector<absl::Status> RunAndCompareAll(const std::vector<Trial>& trials);

}  // namespace warpsmith::codegen
