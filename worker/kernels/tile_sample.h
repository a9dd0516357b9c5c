// Where the lanes of some warps are in a box, by which passes of shared memory are counted: found
// once, and counted for each layout that is tried. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/kernels/shared_banks.h"
#include "worker/kernels/tile_rule.h"

namespace warpsmith::kernels {

// Of an element of a box, by axis.
using BoxPlace = std::array<int32_t, kMaxTileRank>;

// A number for each lane.
using Lanes = std::array<int32_t, kLanes>;

class LaneSample {
 public:
  // Of boxes of `rank` axes whose streams put `pack` neighbours of the last one into a word.
  LaneSample(int rank, int pack) : rank_(rank), pack_(pack) {}
  // One more access of a warp: the element that each of its first `lanes` lanes begins with.
  void Add(const std::array<BoxPlace, kLanes>& at, int lanes);
  int64_t accesses() const { return static_cast<int64_t>(lanes_.size()); }
  // Of every `step`th access from the first on, the sum; each lane's has `together` elements of
  // `bytes`. `enough` or more: not all are counted.
  int64_t Passes(const TileStreamChoice& stream, int bytes, int together, size_t step,
                 int64_t enough) const;

 private:
  const int rank_, pack_;
  std::vector<int> lanes_;  // of each access
  std::vector<Lanes> at_;   // of each access rank_ + 1: by axis, and within words
};

}  // namespace warpsmith::kernels
