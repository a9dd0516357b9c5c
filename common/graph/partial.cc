#include "common/graph/partial.h"

namespace warpsmith::graph {
namespace {

// The state's element at the node's own indexes.
bool IsOwnElement(const Expr& e, int state) {
  if (e.op != Op::kLoad || e.tensor != state) return false;
  for (size_t a = 0; a < e.args.size(); ++a) {
    if (e.args[a]->op != Op::kIndex || e.args[a]->var != static_cast<int>(a)) return false;
  }
  return true;
}

}  // namespace

std::optional<PartialUpdate> PartialUpdateOf(const Graph& graph, const Graph::Update& update) {
  const int n = graph.tensors[update.value].node;
  if (n < 0 || !graph.nodes[n].map()) return std::nullopt;
  const Expr& value = *graph.nodes[n].value;
  if (value.op != Op::kSelect) return std::nullopt;
  for (bool where : {true, false}) {
    if (IsOwnElement(*value.args[where ? 2 : 1], update.state))
      return PartialUpdate{value.args[0], value.args[where ? 1 : 2], where};
  }
  return std::nullopt;
}

std::vector<Interval> ChangedBox(const Graph& graph, const Graph::Update& update,
                                 const PartialUpdate& partial) {
  std::vector<Interval> box;
  for (int64_t extent : graph.tensors[update.value].shape) box.push_back({0, extent - 1});
  Narrow(partial.condition, partial.where, box);
  return box;
}

}  // namespace warpsmith::graph
