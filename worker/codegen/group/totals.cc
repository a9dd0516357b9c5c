#include "worker/codegen/group/totals.h"

#include <optional>
#include <utility>

#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/bijection.h"

namespace warpsmith::codegen {

using graph::Node;

namespace {

std::vector<graph::Axis> AllAxes(const Node& node) {
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  return axes;
}

// Each axis along the one of the domain that steps as far through memory; those that read nothing
// along the first left of their extent. Empty: some have none.
std::vector<Index> AlongMemory(const Node& node, const Reading& reading, const Domain& domain) {
  const std::vector<graph::Axis> axes = AllAxes(node);
  std::vector<Index> at(axes.size(), Index(0));
  std::vector<bool> used(domain.axes.size()), done(axes.size());
  for (bool by_stride : {true, false}) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].extent == 1 || done[i]) continue;
      for (size_t a = 0; a < domain.axes.size() && !done[i]; ++a) {
        const int64_t stride = domain.pattern.stride[a];
        if (used[a] || domain.axes[a].extent() != axes[i].extent ||
            (by_stride && (stride == 0 || stride != reading.stride[i])))
          continue;
        at[i] = Index::Of(domain.axes[a].variable);
        used[a] = done[i] = true;
      }
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].extent > 1 && !done[i]) return {};
  }
  return at;
}

// Places in the order of the reduced axes, rows in that of the kept ones.
std::vector<Index> InOrder(const Node& node, const Domain& domain) {
  if (Product(node.axes) != domain.reduced() || Product(node.reduce_axes) != domain.kept())
    return {};
  std::vector<Index> at = Along(domain, Role::kReduced, ExtentsOf(node.axes));
  const std::vector<Index> rows = Along(domain, Role::kKept, ExtentsOf(node.reduce_axes));
  at.insert(at.end(), rows.begin(), rows.end());
  return at;
}

// The kept axes that it keeps, if it reduces over all others and no reduced one, and is computed
// once at each point.
std::optional<std::vector<bool>> SegmentsOf(const Node& node, const std::vector<Index>& at,
                                            const Domain& domain) {
  uint64_t own = 0, over = 0;
  for (size_t i = 0; i < at.size(); ++i) (i < node.axes.size() ? own : over) |= at[i].variables();
  if ((own & over) != 0) return std::nullopt;
  std::vector<bool> segments(domain.axes.size());
  for (size_t a = 0; a < domain.axes.size(); ++a) {
    const bool kept = domain.axes[a].role == Role::kKept;
    const bool its = (own & (uint64_t{1} << domain.axes[a].variable.id)) != 0;
    if (!kept && !its) return std::nullopt;
    segments[a] = kept && its;
  }
  if (!IsBijection(at, ExtentsOf(AllAxes(node)), domain.axes)) return std::nullopt;
  return segments;
}

}  // namespace

void PlaceTotals(const graph::Graph& graph, const std::map<int, Reading>& readings,
                 Domain& domain) {
  for (const auto& [id, reading] : readings) {
    const Node& node = graph.nodes[id];
    if (id == domain.primary) continue;
    // What runs along memory as the primary does is a stage, of whatever size.
    if (RunsAlong(node, reading)) continue;
    std::vector<std::vector<Index>> places = {InOrder(node, domain)};
    if (reading.known) places.insert(places.begin(), AlongMemory(node, reading, domain));
    for (const std::vector<Index>& at : places) {
      if (at.size() != node.axes.size() + node.reduce_axes.size()) continue;
      const auto segments = SegmentsOf(node, at, domain);
      if (!segments.has_value() || (!domain.totals.empty() && *segments != domain.segments))
        continue;
      domain.segments = *segments;
      domain.totals.push_back({id, at});
      break;
    }
  }
}

}  // namespace warpsmith::codegen
