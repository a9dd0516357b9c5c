#include "worker/codegen/group/trace.h"

#include "worker/codegen/ir/inline.h"

namespace warpsmith::codegen {

using graph::Node;

void Trace(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& stage_nodes,
           const Node& node, Traced& traced) {
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  for (const graph::Axis& axis : axes) {
    traced.env.push_back(Index::Of(traced.values.NewVariable(axis.name, {0, axis.extent - 1})));
  }
  TensorAccess access;
  access.in_memory = in_memory;
  access.observe = [&](int tensor, const std::vector<Index>& at) {
    traced.inlined.emplace(tensor, at);
  };
  access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
    const int producer = graph.tensors[tensor].node;
    if (stage_nodes.count(producer) == 0) return nullptr;
    traced.stage_reads.push_back({tensor, at});
    return traced.values.Result(producer, graph.nodes[producer].outputs[0] == tensor ? 0 : 1, 0,
                                graph.tensors[tensor].type, 0);
  };
  Inliner inliner(graph, traced.values, access);
  auto value = inliner.Body(node, traced.env);
  traced.status = value.status();
  if (value.ok()) traced.value = *value;
}

}  // namespace warpsmith::codegen
