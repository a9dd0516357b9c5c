// How a dense tensor lies in memory: v1::AxisOrder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace warpsmith::problem {

// Whether it has each of the axes 0 to rank - 1 once.
bool IsOrder(absl::Span<const int> axes, size_t rank);

// Strides, in elements, of a tensor of `shape` that fills its memory, its axes in `order`, the
// slowest first.
std::vector<int64_t> StridesIn(absl::Span<const int> order, absl::Span<const int64_t> shape);

}  // namespace warpsmith::problem
