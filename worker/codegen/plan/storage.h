// Which tensors are in memory, where, and which need no memory of their own.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "warpsmith/v1/solution.pb.h"
#include "worker/codegen/group/structure.h"

namespace warpsmith::codegen {

// Of the structure's groups those whose kernels are done once for each version of the weights
// (Plan.prepare): all that they make depends on constant weights alone, and is no answer.
std::vector<bool> PreparedGroups(const graph::Graph& graph, const Structure& structure);

// Buffers of a plan: inputs, params and states as the graph lists them, outputs, then workspace and
// what was prepared. Tensors between groups that do not live together share a buffer; with
// `branches`, where groups run beside each other, those of which one lives after the other whatever
// the order of groups that do not need each other.
class Storage {
 public:
  // `in_place`: states that the kernel of this tensor may overwrite: tensor -> state. `prepared`:
  // PreparedGroups.
  Storage(const graph::Graph& graph, const Structure& structure, const std::map<int, int>& in_place,
          const std::vector<bool>& prepared, bool branches, v1::Plan& plan);

  // -1: it is not there, as in what is prepared most tensors are not.
  int BufferOf(int tensor) const {
    const auto found = buffers_.find(Base(tensor));
    return found == buffers_.end() ? -1 : found->second;
  }
  // That of the plan's prepare; nullptr: weights are no constants, or this is it.
  Storage* preparation() const { return preparation_.get(); }
  // Memory that the plan's prepare leaves to the plan: its buffers there, and here.
  struct Left {
    int there = -1, here = -1;
  };
  Left AddPrepared(const std::string& name, int64_t bytes);
  // The state that the tensor's kernel overwrites; -1: none.
  int StateOf(int tensor) const;
  // The group (of the structure) whose kernels are written next.
  void Begin(int group) {
    now_ = group;
    if (preparation_) preparation_->now_ = group;
  }
  // Memory that lives as long as the group that is being written.
  int AddWorkspace(const std::string& name, int64_t bytes);
  // Outputs and states that are not where they belong yet.
  void AddFinalCopies();

 private:
  struct Life {
    std::set<int> groups;  // that touch it; the first one writes it
    int from() const { return *groups.begin(); }
    int to() const { return *groups.rbegin(); }
  };

  struct OfPreparation {};
  Storage(const graph::Graph& graph, const Structure& structure, v1::Plan& plan, OfPreparation);

  int Base(int tensor) const { return structure_.Base(tensor); }
  int AddBuffer(v1::Buffer::Kind kind, int tensor);
  int AddWords(v1::Buffer::Kind kind, const std::string& name, int64_t bytes);
  std::set<int> ReadBy(const std::vector<bool>& groups) const;  // base tensors
  // Where the groups of which `mine` says so leave what others need.
  void PlaceBetweenGroups(const std::vector<bool>& mine);
  int Claim(const std::string& name, int64_t bytes, const Life& life);
  // Whether both may be there at once.
  bool Meet(const Life& a, const Life& b) const;

  const graph::Graph& graph_;
  const Structure& structure_;
  const std::map<int, int> in_place_;
  v1::Plan& plan_;
  int now_ = 0;
  std::map<int, int> buffers_;       // base tensor -> buffer
  std::vector<int> output_buffers_;  // by position in graph.outputs
  std::map<int, int> state_buffers_;
  std::map<int, std::vector<Life>> lives_;  // of what workspace buffers hold
  // Of each group, and of what is behind all, the groups that have ended before; empty: all that
  // are before it have.
  std::vector<std::vector<bool>> needed_;
  std::unique_ptr<Storage> preparation_;
};

}  // namespace warpsmith::codegen
