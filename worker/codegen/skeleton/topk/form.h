// A group as a search for the first elements of rows, in order:
//
//   rank[.., c]  = sum of d: 1 where x[.., d] comes before x[.., c], or is equal and d < c
//   y[.., k]     = max of c: c where rank[.., c] is k, else 0
//
// which is how the graph language says top-k and sorting: each element is compared with each. Who
// wants but few of a row's finds them one after the other.
#pragma once

#include "absl/status/status.h"
#include "worker/codegen/group/analysis.h"

namespace warpsmith::codegen {

// Limits of the kernel (worker/kernels/topk.cuh), and of what is worth its rounds.
inline constexpr int64_t kMostRanked = 1024, kMostPlaces = 64;

struct TopkForm {
  absl::Status status;  // why it is none
  int root = -1;
  int64_t rows = 1, elements = 1, places = 1;  // of a row, and wanted of it
  bool descending = false;                     // the largest come first
  graph::DType type = graph::DType::kF32;      // of what is compared
  double steps = 0;                            // simple operations of an element
  // What is compared, over the frame's row and column; one root, written at a place of `place`.
  Kernel kernel;
  Variable place;
  // Rows kept, elements reduced. What estimates see has no roots: of the work the form tells.
  Domain domain, written;
};

TopkForm FormTopk(const Analysis& group);

}  // namespace warpsmith::codegen
