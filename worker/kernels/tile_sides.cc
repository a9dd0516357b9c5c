#include "worker/kernels/tile_sides.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace warpsmith::kernels {

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (int d = static_cast<int>(extents.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * extents[d + 1];
  return strides;
}

std::vector<int> OrderOf(const std::vector<int64_t>& strides) {
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto key = [&](int d) { return strides[d] == 0 ? INT64_MAX : std::abs(strides[d]); };
    return key(a) < key(b);
  });
  return order;
}

void Grow(const std::vector<int64_t>& extents, const Side& side, int64_t wanted, int vector,
          std::vector<int64_t>& tile) {
  int64_t have = 1;
  for (int d : side.order) {
    if (side.strides[d] == 0) break;
    const int64_t need = std::min(extents[d], CeilDiv(wanted, have));
    int64_t n = std::max(tile[d], need);
    if (n < extents[d]) {
      n = CeilDiv(extents[d], CeilDiv(extents[d], n));  // boxes of one size
      n = RoundUp(n, vector / std::gcd<int64_t>(vector, have));
      n = std::min(n, extents[d]);
    }
    tile[d] = n;
    if (n < extents[d]) return;
    have *= n;
    if (have >= wanted) return;
  }
}

int VectorOf(const std::vector<int64_t>& extents, const Side& side,
             const std::vector<int64_t>& tile, int vector_bytes) {
  if (!side.vectors) return 1;
  int64_t common = std::max(1, vector_bytes / side.bytes);
  common = std::gcd(common, side.offset);
  int64_t run = 1;
  bool in_line = true;
  for (int d : side.order) {
    if (in_line && side.strides[d] == run) {
      run *= tile[d];
      if (tile[d] < extents[d]) {
        in_line = false;
        common = std::gcd(common, run);
        common = std::gcd(common, side.strides[d] * (extents[d] % tile[d]));
      }
    } else {
      in_line = false;
      common = std::gcd(common, side.strides[d]);
    }
  }
  return static_cast<int>(std::gcd(common, run));
}

int64_t LineOf(const Side& side, const std::vector<int64_t>& tile,
               const std::vector<int64_t>& extents) {
  int64_t run = 1;
  if (!side.vectors) return run;
  for (int d : side.order) {
    if (side.strides[d] != run) break;
    run *= tile[d];
    if (tile[d] < extents[d]) break;
  }
  return run;
}

int LineAxes(const Side& side, const std::vector<int64_t>& tile,
             const std::vector<int64_t>& extents) {
  int64_t run = 1;
  int axes = 0;
  if (!side.vectors) return 0;
  for (int d : side.order) {
    if (side.strides[d] != run) break;
    ++axes;
    run *= tile[d];
    if (tile[d] < extents[d]) break;
  }
  return axes;
}

OutputLine LineOfBox(const std::vector<int64_t>& tile, const std::vector<int64_t>& extents) {
  OutputLine line;
  line.slowest = static_cast<int>(tile.size()) - 1;
  while (line.slowest > 0 && tile[line.slowest] == extents[line.slowest])
    line.inner *= tile[line.slowest--];
  line.cut = tile[line.slowest] < extents[line.slowest];
  return line;
}

int64_t OverlapOf(const OutputLine& line, int64_t piece) {
  return line.inner == 1 ? piece : CeilDiv(piece - 1, line.inner);
}

}  // namespace warpsmith::kernels
