#include "common/problem/axis_order.h"

#include <algorithm>

namespace warpsmith::problem {

bool IsOrder(absl::Span<const int> axes, size_t rank) {
  std::vector<int> sorted(axes.begin(), axes.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int>(i)) return false;
  }
  return sorted.size() == rank;
}

std::vector<int64_t> StridesIn(absl::Span<const int> order, absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= shape[order[i]];
  }
  return strides;
}

}  // namespace warpsmith::problem
