#include "worker/codegen/group/domain.h"

#include <algorithm>
#include <set>

namespace warpsmith::codegen {

using graph::Node;

int64_t Product(const std::vector<graph::Axis>& axes) { return Product(ExtentsOf(axes)); }

int64_t Product(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (int64_t extent : extents) n *= extent;
  return n;
}

std::vector<int64_t> ExtentsOf(const std::vector<graph::Axis>& axes) {
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

const StageNode* Domain::Find(int node) const {
  for (const StageNode& stage : nodes) {
    if (stage.node == node) return &stage;
  }
  return nullptr;
}

const TotalNode* Domain::FindTotal(int node) const {
  for (const TotalNode& total : totals) {
    if (total.node == node) return &total;
  }
  return nullptr;
}

bool Domain::partial() const {
  return std::any_of(roots.begin(), roots.end(),
                     [](const RootPlace& root) { return root.base >= 0 || root.scatter; });
}

int64_t Domain::segment_count() const {
  int64_t count = 1;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (IsSegment(a)) count *= axes[a].extent();
  }
  return count;
}

std::vector<DomainAxis> Domain::AxesOf(Level level) const {
  std::vector<DomainAxis> own;
  for (size_t a = 0; a < axes.size(); ++a) {
    const bool kept = axes[a].role == Role::kKept;
    if (level == Level::kPoints || (level == Level::kRows ? kept : !kept || IsSegment(a)))
      own.push_back(axes[a]);
  }
  return own;
}

std::vector<int64_t> Domain::Extents(Role role) const {
  std::vector<int64_t> extents;
  for (const DomainAxis& axis : axes) {
    if (axis.role == role) extents.push_back(axis.extent());
  }
  return extents;
}

int64_t Domain::Points(Role role) const { return Product(Extents(role)); }

std::vector<bool> InnerAxes(const Domain& domain) {
  std::vector<bool> inner(domain.axes.size());
  int64_t run = 1;
  for (bool grown = true; grown && domain.pattern.known;) {
    grown = false;
    for (int a = static_cast<int>(domain.axes.size()) - 1; a >= 0; --a) {
      const DomainAxis& axis = domain.axes[a];
      if (axis.role == Role::kKept && !inner[a] && domain.pattern.stride[a] == run) {
        inner[a] = true;
        run *= axis.extent();
        grown = true;
        break;
      }
    }
  }
  return inner;
}

int64_t ReducedRun(const Domain& domain) {
  int64_t run = 1;
  bool any = false;
  for (bool grown = domain.pattern.known; grown;) {
    grown = false;
    for (size_t a = 0; a < domain.axes.size(); ++a) {
      if (domain.axes[a].role == Role::kReduced && domain.pattern.stride[a] == run) {
        run *= domain.axes[a].extent();
        grown = any = true;
        break;
      }
    }
  }
  return any ? run : 0;
}

std::vector<int> ResultsOf(const graph::Graph& graph) {
  std::vector<int> results = graph.outputs;
  for (const auto& update : graph.updates) results.push_back(update.value);
  return results;
}

std::vector<int> NeededNodes(const graph::Graph& graph, const std::vector<int>& roots,
                             const InMemory& in_memory) {
  std::set<int> nodes;
  std::vector<int> work;
  for (int root : roots) {
    if (graph.tensors[root].node >= 0) work.push_back(graph.tensors[root].node);
  }
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    if (!nodes.insert(id).second) continue;
    for (int tensor : graph::LoadedTensors(graph.nodes[id].value)) {
      if (!in_memory(tensor)) work.push_back(graph.tensors[tensor].node);
    }
  }
  return {nodes.begin(), nodes.end()};
}

int LargestReduce(const graph::Graph& graph, const std::vector<int>& roots,
                  const InMemory& in_memory) {
  int largest = -1;
  int64_t most = 0;
  for (int id : NeededNodes(graph, roots, in_memory)) {
    const Node& node = graph.nodes[id];
    if (!node.reduce) continue;
    const int64_t size = Product(node.axes) * Product(node.reduce_axes);
    if (size <= most) continue;
    most = size;
    largest = id;
  }
  return largest;
}

}  // namespace warpsmith::codegen
