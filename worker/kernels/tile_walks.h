// How the lines of a box of small elements are written by walks (ws::TileWalks), and what that
// takes. Pure.
#pragma once

#include <cstdint>

#include "worker/kernels/tile_rule.h"
#include "worker/kernels/tile_sample.h"

namespace warpsmith::kernels {

// Sets how the box, whose run and write are known, is written by walks along `axis`, `beside` of
// them beside each other, and what that takes. False: there are none such.
bool SetWalks(int axis, int beside, TileChoice& choice);

// Some warps' elements of a box that is written by walks.
class WalkSample {
 public:
  // `pack`: of the stream that they are taken from.
  WalkSample(const TileChoice& choice, int pack);
  // For all elements that walks take from a stream; `enough` or more: at least so many.
  int64_t Passes(const TileStreamChoice& stream, int bytes, int64_t enough) const;

 private:
  int64_t elements_;
  LaneSample lanes_;
};

}  // namespace warpsmith::kernels
