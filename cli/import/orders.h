// How the tensors that forward gives lie in memory.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "cli/import/dump.h"

namespace warpsmith::import {

// Axes of a tensor, the one with the largest stride first.
using AxisOrder = std::vector<int>;

// For each of the graph's outputs (OutputsOf), the order in which PyTorch's tensor lies in memory
// in all of the dumps, which are those of one file's workloads. Axes of one element have their
// place in it by their strides, as far as there is one that fits them all. Where strides are not
// known it is the axes' own.
//
// InvalidArgument: the workloads' tensors lie in different orders.
absl::StatusOr<std::vector<AxisOrder>> OrdersOf(const std::vector<Dump>& dumps);

}  // namespace warpsmith::import
