// Which tensors are in memory, where, and which need no memory of their own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "warpsmith/v1/solution.pb.h"
#include "worker/codegen/group/structure.h"

namespace warpsmith::codegen {

// Buffers of a plan: inputs, params and states as the graph lists them, outputs, then workspace.
// Tensors between groups that do not live together share a buffer.
class Storage {
 public:
  // `in_place`: states that the kernel of this tensor may overwrite: tensor -> state.
  Storage(const graph::Graph& graph, const Structure& structure, const std::map<int, int>& in_place,
          v1::Plan& plan);

  int BufferOf(int tensor) const { return buffers_.at(Base(tensor)); }
  // The state that the tensor's kernel overwrites; -1: none.
  int StateOf(int tensor) const;
  // The group (of the structure) whose kernels are written next.
  void Begin(int group) { now_ = group; }
  // Memory that lives as long as the group that is being written.
  int AddWorkspace(const std::string& name, int64_t bytes);
  // Outputs and states that are not where they belong yet.
  void AddFinalCopies();

 private:
  struct Life {  // groups, both ends inclusive
    int from = 0, to = 0;
  };

  int Base(int tensor) const;
  int AddBuffer(v1::Buffer::Kind kind, int tensor);
  void PlaceBetweenGroups(const Structure& structure);
  int Claim(const std::string& name, int64_t bytes, Life life);

  const graph::Graph& graph_;
  const Structure& structure_;
  const std::map<int, int> in_place_;
  v1::Plan& plan_;
  int now_ = 0;
  std::map<int, int> buffers_;       // base tensor -> buffer
  std::vector<int> output_buffers_;  // by position in graph.outputs
  std::map<int, int> state_buffers_;
  std::map<int, std::vector<Life>> lives_;  // of what workspace buffers hold
};

}  // namespace warpsmith::codegen
