// Where a plan has the graph's outputs, and how the caller's tensors lie there.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/export/export.h"

namespace warpsmith::exporter {

struct Stored {
  int buffer = 0;          // of the plan
  std::vector<int> order;  // of the module's axes in it (v1::AxisOrder); empty: their own
};

// One for each of the graph's outputs, in its order. InvalidArgument: the plan does not have one.
absl::StatusOr<std::vector<Stored>> StoredIn(const v1::Problem& problem, const Kernels::One& one);

}  // namespace warpsmith::exporter
