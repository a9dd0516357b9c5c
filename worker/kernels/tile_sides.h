// A map's sides, its inputs and its output, and how a box of it lies in the memory of each: lines,
// accesses, ends. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/numbers.h"

namespace warpsmith::kernels {

inline constexpr int kSectorBytes = 32;  // that memory is read and written in

struct Side {
  std::vector<int64_t> strides;  // elements, by axis
  std::vector<int> order;        // axes from the fastest on
  int64_t offset = 0;
  int bytes = 4;
  bool vectors = true;  // neighbours are read together
};

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& extents);
// Axes from the fastest on; those that do not move come last.
std::vector<int> OrderOf(const std::vector<int64_t>& strides);

// Makes the box so long along the side's order that `wanted` elements are one line.
void Grow(const std::vector<int64_t>& extents, const Side& side, int64_t wanted, int vector,
          std::vector<int64_t>& tile);
// Elements that one access may have: they divide each line's length and where it begins.
int VectorOf(const std::vector<int64_t>& extents, const Side& side,
             const std::vector<int64_t>& tile, int vector_bytes);
// Elements of a box that lie in one line of the side's memory; 1 where it is not read so.
int64_t LineOf(const Side& side, const std::vector<int64_t>& tile,
               const std::vector<int64_t>& extents);
// How many axes of the side's order are a line of its memory within the box.
int LineAxes(const Side& side, const std::vector<int64_t>& tile,
             const std::vector<int64_t>& extents);

// The output's line in a box: its slowest axis, elements of those within it, and whether the box
// cuts it.
struct OutputLine {
  int slowest = 0;
  int64_t inner = 1;
  bool cut = false;
};
OutputLine LineOfBox(const std::vector<int64_t>& tile, const std::vector<int64_t>& extents);
// Steps of the slowest axis that boxes share, so that each has the whole of its last `piece`.
int64_t OverlapOf(const OutputLine& line, int64_t piece);

}  // namespace warpsmith::kernels
