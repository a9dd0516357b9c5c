// A group round its scan.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/bijection.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::Node;

namespace {

// Roots of a scan's group lie where the scan does: the same axes but for some of extent 1, or the
// same place in row-major order.
absl::Status PlaceBesideScan(const graph::Graph& graph, const InMemory& in_memory, const Node& scan,
                             const std::vector<int>& roots, Domain& domain) {
  const std::vector<Index> at = domain.nodes[0].at;
  const std::vector<int64_t> extents = ExtentsOf(scan.axes);
  const auto plain = [](const std::vector<int64_t>& shape) {
    std::vector<int64_t> more;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(more),
                 [](int64_t extent) { return extent > 1; });
    return more;
  };
  for (int tensor : roots) {
    const graph::Tensor& t = graph.tensors[tensor];
    if (t.elements() != Product(extents)) {
      return absl::InvalidArgumentError(StrCat("root ", TensorName(graph, tensor), " has ",
                                               t.elements(), " elements, the scan ",
                                               TensorName(graph, scan.outputs[0]), " ",
                                               Product(extents), "; give it a group of its own"));
    }
    std::vector<Index> place;
    if (plain(t.shape) == plain(extents)) {
      size_t next = 0;
      for (int64_t extent : t.shape) {
        while (extent > 1 && extents[next] == 1) ++next;
        place.push_back(extent == 1 ? Index(0) : at[next++]);
      }
    } else {
      place = Unflatten(Flatten(at, extents), t.shape);
    }
    if (!IsBijection(place, t.shape, domain.axes)) {
      return absl::InvalidArgumentError(StrCat("root ", TensorName(graph, tensor),
                                               " does not lie along the scan of its group; give it "
                                               "a group of its own"));
    }
    domain.roots.push_back({tensor, Level::kPoints, place});
  }
  return BuildKernel(graph, domain, in_memory,
                     [&](Values& values) { return PointFrame(domain, values); })
      .status();
}

}  // namespace

absl::StatusOr<Domain> ScanOf(const graph::Graph& graph, const std::vector<int>& roots,
                              const InMemory& in_memory) {
  Domain domain;
  const std::vector<int> needed = NeededNodes(graph, roots, in_memory);
  for (int id : needed) {
    if (graph.nodes[id].scan) domain.primary = id;
  }
  if (domain.primary < 0) return absl::InvalidArgumentError("it has no scan");
  const Node& scan = graph.nodes[domain.primary];
  for (int id : needed) {
    if (graph.nodes[id].map() || id == domain.primary) continue;
    return absl::InvalidArgumentError(StrCat(TensorName(graph, graph.nodes[id].outputs[0]),
                                             " and the scan ", TensorName(graph, scan.outputs[0]),
                                             " need groups of their own"));
  }
  StageNode node;
  node.node = domain.primary;
  const int axis = scan.scan->axis;
  for (int a = 0; a < static_cast<int>(scan.axes.size()); ++a) {
    if (a != axis) AddAxis(scan.axes[a], Role::kKept, 0, domain);
  }
  AddAxis(scan.axes[axis], Role::kCarried, 0, domain);
  std::vector<int64_t> kept;
  for (int a = 0; a < static_cast<int>(scan.axes.size()); ++a) {
    if (a != axis) kept.push_back(scan.axes[a].extent);
  }
  node.at = Along(domain, Role::kKept, kept);
  const std::vector<Index> along = Along(domain, Role::kCarried, {scan.axes[axis].extent});
  node.at.insert(node.at.begin() + axis, along[0]);
  domain.nodes.push_back(node);
  if (absl::Status s = PlaceBesideScan(graph, in_memory, scan, roots, domain); !s.ok()) return s;
  return domain;
}

}  // namespace warpsmith::codegen
