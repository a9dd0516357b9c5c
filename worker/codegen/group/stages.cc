// A group as stages.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/domain.h"
#include "worker/codegen/group/placement.h"
#include "worker/codegen/group/trace.h"
#include "worker/codegen/group/values.h"

namespace warpsmith::codegen {

using graph::DType;
using graph::Node;

namespace {

// How a reduce reads memory along its own axes, then its reduce axes.
struct Reading {
  bool known = false, guarded = false, overlapping = false;
  std::vector<int64_t> stride;  // of the main load; 0: none
};

// The load that runs along most of the reduced axes.
void FindMainLoad(const Node& node, const Traced& traced, const graph::Graph& graph,
                  const std::vector<graph::Axis>& axes, Reading& reading) {
  int64_t best = -1;
  for (ValuePtr value : traced.values.Closure({traced.value})) {
    if (value->kind != Value::Kind::kLoad) continue;
    std::vector<int64_t> stride(axes.size());
    int64_t reduced = 0, seen = 0;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (traced.env[a].is_constant()) continue;
      stride[a] = value->index.CoefficientOf(traced.env[a].terms()[0].atom->variable);
      if (stride[a] == 0) continue;
      ++seen;
      if (a >= node.axes.size()) ++reduced;
    }
    const int64_t score = reduced * 1000 + seen * 10 + (value->args.empty() ? 1 : 0);
    const int64_t elements = graph.tensors[value->tensor].elements();
    if (reduced > 0 && (score > best || (score == best && elements > 0 && !reading.known))) {
      best = score;
      reading.stride = stride;
      reading.guarded = !value->args.empty();
      reading.known = true;
    }
  }
}

Reading ReadingOf(const Node& node, const Traced& traced, const graph::Graph& graph) {
  Reading reading;
  if (traced.value == nullptr) return reading;
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  FindMainLoad(node, traced, graph, axes, reading);
  if (!reading.known) return reading;
  // Windows overlap where strides are not those of a mixed radix.
  std::vector<std::pair<int64_t, int64_t>> digits;  // stride, extent
  for (size_t a = 0; a < axes.size(); ++a) {
    if (reading.stride[a] != 0 && axes[a].extent > 1)
      digits.push_back({std::abs(reading.stride[a]), axes[a].extent});
  }
  std::sort(digits.begin(), digits.end());
  for (size_t d = 0; d + 1 < digits.size(); ++d) {
    if (digits[d + 1].first < digits[d].first * (digits[d].second - 1) + 1)
      reading.overlapping = true;
  }
  return reading;
}

// A node's reduce axes, outermost in memory first.
std::vector<int> ReduceOrder(const Node& node, const Reading& reading) {
  std::vector<int> order;
  for (size_t a = 0; a < node.reduce_axes.size(); ++a) order.push_back(static_cast<int>(a));
  if (reading.known) {
    const size_t kept = node.axes.size();
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::abs(reading.stride[kept + a]) > std::abs(reading.stride[kept + b]);
    });
  }
  return order;
}

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

}  // namespace

absl::StatusOr<Domain> StagesOf(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory) {
  Domain domain;
  domain.primary = LargestReduce(graph, roots, in_memory);
  if (domain.primary < 0) return absl::InvalidArgumentError("it has no reduce");
  const Node& primary = graph.nodes[domain.primary];
  const int64_t rows = Product(primary.axes), elements = Product(primary.reduce_axes);
  std::set<int> stage_nodes;
  for (int id : NeededNodes(graph, roots, in_memory)) {
    const Node& node = graph.nodes[id];
    if (node.reduce && Product(node.axes) == rows && Product(node.reduce_axes) == elements)
      stage_nodes.insert(id);
  }
  Traced traced;
  Trace(graph, in_memory, stage_nodes, primary, traced);
  if (!traced.status.ok()) return traced.status;
  Reading reading = ReadingOf(primary, traced, graph);
  const std::vector<int> order = ReduceOrder(primary, reading);
  reading.stride.resize(primary.axes.size() + primary.reduce_axes.size());
  for (size_t a = 0; a < primary.axes.size(); ++a)
    AddAxis(primary.axes[a], Role::kKept, reading.stride[a], domain);
  for (int a : order) {
    AddAxis(primary.reduce_axes[a], Role::kReduced, reading.stride[primary.axes.size() + a],
            domain);
  }
  domain.pattern.known = reading.known;
  domain.pattern.guarded = reading.guarded;
  domain.pattern.overlapping = reading.overlapping;
  for (int id : stage_nodes) {
    Traced own;
    Trace(graph, in_memory, stage_nodes, graph.nodes[id], own);
    if (!own.status.ok()) return own.status;
    domain.nodes.push_back(PlaceNode(graph, domain, id, ReadingOf(graph.nodes[id], own, graph)));
  }
  NumberStages(graph, in_memory, domain);
  if (absl::Status s = PlaceRoots(graph, in_memory, stage_nodes, roots, domain); !s.ok()) return s;
  auto built = BuildKernel(graph, domain, in_memory,
                           [&](Values& values) { return PointFrame(domain, values); });
  if (!built.ok()) return built.status();
  FindOnline(*built, domain);
  return domain;
}

void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Domain& domain) {
  domain.online_used = !domain.online.empty();
  NumberStages(graph, in_memory, domain);
}

}  // namespace warpsmith::codegen
