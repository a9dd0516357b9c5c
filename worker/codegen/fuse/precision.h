// How first schedules compute: approximate functions where what is stored does not tell, products
// rounded one by one where a hair's difference would become a large one, sums in fp64 where they
// become exponents, or where products are summed and each element has what they come to subtracted
// from it (docs/decisions/0017, 0021, 0023, 0026).
#pragma once

#include <set>
#include <vector>

#include "common/graph/graph.h"
#include "warpsmith/v1/schedule.pb.h"

namespace warpsmith::codegen {

// Of one graph, which outlives it. Thread-safe.
class FirstPrecision {
 public:
  explicit FirstPrecision(const graph::Graph& graph);
  // Sets what is not automatic of the group that computes `roots` and finds `reads` in memory.
  void Choose(const std::vector<int>& roots, const std::set<int>& reads, v1::Group& group) const;

 private:
  // Whether one of the nodes is computed for the tensor where `reads` are in memory.
  bool Computes(int tensor, const std::set<int>& reads, const std::set<int>& nodes) const;

  const graph::Graph& graph_;
  std::set<int> states_;      // what float states are made of
  std::set<int> exponents_;   // running sums that exponentials are taken of, nodes
  std::set<int> subtracted_;  // sums of products that elements have subtracted from them, nodes
};

}  // namespace warpsmith::codegen
