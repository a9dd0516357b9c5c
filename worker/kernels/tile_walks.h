// How the lines of a box of small elements are written by walks (ws::TileWalks), and what that
// takes. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "worker/kernels/tile_rule.h"

namespace warpsmith::kernels {

// Sets how the box, whose run and write are known, is written by walks along `axis`, `beside` of
// them beside each other, and what that takes. False: there are none such.
bool SetWalks(int axis, int beside, TileChoice& choice);

struct Walks;

// Lanes of some warps, by which passes of shared memory are counted.
class WalkSample {
 public:
  explicit WalkSample(const TileChoice& choice);
  // For all elements that walks take from a stream.
  int64_t Passes(const TileStreamChoice& stream, int bytes) const;

 private:
  static std::array<int32_t, kMaxTileRank> At(const TileChoice& choice, const Walks& walks,
                                              int64_t start, int w);

  int rank_;
  int64_t elements_;
  std::vector<std::array<int32_t, kMaxTileRank>> at_;  // kLanes for each access
};

}  // namespace warpsmith::kernels
