// Stages that sum squares around means of the stage before. Their threads and blocks need not meet
// for the mean first: each part takes the squares around the mean of its own elements, and parts
// are put together afterwards, in one meeting (Chan, Golub and LeVeque, "Algorithms for computing
// the sample variance", The American Statistician 37(3), 1983; docs/decisions/0018).
//
//   mean[r] = sum[k](v[r, k]) / K,  squares[r] = sum[k]((v[r, k] - mean[r])^2)
//
// with any expression v, the mean a division by K or a product with 1 / K.
#pragma once

#include <vector>

#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

struct CentredSquares {
  int sum = -1, squares = -1;  // of Kernel::reduces
  ValuePtr mean = nullptr;     // as the squares read it
};

// The sums of squares of a stage, each with its sum in the stage before; empty unless that is all
// the stage has. In the order of Kernel::reduces.
std::vector<CentredSquares> CentredSquaresOf(const graph::Graph& graph, const Domain& domain,
                                             const Kernel& kernel, int stage);

// The stages whose sums and the next stage's squares meet as one, ascending; no two overlap.
std::vector<int> JoinedStages(const graph::Graph& graph, const Domain& domain,
                              const Kernel& kernel);

}  // namespace warpsmith::codegen
