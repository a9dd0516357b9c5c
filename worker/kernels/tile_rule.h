// Which boxes the skeleton `tile` (tile.cuh) should move, and how they lie in shared memory. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpsmith::kernels {

inline constexpr int kMaxTileRank = 8;

// An input that is read in another order than the output is written.
struct TileInput {
  std::vector<int64_t> strides;  // elements, by output axis; 0 and negative ones as well
  int64_t offset = 0;            // elements, of output element 0
  int bytes = 4;                 // of an element: 1, 2, 4, 8
  // False: its elements are not read as neighbours (gathered, or behind a predicate).
  bool vectors = true;
};

struct TileProblem {
  std::vector<int64_t> extents;  // of the output, outermost first, each > 1; written densely
  std::vector<TileInput> inputs;
  int write_bytes = 4;  // of an output element
};

// Drops axes of one element and joins neighbours that are neighbours in every input: never more
// axes than before, at least one.
TileProblem MergeAxes(const TileProblem& problem);

struct TileKnobs {
  int threads = 256;
  int line_bytes =
      0;              // wanted of each line of a box, on both sides; 0: 128, for small elements 256
  int box_bytes = 0;  // of all streams together, at most; 0: 16 KiB a stream, for small elements 32
  int vector_bytes = 16;  // of an access
  bool anywhere = true;   // accesses of words where lines of small elements begin anywhere
  // Lines of an input are copied as they lie in memory where that takes less (ChooseTile), never or
  // always.
  enum class Lines { kWhereBetter, kNever, kAlways } lines = Lines::kWhereBetter;
  // Small elements are written by walks (ws::TileWalks).
  enum class Walks { kWhereBetter, kNever, kAlways } walks = Walks::kWhereBetter;
  int align_bytes = 32;      // pieces of the output that boxes share no part of: sectors of memory
  bool overlap = true;       // boxes may overlap for that
  std::vector<int64_t> box;  // instead of the rule's, for tests and benchmarks; empty: the rule's
  bool raster_input =
      false;  // neighbouring blocks are neighbours in the first input, whatever the output
};

struct TileStreamChoice {
  int vector = 1;         // elements of an access
  bool anywhere = false;  // which begin anywhere: ws::load_anywhere
  int pack = 1;
  int offset = 0;  // bytes, in shared memory
  std::vector<int> order;
  std::vector<int64_t> place;
  int unit = 1;  // of a line: as ws::TileStream
  int line = 0;  // > 0: its first axes in `order` are a line that is copied as it lies in memory
};

struct TileChoice {
  int threads = 256, write = 1;
  int run = 0;  // > 0: lines of the output are its last `run` axes and begin anywhere
  int overlap = 0, align = 1, beside = 1;  // as ws::TileConfig
  int repeat = 0, stride = 0, chunks = 1;  // stride > 0: walks
  double walks = 0;                        // what they take, in passes of shared memory
  std::vector<int64_t> extents, tile;
  std::vector<int> raster;
  std::vector<TileStreamChoice> streams;
  int64_t boxes = 0;
  int shared_bytes = 0;
  // Of one box: passes that shared memory makes for it, and the fewest that its bytes need.
  int64_t passes = 0, fewest_passes = 0;
  int64_t accesses = 0;  // of memory, of one box: each has its place found
  double cost = 0;       // of one box: passes, and what finding places takes in their time
  // Elements of all boxes over those of the tensor: >= 1.
  double covered = 1;
  double traffic = 1;  // of memory, over what must be moved (tile_traffic.h)
  double promise = 0;  // what part of the memory's speed is expected: to be compared
};

// InvalidArgument: no axes, too many, no inputs, or strides that do not match.
absl::StatusOr<TileChoice> ChooseTile(const TileProblem& problem, const TileKnobs& knobs);

// "ws::TileConfig<...>, ws::TileStream<...>, ...": the arguments of ws::tile behind the functor.
std::string TileArguments(const TileChoice& choice);

// The kernel `name(const T* x0, ..., T* y)` that writes the sum (one input: a copy) of its inputs,
// all unsigned integers of write_bytes; for tests and benchmarks.
std::string TileCopySource(const TileProblem& problem, const TileChoice& choice,
                           const std::string& name);

}  // namespace warpsmith::kernels
