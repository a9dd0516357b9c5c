#include "worker/codegen/group/group.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/codegen/knob/knobs.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

absl::StatusOr<GroupSource> Generate(const GroupContext& context) {
  switch (context.space->skeleton) {
    case v1::SKELETON_MAP:
      return context.space->primary >= 0 ? GenerateWindow(context) : GenerateMap(context);
    case v1::SKELETON_ROWS:
      return GenerateRows(context);
    default:
      return GenerateColumns(context);
  }
}

std::set<std::pair<int, int>> ReadsWhereItWrites(const graph::Graph& graph, const Space& space,
                                                 const InMemory& in_memory) {
  std::set<std::pair<int, int>> pairs;
  auto kernel = BuildKernel(graph, space, in_memory, 1, true);
  if (!kernel.ok()) return pairs;
  for (const Kernel::Root& root : kernel->roots) {
    for (ValuePtr load : LoadsOf(*kernel)) {
      if (graph.tensors[load->tensor].role != graph::Role::kState) continue;
      bool same = true;
      for (ValuePtr other : LoadsOf(*kernel)) {
        if (other->tensor == load->tensor)
          same = same && other->index == root.address && other->stage < 0;
      }
      // Read by no other root: those may be written by other threads.
      for (const Kernel::Root& other : kernel->roots) {
        if (&other == &root) continue;
        for (ValuePtr value : kernel->values->Closure({other.value})) same = same && value != load;
      }
      for (const Kernel::Reduce& reduce : kernel->reduces) {
        for (ValuePtr value : kernel->values->Closure({reduce.value})) same = same && value != load;
      }
      if (same) pairs.insert({load->tensor, root.tensor});
    }
  }
  return pairs;
}

// A refusal that says of which group it is.
absl::Status OfGroup(const graph::Graph& graph, const std::vector<int>& roots,
                     const absl::Status& status) {
  if (absl::StartsWith(status.message(), "group '")) return status;
  return absl::Status(status.code(),
                      StrCat("group '", graph.tensors[roots[0]].name, "': ", status.message()));
}

}  // namespace

absl::StatusOr<AnalysedGroup> AnalyseGroup(const graph::Graph& graph, const std::vector<int>& roots,
                                           const InMemory& in_memory, const v1::Group& knobs,
                                           int number, const Target& target) {
  AnalysedGroup group;
  group.name = StrCat("G", number);
  if (!v1::Skeleton_IsValid(knobs.skeleton()))
    return OfGroup(graph, roots, absl::InvalidArgumentError("its skeleton is unknown"));
  auto space = FindSpace(graph, roots, in_memory, knobs.skeleton());
  if (!space.ok()) return OfGroup(graph, roots, space.status());
  group.space = std::move(*space);
  if (knobs.compute().online() && group.space.skeleton != v1::SKELETON_MAP) {
    if (group.space.online.empty()) {
      return absl::InvalidArgumentError(
          StrCat("group '", graph.tensors[roots[0]].name,
                 "': compute.online needs a maximum and the sum of exp(x - maximum)"));
    }
    MakeOnline(graph, in_memory, group.space);
  }
  // A first pass tells how wide and how many the streams are; knobs follow from that.
  v1::Group provisional = knobs;
  if (provisional.memory().vector_bytes() <= 0) {
    const bool strips = group.space.skeleton == v1::SKELETON_MAP && group.space.primary >= 0;
    provisional.mutable_memory()->set_vector_bytes(strips ? 1 : 16);
  }
  if (provisional.compute().window_outputs() <= 0)
    provisional.mutable_compute()->set_window_outputs(1);
  GroupContext context{&graph, &group.space, in_memory, &provisional, group.name};
  auto first = Generate(context);
  if (!first.ok()) return OfGroup(graph, roots, first.status());
  GroupShape shape;
  shape.width = first->width;
  shape.streams = first->streams;
  shape.stream_bytes = first->stream_bytes;
  shape.vectors = CeilDiv(group.space.row_elements, std::max(1, first->width));
  shape.edges = group.space.row_elements % std::max(1, first->width) != 0;
  shape.heavy = first->heavy;
  shape.strips = first->strips;
  shape.lanes = first->lanes;
  shape.good_strip = first->good_strip;
  shape.good_width = first->good_width;
  shape.element_bytes = 16 / std::max(1, WidthFor(context, 16));
  shape.emits = first->emits;
  shape.emit_reads = first->emit_reads;
  for (int bytes : first->acc_bytes) shape.acc_bytes = std::max(shape.acc_bytes, bytes);
  auto resolved = ResolveKnobs(graph, group.space, shape, knobs, target);
  if (!resolved.ok()) return resolved.status();
  group.resolved = std::move(*resolved);
  context.knobs = &group.resolved;
  auto source = Generate(context);
  if (!source.ok()) return OfGroup(graph, roots, source.status());
  group.source = std::move(*source);
  group.source.text = Indented(group.source.text);
  int64_t shared = 0;
  int max_acc = 4;
  for (int bytes : group.source.acc_bytes) max_acc = std::max(max_acc, bytes);
  if (group.space.skeleton == v1::SKELETON_ROWS) {
    shared = RowsSharedBytes(group.resolved, group.source.width, group.source.stream_bytes);
  } else if (group.space.skeleton == v1::SKELETON_COLUMNS) {
    shared = ColumnsSharedBytes(group.resolved, group.source.width, max_acc);
  }
  if (absl::Status s = CheckResidency(graph.tensors[roots[0]].name, group.resolved, shared, target);
      !s.ok())
    return s;
  if (!graph.updates.empty() && !group.source.repeats)
    group.reads_where_it_writes = ReadsWhereItWrites(graph, group.space, in_memory);
  return group;
}

absl::StatusOr<std::vector<AnalysedGroup>> AnalyseGroups(const graph::Graph& graph,
                                                         const v1::Schedule& schedule,
                                                         const Work& work, const Target& target) {
  std::vector<AnalysedGroup> groups;
  for (size_t w = 0; w < work.groups.size(); ++w) {
    const GroupWork& one = work.groups[w];
    if (one.roots.empty()) continue;
    auto in_memory = [&one](int tensor) { return one.in_memory.count(tensor) > 0; };
    auto group = AnalyseGroup(graph, one.roots, in_memory, schedule.groups(one.group),
                              static_cast<int>(groups.size()), target);
    if (!group.ok()) return group.status();
    group->work = static_cast<int>(w);
    groups.push_back(std::move(*group));
  }
  return groups;
}

}  // namespace warpsmith::codegen
