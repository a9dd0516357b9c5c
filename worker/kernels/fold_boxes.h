// Boxes of a tensor that is reduced: runs of memory, and how many of them there are. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/numbers.h"

namespace warpsmith::kernels {

inline constexpr int kMaxFoldRank = 8;

struct FoldAxis {
  int64_t extent = 1;
  bool kept = false;
  int64_t stride = 1;  // elements, in the input that is read by vectors
};

using FoldBox = std::vector<int64_t>;  // elements along each axis

// The longest run of memory of at most `most` elements, in whole vectors, over the axes from
// `outermost` on: the last axes whole, one cut into boxes of one size, the others one by one.
FoldBox GrowBox(const std::vector<FoldAxis>& axes, int64_t most, int vector, int outermost);
// The first axis from which on all elements lie side by side; the number of axes: none does.
int FirstOfRun(const std::vector<FoldAxis>& axes);
// Boxes along the kept or the summed axes.
int64_t BoxesOf(const std::vector<FoldAxis>& axes, const FoldBox& box, bool kept);
// Elements of the tensor over those of all boxes: at most 1.
double CoveredBy(const std::vector<FoldAxis>& axes, const FoldBox& box);

}  // namespace warpsmith::kernels
