// Which boxes the skeleton `fold` (fold.cuh) should reduce at a time, and over how many blocks.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/kernels/fold_boxes.h"
#include "worker/kernels/fold_staging.h"

namespace warpsmith::kernels {

struct FoldProblem {
  std::vector<FoldAxis> axes;  // in the order in which they lie in memory, fastest last
  int64_t offset = 0;          // elements, where the first element lies
  int bytes = 4;               // of an element
  // Of an element of each tensor that runs along all axes; empty: one of `bytes`.
  std::vector<int> stream_bytes;
  int acc_bytes = 4;  // of an accumulator
};

// Axes of a dense tensor, outermost first.
FoldProblem DenseFold(const std::vector<int64_t>& extents, const std::vector<bool>& kept,
                      int bytes);
// Drops axes of one element and joins neighbours of one kind that are neighbours in memory.
FoldProblem MergeAxes(const FoldProblem& problem);

struct FoldKnobs {
  int threads = 128;
  int vector_bytes = 16;
  int flight_bytes = 64;        // that a thread has in flight
  int resident_blocks = 8;      // of a multiprocessor, at most
  int split = 0;                // blocks that share a job; 0: chosen
  int shared_bytes = 64 << 10;  // of a block, at most
  int shared_bytes_per_sm = 227 << 10, registers_per_sm = 65536, threads_per_sm = 2048;
  // Boxes go through shared memory where that promises more, never or wherever they can.
  enum class Staged { kWhereBetter, kNever, kAlways } staged = Staged::kWhereBetter;
};

struct FoldChoice {
  int threads = 256, vector = 1, vectors = 1, unroll = 1, split = 1;
  std::vector<FoldAxis> axes;
  std::vector<int64_t> box;
  FoldStaging staging;  // stages 0: boxes are read by vectors
  int resident = 0;     // blocks of a multiprocessor that registers must allow; 0: as many as do
  int64_t jobs = 1, steps = 1, outputs = 1;
  int shared_bytes = 0;
  // With a split: bytes of partial results, and the shape of the second kernel.
  int64_t partial_bytes = 0;
  int combine_lanes = 1, combine_threads = 128, combine_shared_bytes = 0;
  int64_t combine_blocks = 0;
};

// InvalidArgument: no or too many axes, or a box that does not fit shared memory.
absl::StatusOr<FoldChoice> ChooseFold(const FoldProblem& problem, const FoldKnobs& knobs,
                                      int sm_count);

// "ws::FoldConfig<...>" or "ws::FoldStagedConfig<...>"
std::string FoldConfigText(const FoldChoice& choice);
// Whether each thread of a staged box has so many outputs that blocks of fewer threads wait less.
bool WantsFewThreads(const FoldChoice& choice);
// The device function of that form: "ws::fold".
const char* FoldFunction(const FoldChoice& choice);

// Kernels `name(const T* x, float* y)`, or with a split `name(x, y, partial)` and `name_combine`,
// that sum fp32 (4 bytes), bf16 (2) or unsigned char (1) over the axes that are not kept; for tests
// and benchmarks.
std::string FoldSumSource(const FoldProblem& problem, const FoldChoice& choice,
                          const std::string& name);

}  // namespace warpsmith::kernels
