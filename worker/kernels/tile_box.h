// Which boxes of a map promise most of the memory's speed. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/tile_rule.h"
#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {

struct ScoredBox {
  std::vector<int64_t> tile;
  double score = -1;  // how much of the memory's speed it promises: to be compared
};

// Of boxes with lines from one element to as long as a box holds, the best of each kind (axes that
// it has whole, in part and not at all), the best first; at least one. Where an axis of few
// elements ends a line, all lines of a box are one run of memory. `sides`: the inputs' and, last,
// the output's.
std::vector<ScoredBox> BestBoxes(const TileProblem& problem, const TileKnobs& knobs,
                                 const std::vector<Side>& sides);

}  // namespace warpsmith::kernels
