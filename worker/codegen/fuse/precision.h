// How first schedules compute: approximate functions where what is stored does not tell, products
// rounded one by one where a hair's difference would become a large one (docs/decisions/0017,
// 0021).
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
  const graph::Graph& graph_;
  std::set<int> states_;  // what float states are made of
};

}  // namespace warpsmith::codegen
