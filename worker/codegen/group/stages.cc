// A group as stages.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/placement.h"
#include "worker/codegen/group/reading.h"
#include "worker/codegen/group/totals.h"
#include "worker/codegen/group/trace.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using graph::DType;
using graph::Node;

namespace {

StageNode PlaceNode(const graph::Graph& graph, const Domain& domain, int id,
                    const Reading& reading) {
  const Node& node = graph.nodes[id];
  StageNode stage;
  stage.node = id;
  stage.at = Along(domain, Role::kKept, ExtentsOf(node.axes));
  const std::vector<int> order = ReduceOrder(node, reading);
  std::vector<int64_t> ordered;
  for (int axis : order) ordered.push_back(node.reduce_axes[axis].extent);
  const std::vector<Index> position = Along(domain, Role::kReduced, ordered);
  const size_t kept = stage.at.size();
  stage.at.resize(kept + order.size());
  for (size_t a = 0; a < order.size(); ++a) stage.at[kept + order[a]] = position[a];
  return stage;
}

// Stages by dependency: one more than the latest stage that a reduce reads.
void NumberStages(const graph::Graph& graph, const InMemory& in_memory, Domain& domain) {
  std::map<int, int> last;  // node -> last stage it depends on, -1
  std::function<int(int)> visit = [&](int id) -> int {
    auto found = last.find(id);
    if (found != last.end()) return found->second;
    int stage = -1;
    auto joined = domain.online.find(id);
    if (domain.online_used && joined != domain.online.end()) {
      // Of the stage of its maximum, which reads all that the sum reads beside it.
      stage = visit(joined->second) - 1;
    } else {
      for (int tensor : graph::LoadedTensors(graph.nodes[id].value)) {
        if (!in_memory(tensor)) stage = std::max(stage, visit(graph.tensors[tensor].node));
      }
    }
    for (StageNode& node : domain.nodes) {
      if (node.node != id) continue;
      node.stage = ++stage;
    }
    return last[id] = stage;
  };
  domain.stages = 0;
  for (StageNode& node : domain.nodes) {
    visit(node.node);
    domain.stages = std::max(domain.stages, node.stage + 1);
  }
}

// Pairs of a maximum and the sum of exp(the same - that maximum); a maximum is in one pair.
void FindOnline(const Kernel& kernel, Domain& domain) {
  std::set<int> taken;
  for (const Kernel::Reduce& sum : kernel.reduces) {
    const ValuePtr v = sum.value;
    if (v->kind != Value::Kind::kOp || v->op != graph::Op::kExp ||
        (v->type != DType::kF32 && v->type != DType::kF64))
      continue;
    const ValuePtr d = v->args[0];
    if (d->kind != Value::Kind::kOp || d->op != graph::Op::kSub ||
        d->args[1]->kind != Value::Kind::kResult)
      continue;
    for (const Kernel::Reduce& max : kernel.reduces) {
      if (max.node == d->args[1]->node && max.value == d->args[0] && sum.stage == max.stage + 1 &&
          taken.insert(max.node).second) {
        domain.online[sum.node] = max.node;
      }
    }
  }
}

// The axes of a reduce, and how it reads along them.
Domain DomainAlong(const graph::Graph& graph, int primary, Reading reading) {
  Domain domain;
  domain.primary = primary;
  const Node& node = graph.nodes[primary];
  const std::vector<int> order = ReduceOrder(node, reading);
  reading.stride.resize(node.axes.size() + node.reduce_axes.size());
  for (size_t a = 0; a < node.axes.size(); ++a)
    AddAxis(node.axes[a], Role::kKept, reading.stride[a], domain);
  for (int a : order)
    AddAxis(node.reduce_axes[a], Role::kReduced, reading.stride[node.axes.size() + a], domain);
  domain.pattern.known = reading.known;
  domain.pattern.guarded = reading.guarded;
  domain.pattern.overlapping = reading.overlapping;
  domain.pattern.parted = reading.parted;
  return domain;
}

// The domain, which has its axes and totals, with these reduces as its stages.
absl::StatusOr<Domain> WithStages(const graph::Graph& graph, const std::vector<int>& roots,
                                  const InMemory& in_memory, const std::set<int>& stage_nodes,
                                  Domain domain, bool cropped = false) {
  std::set<int> placed = stage_nodes;
  for (const TotalNode& total : domain.totals) placed.insert(total.node);
  for (int id : stage_nodes) {
    Traced own;
    Trace(graph, in_memory, placed, graph.nodes[id], own);
    if (!own.status.ok()) return own.status;
    domain.nodes.push_back(PlaceNode(graph, domain, id, ReadingOf(graph.nodes[id], own, graph)));
  }
  NumberStages(graph, in_memory, domain);
  const absl::Status s = PlaceRoots(graph, in_memory, placed, roots, cropped, domain);
  if (!s.ok()) return s;
  auto built = BuildKernel(graph, domain, in_memory,
                           [&](Values& values) { return PointFrame(domain, values); });
  if (!built.ok()) return built.status();
  FindOnline(*built, domain);
  return domain;
}

// Those of `nodes` that reduce as many rows of as many elements as the primary does.
std::set<int> SameSizes(const graph::Graph& graph, const std::vector<int>& nodes, int primary) {
  std::set<int> same;
  for (int id : nodes) {
    const Node &node = graph.nodes[id], &first = graph.nodes[primary];
    if (Product(node.axes) == Product(first.axes) &&
        Product(node.reduce_axes) == Product(first.reduce_axes))
      same.insert(id);
  }
  return same;
}

// Rows with totals beside them: some of the reduces run along memory, and all others are stages
// beside those or reduce over their rows. Nothing: there are no such totals.
std::optional<absl::StatusOr<Domain>> WithTotals(const graph::Graph& graph,
                                                 const std::vector<int>& roots,
                                                 const InMemory& in_memory,
                                                 const std::vector<int>& large) {
  const std::set<int> all(large.begin(), large.end());
  std::map<int, Reading> readings;
  int primary = -1;
  for (int id : large) {
    Traced traced;
    Trace(graph, in_memory, all, graph.nodes[id], traced);
    if (!traced.status.ok()) return std::nullopt;
    readings[id] = ReadingOf(graph.nodes[id], traced, graph);
    if (primary < 0 && RunsAlong(graph.nodes[id], readings[id])) primary = id;
  }
  if (primary < 0) return std::nullopt;
  Domain domain = DomainAlong(graph, primary, readings[primary]);
  PlaceTotals(graph, readings, domain);
  if (domain.totals.empty()) return std::nullopt;
  std::set<int> stages;
  for (int id : SameSizes(graph, large, primary)) {
    if (domain.FindTotal(id) == nullptr) stages.insert(id);
  }
  if (stages.size() + domain.totals.size() < large.size()) return std::nullopt;
  return WithStages(graph, roots, in_memory, stages, std::move(domain));
}

}  // namespace

absl::StatusOr<Domain> StagesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory, bool cropped) {
  const int primary = LargestReduce(graph, roots, in_memory);
  if (primary < 0) return absl::InvalidArgumentError("it has no reduce");
  const auto points = [&](const Node& node) {
    return Product(node.axes) * Product(node.reduce_axes);
  };
  std::vector<int> large;
  for (int id : NeededNodes(graph, roots, in_memory)) {
    if (graph.nodes[id].reduce && points(graph.nodes[id]) == points(graph.nodes[primary]))
      large.push_back(id);
  }
  absl::Status why;
  if (large.size() > 1) {
    auto domain = WithTotals(graph, roots, in_memory, large);
    if (domain.has_value() && domain->ok()) return *domain;
    if (domain.has_value()) why = domain->status();
  }
  const std::set<int> stages = SameSizes(graph, large, primary);
  Traced traced;
  Trace(graph, in_memory, stages, graph.nodes[primary], traced);
  if (!traced.status.ok()) return traced.status;
  auto domain = WithStages(
      graph, roots, in_memory, stages,
      DomainAlong(graph, primary, ReadingOf(graph.nodes[primary], traced, graph)), cropped);
  // Of a group that has both ways of reducing, what stands in the way of both together tells most.
  if (!domain.ok() && !why.ok()) return why;
  return domain;
}

void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Domain& domain) {
  domain.online_used = !domain.online.empty();
  NumberStages(graph, in_memory, domain);
}

}  // namespace warpsmith::codegen
