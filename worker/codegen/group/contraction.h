// Sums of products of two tensors as matrix products, one for each place of a batch:
//
//   y[batch, m, n] = sum of k: a[batch, m, k] * b[batch, n, k]
//
// They are recognised by where factors lie in memory along the node's axes, whatever anything is
// called: an axis of one factor alone is a row of it (M or N), one of both is the batch, one that
// is summed over is K.
//
//   s: f32[h: 16, i: 64, j: 32] = sum[d: 128](f32(q[i, h, d]) * f32(k[j, h, d]))
//     batch 16 (strides 128, 128, 2048), m 64 (2048; 32), n 32 (2048; 1), k 128 (1, 1)
//
// Strides are in elements of the tensor. Axes that follow each other in all that they stand in are
// one; extents of 1 are none.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/graph/graph.h"
#include "worker/codegen/group/domain.h"

namespace warpsmith::codegen {

struct Factor {
  int tensor = -1;
  int64_t offset = 0;      // of its first element
  int64_t row = 0, k = 0;  // strides; 0 where the extent is 1
  int64_t rows = 1;        // M of a, N of b
  int64_t out = 0;         // stride of the result along its rows
};

struct BatchAxis {
  int64_t extent = 1;
  int64_t a = 0, b = 0, out = 0;  // strides; a or b 0: all places share it
};

struct Contraction {
  Factor a, b;  // b's rows are the result's innermost axis, where one of them is
  int64_t k = 1;
  std::vector<BatchAxis> batch;            // outermost first in the result
  graph::DType type = graph::DType::kF32;  // of both factors in memory
  graph::DType sums = graph::DType::kF32;  // in which products are made and added
};

// InvalidArgument says why the node is none: it is not the sum of the product of two elements in
// memory of one type (each perhaps cast to a wider one), reads under a condition or at places that
// are not affine, sums over what one factor alone has, or its rows or its K are not one axis.
absl::StatusOr<Contraction> ContractionOf(const graph::Graph& graph, const graph::Node& node,
                                          const InMemory& in_memory);

}  // namespace warpsmith::codegen
