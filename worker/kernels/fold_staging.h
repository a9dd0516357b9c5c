// How the skeleton `fold` goes through a box in shared memory (fold_staged.cuh): which threads take
// which of its elements. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/kernels/fold_boxes.h"

namespace warpsmith::kernels {

// As ws::FoldStagedConfig.
struct FoldStaging {
  int stages = 0;  // 0: boxes are not staged
  int along = 1, across = 1, lane_axis = -1, slots = 1;
  FoldBox box;
  int64_t steps = 1;  // of a job
  int shared_bytes = 0;
  // Of the time that a multiprocessor's part of the memory's speed leaves for a box, what its
  // threads take: above 1 they hold the memory up.
  double load = 0;
};

struct FoldStagingProblem {
  std::vector<FoldAxis> axes;
  std::vector<int> stream_bytes;  // of an element of each tensor that is staged
  int acc_bytes = 4;
  int threads = 256;
  int sm_count = 132;
  int shared_bytes = 64 << 10;  // of a block, at most
};

// The best; stages 0 where the axes' elements do not lie side by side, or nothing fits.
FoldStaging StageFold(const FoldStagingProblem& problem);

}  // namespace warpsmith::kernels
