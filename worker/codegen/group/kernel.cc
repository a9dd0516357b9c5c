// The values of a group: coordinates of its stages and roots in the variables of its skeleton.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/space.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::Node;

namespace {

std::vector<int64_t> Extents(const std::vector<graph::Axis>& axes) {
  std::vector<int64_t> extents;
  for (const graph::Axis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

Frame MakeFrame(const graph::Graph& graph, const Space& space, int width, bool aligned,
                Values& values) {
  Frame frame;
  frame.width = width;
  const int64_t multiple = aligned ? width : 1;
  auto bit = [](const Variable& v) { return uint64_t{1} << v.id; };
  auto with_lane = [&](const Variable& base) {
    if (width == 1) return Index::Of(base);
    frame.lane = values.NewVariable("j", {0, width - 1});
    return Index::Of(base) + Index::Of(frame.lane);
  };
  if (space.skeleton == v1::SKELETON_MAP) {
    frame.element =
        values.NewVariable("i", {0, std::max<int64_t>(0, space.elements - width)}, multiple);
    frame.linear = with_lane(frame.element);
    return frame;
  }
  const Node& primary = graph.nodes[space.primary];
  const std::vector<int64_t> extents = Extents(primary.axes);
  if (space.skeleton == v1::SKELETON_ROWS) {
    frame.row = values.NewVariable("r", {0, space.rows - 1});
    frame.k =
        values.NewVariable("k", {0, std::max<int64_t>(0, space.row_elements - width)}, multiple);
    frame.kept = Unflatten(Index::Of(frame.row), extents);
    frame.position = with_lane(frame.k);
    frame.row_variables = bit(frame.row);
    return frame;
  }
  frame.outer = values.NewVariable("o", {0, space.outer - 1});
  frame.k = values.NewVariable("k", {0, space.row_elements - 1});
  frame.column =
      values.NewVariable("c", {0, std::max<int64_t>(0, space.columns - width)}, multiple);
  frame.position = Index::Of(frame.k);
  const Index column = with_lane(frame.column);
  frame.row_variables = bit(frame.outer) | bit(frame.column) | (width > 1 ? bit(frame.lane) : 0);
  std::vector<int64_t> outer_extents, inner_extents;
  for (size_t a = 0; a < extents.size(); ++a)
    (space.inner[a] ? inner_extents : outer_extents).push_back(extents[a]);
  const std::vector<Index> outer = Unflatten(Index::Of(frame.outer), outer_extents);
  const std::vector<Index> inner = Unflatten(column, inner_extents);
  size_t at_outer = 0, at_inner = 0;
  for (size_t a = 0; a < extents.size(); ++a) {
    frame.kept.push_back(space.inner[a] ? inner[at_inner++] : outer[at_outer++]);
  }
  return frame;
}

// Coordinates of a stage's axes, then of its reduce axes.
std::vector<Index> NodeCoordinates(const graph::Graph& graph, const Space& space,
                                   const Frame& frame, const StageNode& stage) {
  const Node& node = graph.nodes[stage.node];
  const Node& primary = graph.nodes[space.primary];
  const std::vector<int64_t> extents = Extents(node.axes), main = Extents(primary.axes);
  std::vector<Index> env;
  // The same axes but for some of extent 1, or the same number of rows in row-major order.
  std::vector<int64_t> plain, main_plain;
  for (int64_t e : extents)
    if (e > 1) plain.push_back(e);
  for (int64_t e : main)
    if (e > 1) main_plain.push_back(e);
  if (plain == main_plain) {
    size_t at = 0;
    for (int64_t e : extents) {
      if (e == 1) {
        env.push_back(Index(0));
        continue;
      }
      while (main[at] == 1) ++at;
      env.push_back(frame.kept[at++]);
    }
  } else {
    env = Unflatten(Flatten(frame.kept, main), extents);
  }
  std::vector<int64_t> ordered;
  for (int axis : stage.reduce_order) ordered.push_back(node.reduce_axes[axis].extent);
  const std::vector<Index> position = Unflatten(frame.position, ordered);
  const size_t kept = env.size();
  env.resize(kept + node.reduce_axes.size());
  for (size_t a = 0; a < position.size(); ++a) env[kept + stage.reduce_order[a]] = position[a];
  return env;
}

}  // namespace

absl::StatusOr<Kernel> BuildKernel(const graph::Graph& graph, const Space& space,
                                   const InMemory& in_memory, int width, bool aligned) {
  Kernel kernel;
  kernel.values = std::make_unique<Values>();
  Values& values = *kernel.values;
  kernel.frame = MakeFrame(graph, space, width, aligned, values);
  const Frame& frame = kernel.frame;
  std::map<int, std::vector<Index>> coordinates;
  for (const StageNode& stage : space.nodes)
    coordinates[stage.node] = NodeCoordinates(graph, space, frame, stage);

  TensorAccess access;
  access.in_memory = in_memory;
  access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
    const graph::Tensor& t = graph.tensors[tensor];
    const StageNode* stage = space.Find(t.node);
    if (stage == nullptr) return nullptr;
    const std::vector<Index>& row = coordinates[t.node];
    for (size_t a = 0; a < at.size(); ++a) {
      if (t.shape[a] > 1 && !(at[a] == row[a])) {
        return absl::InvalidArgumentError(StrCat("a kernel over the rows of '", t.name,
                                                 "' also needs other elements of it (axis ", a,
                                                 "); put what uses them into another group"));
      }
    }
    const int output = graph.nodes[t.node].outputs[0] == tensor ? 0 : 1;
    return values.Result(t.node, output, stage->stage, t.type, frame.row_variables);
  };
  access.write_out = space.skeleton == v1::SKELETON_MAP;
  Inliner inliner(graph, values, access);

  for (const StageNode& stage : space.nodes) {
    const Node& node = graph.nodes[stage.node];
    auto value = inliner.Body(node, coordinates[stage.node]);
    if (!value.ok()) return value.status();
    Kernel::Reduce reduce{stage.node, stage.stage, *value, nullptr};
    const size_t kept = node.axes.size();
    const std::vector<Index> reduced(coordinates[stage.node].begin() + kept,
                                     coordinates[stage.node].end());
    reduce.position = values.OfIndex(Flatten(reduced, Extents(node.reduce_axes)));
    kernel.reduces.push_back(reduce);
  }
  for (const RootPlan& plan : space.plans) {
    const graph::Tensor& t = graph.tensors[plan.tensor];
    std::vector<Index> at;
    if (plan.kind == RootPlan::Kind::kElement) {
      at = Unflatten(frame.linear, t.shape);
    } else if (plan.linear) {
      std::vector<Index> kept = frame.kept;
      std::vector<int64_t> extents = Extents(graph.nodes[space.primary].axes);
      Index linear = Flatten(kept, extents);
      if (plan.kind == RootPlan::Kind::kFull) {
        // (kept, k) in rows; (o, k, c) in columns
        linear = space.skeleton == v1::SKELETON_COLUMNS
                     ? FloorDiv(linear, space.columns) * (space.columns * space.row_elements) +
                           frame.position * space.columns + FloorMod(linear, space.columns)
                     : linear * space.row_elements + frame.position;
      }
      at = Unflatten(linear, t.shape);
    } else {
      std::vector<int64_t> rest;
      for (size_t a = 0; a < plan.axes.size(); ++a) {
        if (plan.axes[a].node < 0) rest.push_back(t.shape[a]);
      }
      const std::vector<Index> position = plan.kind == RootPlan::Kind::kFull
                                              ? Unflatten(frame.position, rest)
                                              : std::vector<Index>(rest.size(), Index(0));
      size_t next = 0;
      for (const AxisSource& source : plan.axes) {
        if (source.node < 0) {
          at.push_back(position[next++]);
        } else {
          at.push_back(coordinates[source.node][source.axis]);
        }
      }
    }
    auto value = inliner.Element(plan.tensor, at);
    if (!value.ok()) return value.status();
    kernel.roots.push_back({plan.tensor, plan.kind, *value, Flatten(at, t.shape)});
  }
  if (values.full()) {
    return absl::InvalidArgumentError(
        StrCat("a kernel may have ", kMaxVariables, " loops; make smaller groups"));
  }
  return kernel;
}

}  // namespace warpsmith::codegen
