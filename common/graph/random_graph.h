// Random graphs, for tests that run what is generated from them against the oracle.
//
//   Graph graph = RandomGraph(seed);
//
// Every graph is valid, small, and well conditioned: values stay in the tens, and what is
// discontinuous (rounding, comparisons, argmax) is only applied to values that every evaluation
// gets exactly, so that a difference beyond rounding is a bug and not chance.
#pragma once

#include <cstdint>

#include "common/graph/graph.h"

namespace warpsmith::graph {

struct RandomGraphOptions {
  int64_t max_elements = 4096;  // of a tensor
  int max_moves = 5;            // patterns put together; each makes 1 to 5 nodes
  // No f64, f16, bf16, i32, i64 and bool tensors, but for the integers that argmax gives and
  // gathers take.
  bool only_f32 = false;
  bool scans = false;
  bool states = false;  // inputs that are states, some of them updated
  // Most axes have one extent, and axes of equal extent change places: sizes agree that mean
  // nothing.
  bool equal_extents = false;
  // After all other moves a tensor is reduced along its rows and over them, as backward passes do.
  bool both_ways = false;
  // Tensors are multiplied by new inputs as matrices, in batches too.
  bool products = false;
  // Rows of tensors are added to places that new inputs name, several to one, some to none.
  bool scatters = false;
  // The first elements of rows are found, in order.
  bool ranks = false;
};

// The same seed and options give the same graph.
Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace warpsmith::graph
