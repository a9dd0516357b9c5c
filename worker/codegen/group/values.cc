#include "worker/codegen/group/values.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

std::vector<Index> InFrame(const std::vector<Index>& at, const Frame& frame) {
  std::vector<Index> moved;
  for (const Index& index : at) moved.push_back(Substitute(index, frame.axes));
  return moved;
}

// Whether that is where a scan that includes its own element has combined all of its axis.
bool IsEnd(const graph::Node& node, const Index& at) {
  const bool plain = node.combiner == graph::Combiner::kSum ||
                     node.combiner == graph::Combiner::kMax ||
                     node.combiner == graph::Combiner::kMin;
  const int64_t last = node.axes[node.scan->axis].extent - 1;
  return plain && !node.scan->exclusive && at == Index(node.scan->reverse ? 0 : last);
}

// Results of totals are there when all rows are done, and those of rows no longer are.
absl::Status CheckLevels(const graph::Graph& graph, const Domain& domain, const Kernel& kernel) {
  if (domain.totals.empty()) return absl::OkStatus();
  const auto check = [&](int tensor, ValuePtr value, bool behind) -> absl::Status {
    for (ValuePtr part : kernel.values->Closure({value})) {
      if (part->kind != Value::Kind::kResult) continue;
      const bool total = domain.FindTotal(part->node) != nullptr;
      if (total == behind) continue;
      const std::string& of = graph.tensors[graph.nodes[part->node].outputs[0]].name;
      return absl::InvalidArgumentError(
          StrCat("'", graph.tensors[tensor].name, "' needs ",
                 total ? StrCat("'", of, "', a sum over the rows that it belongs to")
                       : StrCat("'", of, "' of a row behind the sums over all rows"),
                 "; put what uses it into another group"));
    }
    return absl::OkStatus();
  };
  for (const auto* reduces : {&kernel.reduces, &kernel.totals}) {
    for (const Kernel::Reduce& reduce : *reduces) {
      absl::Status s = check(graph.nodes[reduce.node].outputs[0], reduce.value, false);
      if (!s.ok()) return s;
    }
  }
  for (const Kernel::Root& root : kernel.roots) {
    absl::Status s = check(root.tensor, root.value, root.level == Level::kTotals);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

// Whether coordinates are a tensor's; null: they always are.
ValuePtr Inside(const std::vector<Index>& at, const std::vector<int64_t>& shape, Values& values) {
  ValuePtr inside = nullptr;
  for (size_t a = 0; a < at.size(); ++a) {
    for (const Index& bound : {at[a], Index(shape[a] - 1) - at[a]}) {
      const ValuePtr one = values.Compare(graph::Op::kLe, bound);
      if (IsConst(one, 1)) continue;
      inside =
          inside == nullptr ? one : values.Op(graph::Op::kAnd, graph::DType::kBool, {inside, one});
    }
  }
  return inside;
}

// A root at places that a table names, where it wins.
absl::StatusOr<Kernel::Root> ScatteredRoot(const graph::Graph& graph, const RootPlace& root,
                                           const Frame& frame, Values& values, Inliner& inliner) {
  const graph::Scatter& scatter = *root.scatter;
  graph::Node node;  // whose value each of the expressions is in turn
  node.axes = scatter.axes;
  const std::vector<Index> writer = InFrame(root.at, frame);
  std::vector<Index> at;
  for (const graph::ExprPtr& place : scatter.place) {
    node.value = place;
    auto index = inliner.Body(node, writer);
    if (!index.ok()) return index.status();
    at.push_back(values.AsIndex(*index));
  }
  node.value = scatter.wins;
  auto wins = inliner.Body(node, writer);
  if (!wins.ok()) return wins.status();
  node.value = scatter.value;
  auto value = inliner.BodyUnder(node, writer, *wins);
  if (!value.ok()) return value.status();
  return Kernel::Root{
      root.tensor, root.level, *value,          Flatten(at, graph.tensors[root.tensor].shape),
      *wins,       true,       scatter.base < 0};
}

}  // namespace

uint64_t BitOf(const Variable& variable) { return uint64_t{1} << variable.id; }

std::vector<ValuePtr> TargetsOf(const Kernel& kernel) {
  std::vector<ValuePtr> targets;
  for (const Kernel::Reduce& reduce : kernel.reduces) targets.push_back(reduce.value);
  for (const Kernel::Reduce& total : kernel.totals) targets.push_back(total.value);
  for (const Kernel::Root& root : kernel.roots) {
    targets.push_back(root.value);
    if (root.condition != nullptr) targets.push_back(root.condition);
  }
  return targets;
}

std::vector<ValuePtr> SearchesOf(const Domain& domain, const Kernel& kernel) {
  std::vector<ValuePtr> searches;
  for (ValuePtr value : kernel.values->Closure(TargetsOf(kernel))) {
    if (value->kind == Value::Kind::kReduce &&
        std::find(domain.searches.begin(), domain.searches.end(), value->node) !=
            domain.searches.end())
      searches.push_back(value);
  }
  return searches;
}

std::vector<ValuePtr> LoadsOf(const Kernel& kernel) {
  std::vector<ValuePtr> loads;
  for (ValuePtr value : kernel.values->Closure(TargetsOf(kernel))) {
    if (value->kind == Value::Kind::kLoad) loads.push_back(value);
  }
  return loads;
}

Frame PointFrame(const Domain& domain, Values& values) {
  Frame frame;
  for (const DomainAxis& axis : domain.axes) {
    const Variable variable = values.NewVariable(axis.variable.name, axis.variable.range);
    frame.axes.push_back(Index::Of(variable));
    if (axis.role == Role::kKept) frame.row_variables |= uint64_t{1} << variable.id;
  }
  return frame;
}

absl::StatusOr<Kernel> BuildKernel(const graph::Graph& graph, const Domain& domain,
                                   const InMemory& in_memory, const FrameMaker& make_frame) {
  Kernel kernel;
  kernel.values = std::make_unique<Values>();
  Values& values = *kernel.values;
  kernel.frame = make_frame(values);
  const Frame& frame = kernel.frame;
  uint64_t everything = frame.row_variables;
  for (const Index& axis : frame.axes) everything |= axis.variables();
  std::map<int, std::vector<Index>> coordinates;
  for (const StageNode& stage : domain.nodes) coordinates[stage.node] = InFrame(stage.at, frame);
  uint64_t places = 0;  // what a total's result depends on
  for (const TotalNode& total : domain.totals) coordinates[total.node] = InFrame(total.at, frame);
  for (size_t a = 0; a < frame.axes.size(); ++a) {
    if (domain.axes[a].role == Role::kReduced || domain.IsSegment(a))
      places |= frame.axes[a].variables();
  }

  TensorAccess access;
  access.in_memory = in_memory;
  access.stage = [&](int tensor, const std::vector<Index>& at) -> absl::StatusOr<ValuePtr> {
    const graph::Tensor& t = graph.tensors[tensor];
    const StageNode* stage = domain.Find(t.node);
    const bool total = domain.FindTotal(t.node) != nullptr;
    if (stage == nullptr && !total) return nullptr;
    const std::vector<Index>& own = coordinates[t.node];
    const graph::Node& node = graph.nodes[t.node];
    bool end = false;  // of a scan
    for (size_t a = 0; a < at.size(); ++a) {
      if (t.shape[a] == 1 || at[a] == own[a]) continue;
      end = node.scan && node.scan->axis == static_cast<int>(a) && IsEnd(node, at[a]);
      if (!end) {
        return absl::InvalidArgumentError(StrCat("a kernel over the rows of '", t.name,
                                                 "' also needs other elements of it (axis ", a,
                                                 "); put what uses them into another group"));
      }
    }
    const int output = end ? kScanEnd : node.outputs[0] == tensor ? 0 : 1;
    if (total) return values.Result(t.node, output, domain.stages, t.type, places);
    // A scan's is at hand for a place, also where there is but one.
    return values.Result(t.node, output, stage->stage, t.type,
                         node.scan ? everything | BitOf(frame.k) : frame.row_variables);
  };
  // Who is the last to name a place is searched for in a loop.
  access.write_out = domain.elements() &&
                     std::none_of(domain.roots.begin(), domain.roots.end(),
                                  [](const RootPlace& root) { return root.scatter != nullptr; });
  Inliner inliner(graph, values, access);

  for (const StageNode& stage : domain.nodes) {
    const graph::Node& node = graph.nodes[stage.node];
    const std::vector<Index>& at = coordinates[stage.node];
    auto value = inliner.Body(node, at);
    if (!value.ok()) return value.status();
    Kernel::Reduce reduce{stage.node, stage.stage, *value, nullptr};
    const std::vector<Index> reduced(at.begin() + node.axes.size(), at.end());
    reduce.position = values.OfIndex(node.scan ? at[node.scan->axis]
                                               : Flatten(reduced, ExtentsOf(node.reduce_axes)));
    kernel.reduces.push_back(reduce);
  }
  for (const TotalNode& total : domain.totals) {
    const graph::Node& node = graph.nodes[total.node];
    const std::vector<Index>& at = coordinates[total.node];
    auto value = inliner.Body(node, at);
    if (!value.ok()) return value.status();
    const std::vector<Index> rows(at.begin() + node.axes.size(), at.end());
    kernel.totals.push_back(
        {total.node, 0, *value, values.OfIndex(Flatten(rows, ExtentsOf(node.reduce_axes)))});
  }
  for (const RootPlace& root : domain.roots) {
    if (root.scatter != nullptr) {
      auto scattered = ScatteredRoot(graph, root, frame, values, inliner);
      if (!scattered.ok()) return scattered.status();
      kernel.roots.push_back(*scattered);
      continue;
    }
    const std::vector<Index> at = InFrame(root.at, frame);
    const std::vector<int64_t>& shape = graph.tensors[root.tensor].shape;
    const ValuePtr inside = root.cropped ? Inside(at, shape, values) : nullptr;
    auto value = inside == nullptr ? inliner.Element(root.tensor, at)
                                   : inliner.ElementUnder(root.tensor, at, inside);
    if (!value.ok()) return value.status();
    kernel.roots.push_back({root.tensor, root.level, *value, Flatten(at, shape), inside});
  }
  if (values.full()) {
    return absl::InvalidArgumentError(
        StrCat("a kernel may have ", kMaxVariables, " loops; make smaller groups"));
  }
  if (absl::Status s = CheckLevels(graph, domain, kernel); !s.ok()) return s;
  return kernel;
}

}  // namespace warpsmith::codegen
