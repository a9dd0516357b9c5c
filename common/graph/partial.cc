#include "common/graph/partial.h"

namespace warpsmith::graph {
namespace {

// An element at the node's own indexes.
bool IsOwnElement(const Expr& e, size_t rank) {
  if (e.op != Op::kLoad || e.args.size() != rank) return false;
  for (size_t a = 0; a < e.args.size(); ++a) {
    if (e.args[a]->op != Op::kIndex || e.args[a]->var != static_cast<int>(a)) return false;
  }
  return true;
}

}  // namespace

std::vector<PartialUpdate> PartialMapsOf(const Graph& graph, int tensor) {
  const Tensor& t = graph.tensors[tensor];
  if (t.node < 0 || !graph.nodes[t.node].map()) return {};
  const Expr& value = *graph.nodes[t.node].value;
  if (value.op != Op::kSelect) return {};
  std::vector<PartialUpdate> partial;
  for (bool where : {true, false}) {
    const Expr& stays = *value.args[where ? 2 : 1];
    if (IsOwnElement(stays, t.shape.size()) && graph.tensors[stays.tensor].shape == t.shape)
      partial.push_back({value.args[0], value.args[where ? 1 : 2], where, stays.tensor});
  }
  return partial;
}

std::optional<PartialUpdate> PartialUpdateOf(const Graph& graph, const Graph::Update& update) {
  for (const PartialUpdate& partial : PartialMapsOf(graph, update.value)) {
    if (partial.base == update.state) return partial;
  }
  return std::nullopt;
}

std::vector<Interval> ChangedBox(const Graph& graph, int tensor, const PartialUpdate& partial) {
  std::vector<Interval> box;
  for (int64_t extent : graph.tensors[tensor].shape) box.push_back({0, extent - 1});
  Narrow(partial.condition, partial.where, box);
  return box;
}

}  // namespace warpsmith::graph
