// Which tensors are in memory, where, and which need no memory of their own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "warpsmith/v1/solution.pb.h"
#include "worker/codegen/group/space.h"

namespace warpsmith::codegen {

// A schedule's groups as work: what each computes and what is in memory before it.
struct GroupWork {
  int group = 0;            // in the schedule
  std::vector<int> roots;   // that it computes; without aliases. Empty: nothing to run
  std::set<int> in_memory;  // tensors that it may read
};

struct Work {
  std::vector<GroupWork> groups;
  std::map<int, int> alias;  // a root that is a reshape: the tensor whose memory it shares
};

// Checks a schedule against a graph: roots exist once, order, nothing missing. InvalidArgument.
absl::StatusOr<Work> ArrangeWork(const graph::Graph& graph, const v1::Schedule& schedule);

// The tensor among `in_memory` whose elements in order are exactly those of `tensor`; -1: none.
int ReshapeOf(const graph::Graph& graph, int tensor, const InMemory& in_memory);

// Buffers of a plan: inputs, params and states as the graph lists them, outputs, then workspace.
class Storage {
 public:
  // `in_place`: states that the kernel of this tensor may overwrite: tensor -> state.
  Storage(const graph::Graph& graph, const Work& work, const std::map<int, int>& in_place,
          v1::Plan& plan);

  int BufferOf(int tensor) const { return buffers_.at(Base(tensor)); }
  int AddWorkspace(const std::string& name, const std::string& dtype, int64_t bytes);
  // Outputs and states that are not where they belong yet.
  void AddFinalCopies();

 private:
  int Base(int tensor) const;

  const graph::Graph& graph_;
  const Work& work_;
  v1::Plan& plan_;
  std::map<int, int> buffers_;       // base tensor -> buffer
  std::vector<int> output_buffers_;  // by position in graph.outputs
  std::map<int, int> state_buffers_;
};

}  // namespace warpsmith::codegen
