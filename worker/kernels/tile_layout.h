// How the streams of a box lie in shared memory, and how often it is passed to put and take them.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/tile_rule.h"
#include "worker/kernels/tile_sides.h"

namespace warpsmith::kernels {

inline constexpr int kPieceBytes = 16;  // that lines are copied in

// The layout of one stream that is put by vectors, with the fewest passes, which it returns.
int64_t PlaceVectors(const Side& side, const TileChoice& choice, TileStreamChoice& stream);
// The same of a stream whose lines are copied as they lie in memory, in pieces of stream.piece
// bytes: places between lines are those of memory modulo a piece, with room for what the first and
// last piece of a line bring along.
int64_t PlaceLines(const Side& side, const TileChoice& choice, const std::vector<int64_t>& extents,
                   TileStreamChoice& stream);
// Elements that are put together into a word of shared memory: neighbours of the output's fastest
// axis, if that is not the input's too. `whole`: the box consists of whole words.
int PackOf(const Side& side, const std::vector<int64_t>& tile, int vector, bool whole);
// Of shared memory, that a stream takes.
int64_t SharedElements(const TileStreamChoice& stream, const std::vector<int64_t>& tile);

}  // namespace warpsmith::kernels
