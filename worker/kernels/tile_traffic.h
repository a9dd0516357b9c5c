// What memory moves for a box, for what it needs: sectors that lines begin or end in, by how long
// after a box its neighbours follow. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {

// How a tensor is cut into boxes.
struct BoxCut {
  const std::vector<int64_t>& extents;
  std::vector<int64_t> tile;
  std::vector<int64_t> step;   // from a box to the next: less than the tile where boxes overlap
  bool whole_sectors = false;  // of the output are written by one box
};

struct BoxOrder {
  std::vector<int> raster;  // axes in which neighbouring blocks differ, first the fastest
  double traffic = 1;       // what memory moves over what it must
};

// The order of boxes with the least traffic: that of the output, or neighbours of an input's lines
// first, as far as those of the output's still follow soon. `sides`: the inputs' and, last, the
// output's.
BoxOrder BestOrder(const std::vector<Side>& sides, const BoxCut& cut);
// The same, of a given order.
double TrafficOf(const std::vector<Side>& sides, const BoxCut& cut, const std::vector<int>& raster);

// What is left of the memory's speed by boxes of so many bytes, in and out: small ones begin and
// end too often. At most 1.
double PartOfSize(double bytes);

// Steps of its slowest axis that the output's lines should share with the next box, so that no two
// boxes write a piece of `piece` elements: 0 where lines end with whole ones, or sharing takes
// more.
int64_t SharedSteps(const std::vector<int64_t>& extents, const Side& output,
                    const std::vector<int64_t>& tile, int64_t piece);

}  // namespace warpsmith::kernels
