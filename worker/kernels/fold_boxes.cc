#include "worker/kernels/fold_boxes.h"

#include <algorithm>
#include <numeric>

namespace warpsmith::kernels {

FoldBox GrowBox(const std::vector<FoldAxis>& axes, int64_t most, int vector, int outermost) {
  FoldBox box(axes.size(), 1);
  int64_t have = 1;
  for (int d = static_cast<int>(axes.size()) - 1; d >= outermost; --d) {
    const int64_t extent = axes[d].extent;
    int64_t n = std::min(extent, most / have);
    if (n < extent) {
      const int64_t unit = vector / std::gcd<int64_t>(vector, have);
      n = CeilDiv(extent, CeilDiv(extent, std::max<int64_t>(1, n)));  // boxes of one size
      n = std::min(CeilDiv(n, unit) * unit, most / have / unit * unit);
      box[d] = std::max<int64_t>(1, n);
      break;
    }
    box[d] = n;
    have *= n;
  }
  return box;
}

int FirstOfRun(const std::vector<FoldAxis>& axes) {
  int64_t run = 1;
  int d = static_cast<int>(axes.size());
  while (d > 0 && axes[d - 1].stride == run) run *= axes[--d].extent;
  return d;
}

int64_t BoxesOf(const std::vector<FoldAxis>& axes, const FoldBox& box, bool kept) {
  int64_t count = 1;
  for (size_t d = 0; d < box.size(); ++d) {
    if (axes[d].kept == kept) count *= CeilDiv(axes[d].extent, box[d]);
  }
  return count;
}

double CoveredBy(const std::vector<FoldAxis>& axes, const FoldBox& box) {
  double covered = 1;
  for (size_t d = 0; d < box.size(); ++d) {
    covered *= static_cast<double>(axes[d].extent) /
               static_cast<double>(CeilDiv(axes[d].extent, box[d]) * box[d]);
  }
  return covered;
}

}  // namespace warpsmith::kernels
