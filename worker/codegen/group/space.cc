#include "worker/codegen/group/space.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/codegen/skeleton/window/window.h"

namespace warpsmith::codegen {

using absl::StrCat;
using graph::DType;
using graph::Node;

namespace {

// A run of this many contiguous elements is worth a group of lanes.
constexpr int64_t kContiguousRun = 16;

int64_t Product(const std::vector<graph::Axis>& axes) {
  int64_t n = 1;
  for (const graph::Axis& axis : axes) n *= axis.extent;
  return n;
}

// A coordinate that is an axis variable itself: its number, else -1. `first`: id of axis 0.
int PlainAxis(const Index& index, int axes) {
  if (index.terms().size() != 1 || index.constant() != 0) return -1;
  const Index::Term& term = index.terms()[0];
  if (term.coefficient != 1 || term.atom->kind != Atom::Kind::kVariable) return -1;
  return term.atom->variable.id < axes ? term.atom->variable.id : -1;
}

// A node's expression over plain axis variables (ids 0, 1, ...: axes, then reduce axes), and what
// it read on the way.
struct Traced {
  Values values;
  std::vector<Index> env;
  ValuePtr value = nullptr;
  absl::Status status;
  std::vector<std::pair<int, std::vector<Index>>> stage_reads;  // tensor, coordinates
  std::map<int, std::vector<Index>> inlined;                    // tensor, first coordinates
};

void Trace(const graph::Graph& graph, const InMemory& in_memory, const std::set<int>& stage_nodes,
           const Node& node, Traced& traced) {
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  for (const graph::Axis& axis : axes) {
    traced.env.push_back(Index::Of(traced.values.NewVariable(axis.name, {0, axis.extent - 1})));
  }
  TensorAccess access;
  access.in_memory = in_memory;
  access.observe = [&](int tensor, const std::vector<Index>& at) {
    traced.inlined.emplace(tensor, at);
  };
  access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
    const int producer = graph.tensors[tensor].node;
    if (stage_nodes.count(producer) == 0) return nullptr;
    traced.stage_reads.push_back({tensor, at});
    return traced.values.Result(producer, graph.nodes[producer].outputs[0] == tensor ? 0 : 1, 0,
                                graph.tensors[tensor].type, 0);
  };
  Inliner inliner(graph, traced.values, access);
  auto value = inliner.Body(node, traced.env);
  traced.status = value.status();
  if (value.ok()) traced.value = *value;
}

// How a reduce reads memory.
struct Reading {
  bool guarded = false;         // bounds predicates
  bool overlapping = false;     // windows that share elements
  std::vector<int64_t> stride;  // of the main load: for each axis, then each reduce axis; 0: none
  bool known = false;
};

Reading ReadingOf(const Node& node, const Traced& traced, const graph::Graph& graph) {
  Reading reading;
  if (traced.value == nullptr) return reading;
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
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

// Contiguous elements that the reduce axes run through, from stride 1 up; 0 if none.
int64_t ReducedRun(const Node& node, const Reading& reading) {
  int64_t run = 1;
  bool any = false;
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t a = 0; a < node.reduce_axes.size(); ++a) {
      const int64_t extent = node.reduce_axes[a].extent;
      if (extent > 1 && reading.stride[node.axes.size() + a] == run) {
        run *= extent;
        grown = any = true;
        break;
      }
    }
  }
  return any ? run : 0;
}

v1::Skeleton Choose(const Node& node, const Reading& reading) {
  const int64_t k = Product(node.reduce_axes);
  if (!reading.known) return k <= kMaxWrittenOut ? v1::SKELETON_MAP : v1::SKELETON_ROWS;
  if ((reading.guarded || reading.overlapping) && k <= kMaxSerialElements) return v1::SKELETON_MAP;
  const int64_t run = ReducedRun(node, reading);
  if (run == k || run >= kContiguousRun || (run > 0 && k > kMaxSerialElements))
    return v1::SKELETON_ROWS;
  if (run > 0) return v1::SKELETON_MAP;
  for (size_t a = 0; a < node.axes.size(); ++a) {
    if (reading.stride[a] == 1 && node.axes[a].extent > 1) {
      return k == 1 ? v1::SKELETON_MAP : v1::SKELETON_COLUMNS;
    }
  }
  return k <= kMaxWrittenOut ? v1::SKELETON_MAP : v1::SKELETON_ROWS;
}

// The kept axes that follow each other from stride 1 upwards.
std::vector<bool> InnerAxes(const Node& node, const Reading& reading) {
  std::vector<bool> inner(node.axes.size());
  int64_t run = 1;
  for (bool grown = true; grown && reading.known;) {
    grown = false;
    for (int a = static_cast<int>(node.axes.size()) - 1; a >= 0; --a) {
      if (!inner[a] && node.axes[a].extent > 1 && reading.stride[a] == run) {
        inner[a] = true;
        run *= node.axes[a].extent;
        grown = true;
        break;
      }
    }
  }
  return inner;
}

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

// Stages by dependency: one more than the latest stage that a reduce reads.
void NumberStages(const graph::Graph& graph, const InMemory& in_memory, Space& space) {
  std::map<int, int> last;  // node -> last stage it depends on, -1
  std::function<int(int)> visit = [&](int id) -> int {
    auto found = last.find(id);
    if (found != last.end()) return found->second;
    int stage = -1;
    auto joined = space.online.find(id);
    if (space.online_used && joined != space.online.end()) {
      // Of the stage of its maximum, which reads all that the sum reads beside it.
      stage = visit(joined->second) - 1;
    } else {
      for (int tensor : graph::LoadedTensors(graph.nodes[id].value)) {
        if (!in_memory(tensor)) stage = std::max(stage, visit(graph.tensors[tensor].node));
      }
    }
    for (StageNode& node : space.nodes) {
      if (node.node != id) continue;
      node.stage = ++stage;
    }
    return last[id] = stage;
  };
  space.stages = 0;
  for (StageNode& node : space.nodes) {
    visit(node.node);
    space.stages = std::max(space.stages, node.stage + 1);
  }
}

std::string NameOf(const graph::Graph& graph, int tensor) {
  return StrCat("'", graph.tensors[tensor].name, "'");
}

// The ways in which a root may lie in the space, the most telling first.
std::vector<RootPlan> Candidates(const graph::Graph& graph, const InMemory& in_memory,
                                 const Space& space, const std::set<int>& stage_nodes, int tensor,
                                 RootPlan::Kind kind) {
  std::vector<RootPlan> candidates;
  const graph::Tensor& t = graph.tensors[tensor];
  const Node& node = graph.nodes[t.node];
  RootPlan linear{tensor, kind, true, {}};
  const int64_t part = kind == RootPlan::Kind::kFull ? space.row_elements : 1;
  auto offer = [&](const std::vector<AxisSource>& axes) {
    int64_t rest = 1;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].node < 0) rest *= t.shape[a];
    }
    if (rest == part) candidates.push_back({tensor, kind, false, axes});
  };
  if (stage_nodes.count(t.node) > 0) {  // a stage's own result
    std::vector<AxisSource> axes;
    for (size_t a = 0; a < t.shape.size(); ++a) axes.push_back({t.node, static_cast<int>(a)});
    offer(axes);
    return candidates;
  }
  if (!node.reduce) {
    Traced traced;
    Trace(graph, in_memory, stage_nodes, node, traced);
    std::vector<AxisSource> axes(t.shape.size());
    bool plain = !traced.stage_reads.empty();
    for (const auto& [stage, at] : traced.stage_reads) {
      const int producer = graph.tensors[stage].node;
      for (size_t a = 0; a < at.size(); ++a) {
        if (graph.tensors[stage].shape[a] == 1) continue;
        const int axis = PlainAxis(at[a], static_cast<int>(t.shape.size()));
        if (axis < 0) {
          plain = false;
        } else if (axes[axis].node < 0) {
          axes[axis] = {producer, static_cast<int>(a)};
        }
      }
    }
    if (plain) offer(axes);
  }
  // Read by a stage at its own axes: it lies where the stage reads it.
  for (const StageNode& stage : space.nodes) {
    const Node& reader = graph.nodes[stage.node];
    Traced traced;
    Trace(graph, in_memory, stage_nodes, reader, traced);
    auto found = traced.inlined.find(tensor);
    if (found == traced.inlined.end()) continue;
    std::vector<AxisSource> axes(t.shape.size());
    std::set<int> used;
    bool plain = true;
    for (size_t a = 0; a < t.shape.size(); ++a) {
      if (t.shape[a] == 1) continue;
      const int axis = PlainAxis(found->second[a],
                                 static_cast<int>(reader.axes.size() + reader.reduce_axes.size()));
      plain = plain && axis >= 0 && used.insert(axis).second;
      if (plain) axes[a] = {stage.node, axis};
    }
    // All coordinates come from the stage; extents of 1 are no part of the position.
    int64_t covered = 1;
    for (size_t a = 0; a < t.shape.size(); ++a) {
      if (t.shape[a] > 1) covered *= t.shape[a];
      if (t.shape[a] == 1) axes[a] = {-1, 0};
    }
    if (plain && covered == space.rows * part) candidates.push_back({tensor, kind, false, axes});
  }
  candidates.push_back(linear);
  return candidates;
}

absl::Status PlaceRoots(const graph::Graph& graph, const InMemory& in_memory,
                        const std::set<int>& stage_nodes, Space& space) {
  for (int tensor : space.roots) {
    const int64_t elements = graph.tensors[tensor].elements();
    RootPlan::Kind kind = RootPlan::Kind::kRow;
    if (elements != space.rows) {
      if (elements != space.rows * space.row_elements) {
        return absl::InvalidArgumentError(StrCat(
            "root ", NameOf(graph, tensor), " has ", elements, " elements, but its group works on ",
            space.rows, " rows of ", space.row_elements, "; give it a group of its own"));
      }
      kind = RootPlan::Kind::kFull;
    }
    absl::Status why;
    bool placed = false;
    for (const RootPlan& plan : Candidates(graph, in_memory, space, stage_nodes, tensor, kind)) {
      Space trial = space;
      trial.roots = {tensor};
      trial.plans = {plan};
      auto built = BuildKernel(graph, trial, in_memory, 1, true);
      if (built.ok()) {
        space.plans.push_back(plan);
        placed = true;
        break;
      }
      why = built.status();
    }
    if (!placed) return why;
  }
  return absl::OkStatus();
}

// Pairs of a maximum and the sum of exp(the same - that maximum); a maximum is in one pair.
void FindOnline(const Kernel& kernel, Space& space) {
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
        space.online[sum.node] = max.node;
      }
    }
  }
}

}  // namespace

const StageNode* Space::Find(int node) const {
  for (const StageNode& stage : nodes) {
    if (stage.node == node) return &stage;
  }
  return nullptr;
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

absl::StatusOr<Space> FindSpace(const graph::Graph& graph, const std::vector<int>& roots,
                                const InMemory& in_memory, v1::Skeleton wanted) {
  Space space;
  space.roots = roots;
  const std::vector<int> needed = NeededNodes(graph, roots, in_memory);
  std::vector<int> reduces;
  for (int id : needed) {
    if (graph.nodes[id].reduce) reduces.push_back(id);
  }
  // The largest space decides.
  int64_t largest = 0;
  for (int id : reduces) {
    const Node& node = graph.nodes[id];
    const int64_t size = Product(node.axes) * Product(node.reduce_axes);
    if (size > largest) {
      largest = size;
      space.primary = id;
    }
  }
  Reading reading;
  std::set<int> stage_nodes;
  if (space.primary >= 0) {
    const Node& node = graph.nodes[space.primary];
    space.rows = Product(node.axes);
    space.row_elements = Product(node.reduce_axes);
    for (int id : reduces) {
      const Node& other = graph.nodes[id];
      if (Product(other.axes) == space.rows && Product(other.reduce_axes) == space.row_elements)
        stage_nodes.insert(id);
    }
    Traced traced;
    Trace(graph, in_memory, stage_nodes, node, traced);
    if (!traced.status.ok()) return traced.status;
    reading = ReadingOf(node, traced, graph);
    space.skeleton = wanted == v1::SKELETON_AUTO ? Choose(node, reading) : wanted;
    space.window = reading.guarded || reading.overlapping || !WindowAxes(node).empty();
  } else {
    if (wanted != v1::SKELETON_AUTO && wanted != v1::SKELETON_MAP) {
      return absl::InvalidArgumentError("it has no reduce; its skeleton can only be map");
    }
    space.skeleton = v1::SKELETON_MAP;
  }

  if (space.skeleton == v1::SKELETON_MAP) {
    space.elements = graph.tensors[roots[0]].elements();
    for (int tensor : roots) {
      if (graph.tensors[tensor].elements() != space.elements) {
        return absl::InvalidArgumentError(
            StrCat("roots ", NameOf(graph, roots[0]), " and ", NameOf(graph, tensor),
                   " of a map group have ", space.elements, " and ",
                   graph.tensors[tensor].elements(), " elements; they must have the same number"));
      }
      space.plans.push_back({tensor, RootPlan::Kind::kElement, true, {}});
    }
    space.window = space.window && space.primary >= 0;
    auto built = BuildKernel(graph, space, in_memory, 1, true);
    if (!built.ok()) return built.status();
    return space;
  }

  const Node& primary = graph.nodes[space.primary];
  for (int id : stage_nodes) {
    Traced traced;
    Trace(graph, in_memory, stage_nodes, graph.nodes[id], traced);
    if (!traced.status.ok()) return traced.status;
    space.nodes.push_back(
        {id, 0, ReduceOrder(graph.nodes[id], ReadingOf(graph.nodes[id], traced, graph))});
  }
  if (space.skeleton == v1::SKELETON_COLUMNS) {
    space.inner = InnerAxes(primary, reading);
    for (size_t a = 0; a < primary.axes.size(); ++a) {
      (space.inner[a] ? space.columns : space.outer) *= primary.axes[a].extent;
    }
  }
  NumberStages(graph, in_memory, space);
  absl::Status placed = PlaceRoots(graph, in_memory, stage_nodes, space);
  if (!placed.ok()) return placed;
  auto built = BuildKernel(graph, space, in_memory, 1, true);
  if (!built.ok()) return built.status();
  FindOnline(*built, space);
  return space;
}

void MakeOnline(const graph::Graph& graph, const InMemory& in_memory, Space& space) {
  space.online_used = !space.online.empty();
  NumberStages(graph, in_memory, space);
}

}  // namespace warpsmith::codegen
