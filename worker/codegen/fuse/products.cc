#include "worker/codegen/fuse/products.h"

#include <algorithm>
#include <map>

#include "worker/codegen/group/analysis.h"
#include "worker/codegen/skeleton/contract/form.h"

namespace warpsmith::codegen {
namespace {

using graph::ExprPtr;

// The tensor that a factor is an element of, perhaps cast; -1: it is something else.
int TensorOf(ExprPtr factor) {
  if (factor->op == graph::Op::kCast) factor = factor->args[0];
  return factor->op == graph::Op::kLoad ? factor->tensor : -1;
}

// Whether a kernel of a product of matrices can write these, where inputs and `stored` are in
// memory.
bool IsOneProduct(const graph::Graph& graph, const std::vector<int>& roots,
                  const std::set<int>& stored) {
  std::set<int> memory = stored;
  for (int t : roots) memory.erase(t);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node < 0) memory.insert(static_cast<int>(t));
  }
  const Analysis group(graph, roots, memory);
  return group.stages().ok() && FormContract(group, *group.stages()).status.ok();
}

}  // namespace

int ViewedBy(const graph::Graph& graph, int tensor) {
  for (;;) {
    const int node = graph.tensors[tensor].node;
    if (node < 0 || !graph.nodes[node].map()) return tensor;
    const ExprPtr& value = graph.nodes[node].value;
    if (value->op != graph::Op::kLoad) return tensor;
    tensor = value->tensor;
  }
}

bool IsProduct(const graph::Graph& graph, int node, const std::set<int>& stored,
               const Target& target, std::vector<int>* to_store) {
  const graph::Node& reduce = graph.nodes[node];
  if (!reduce.reduce || reduce.combiner != graph::Combiner::kSum ||
      reduce.value->op != graph::Op::kMul)
    return false;
  if (!IsOneProduct(graph, reduce.outputs, stored)) return false;
  if (target.tensor_products_per_second == 0 || target.fibers()) return true;
  // A, B and the factors may stand in either order.
  for (const ExprPtr& factor : reduce.value->args) {
    const int tensor = TensorOf(factor);
    if (tensor < 0) continue;
    const int source = ViewedBy(graph, tensor);
    const int producer = graph.tensors[source].node;
    const bool half = graph.tensors[source].type == graph::DType::kBF16 ||
                      graph.tensors[source].type == graph::DType::kF16;
    if (half && producer >= 0 && graph.nodes[producer].map() && stored.count(source) == 0)
      to_store->push_back(source);
  }
  return true;
}

int LastOfEpilogue(const graph::Graph& graph, int sum, const std::vector<int>& needed,
                   const std::set<int>& required, const std::set<int>& taken) {
  const int64_t elements = graph.tensors[sum].elements();
  // Behind the sum: of each map's tensor those that all ways to it lead through, itself among them.
  std::map<int, std::set<int>> through = {{sum, {sum}}};
  std::set<int> all;  // through which every use outside of the maps leads
  bool used = false;
  const auto use = [&](int tensor) {
    const std::set<int>& ways = through[tensor];
    std::set<int> both;
    std::set_intersection(all.begin(), all.end(), ways.begin(), ways.end(),
                          std::inserter(both, both.begin()));
    all = used ? both : ways;
    used = true;
  };
  if (required.count(sum) > 0) return sum;
  // Of each tensor the last node that is no map and that it is made of, through maps.
  std::vector<int> latest(graph.tensors.size(), -1);
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    for (int t : node.outputs) latest[t] = node.map() ? -1 : id;
    if (!node.map()) continue;
    for (int t : graph::LoadedTensors(node.value))
      latest[node.outputs[0]] = std::max(latest[node.outputs[0]], latest[t]);
  }
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    std::vector<int> from;
    for (int t : graph::LoadedTensors(node.value)) {
      if (through.count(t) > 0) from.push_back(t);
    }
    if (from.empty()) continue;
    const int tensor = node.outputs[0];
    if (!node.map() || graph.tensors[tensor].elements() != elements ||
        latest[tensor] > graph.tensors[sum].node || taken.count(tensor) > 0) {
      for (int t : from) use(t);
      continue;
    }
    std::set<int> ways = through[from[0]];
    for (int t : from) {
      std::set<int> both;
      std::set_intersection(ways.begin(), ways.end(), through[t].begin(), through[t].end(),
                            std::inserter(both, both.begin()));
      ways = both;
    }
    ways.insert(tensor);
    through[tensor] = ways;
    if (required.count(tensor) > 0) use(tensor);
  }
  int best = sum;
  std::set<int> before;  // what the kernel may read
  for (int id : needed) {
    const graph::Node& node = graph.nodes[id];
    for (int t : node.outputs) {
      if (all.count(t) > 0 && graph.tensors[t].bytes() <= graph.tensors[best].bytes()) best = t;
      if (!node.map() && id < graph.tensors[sum].node) before.insert(t);
    }
  }
  return IsOneProduct(graph, {best}, before) ? best : sum;
}

}  // namespace warpsmith::codegen
