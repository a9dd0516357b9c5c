#include "worker/codegen/codegen.h"
namespace warpsmith::codegen {
v1::Schedule OpByOpSchedule(const graph::Graph& graph, const Target&) {
  v1::Schedule s;
  for (const auto& n : graph.nodes) { auto* g = s.add_groups(); for (int t : n.outputs) g->add_roots(graph.tensors[t].name); }
  return s;
}
v1::Schedule DefaultSchedule(const graph::Graph& graph, const Target& target) { return OpByOpSchedule(graph, target); }
}
