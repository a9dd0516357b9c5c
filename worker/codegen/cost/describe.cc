// What groups are, for those who choose knobs and for reports.
#include <algorithm>
#include <map>

#include "worker/codegen/codegen.h"
#include "worker/codegen/cost/cost.h"
#include "worker/codegen/group/structure.h"

namespace warpsmith::codegen {

namespace {

// Structures kept at once; beyond it all go. Their groups' analyses stay.
constexpr size_t kMaxStructures = 256;

absl::StatusOr<GroupInfo> Info(const Analysis& group, const v1::Group& knobs,
                               const Target& target) {
  auto resolved = ResolveGroup(group, knobs, target);
  if (!resolved.ok()) return resolved.status();
  const Skeleton& skeleton = *FindSkeleton(resolved->skeleton_case());
  auto use = skeleton.Use(group, *resolved, target);
  if (!use.ok()) return OfGroup(group, use.status());
  auto matched = skeleton.Matches(group);
  if (!matched.ok()) return OfGroup(group, matched.status());
  const Domain& domain = **matched;
  const Demand& demand = group.demand();
  GroupInfo info;
  info.skeleton = skeleton.id();
  for (const Skeleton* other : Skeletons()) {
    if (other != &skeleton && other->Matches(group).ok()) info.others.push_back(other->id());
  }
  info.stages = domain.stages;
  info.row_outputs = !domain.elements() && use->passes > domain.stages;
  info.rows = domain.kept();
  info.row_elements = domain.reduced() * domain.carried();
  info.reduces = group.largest_reduce() >= 0;
  info.bytes_read = demand.bytes_read;
  info.bytes_written = demand.bytes_written;
  info.operations = demand.operations;
  info.transcendental = demand.transcendental;
  info.products = use->products;
  info.tensor_products = use->tensor_products;
  if (use->tensor_products > 0)
    info.operations = std::max(0.0, info.operations - 2 * use->products);
  info.can_online = !domain.online.empty();
  info.streams = use->streams;
  info.stream_bytes = use->stream_bytes;
  info.width = use->width;
  info.aligned = use->aligned;
  info.launches = use->launches;
  info.blocks = use->blocks;
  info.threads = use->threads;
  info.shared_bytes = use->shared_bytes;
  info.registers = use->registers;
  info.passes = use->passes;
  info.kept = use->kept;
  info.workspace_bytes = use->workspace_bytes;
  info.seconds = SecondsOf(group, domain, *use, target);
  info.resolved = *std::move(resolved);
  return info;
}

}  // namespace

struct Describer::Kept {
  const graph::Graph& graph;
  const Target target;
  Analyses analyses;
  std::map<std::string, std::shared_ptr<const Structure>> structures;

  absl::StatusOr<std::shared_ptr<const Structure>> Find(const v1::Schedule& schedule) {
    const std::string key = StructureKey(schedule);
    auto known = structures.find(key);
    if (known != structures.end()) return known->second;
    auto made = StructureOf(graph, schedule, analyses);
    if (!made.ok()) return made.status();
    if (structures.size() >= kMaxStructures) structures.clear();
    return structures[key] = std::make_shared<const Structure>(*std::move(made));
  }
};

Describer::Describer(const graph::Graph& graph, const Target& target)
    : kept_(new Kept{graph, target, Analyses(graph), {}}) {}
Describer::~Describer() = default;

absl::StatusOr<std::vector<GroupInfo>> Describer::Describe(const v1::Schedule& schedule) {
  auto structure = kept_->Find(schedule);
  if (!structure.ok()) return structure.status();
  // One description a group of the schedule; what only reshapes runs nothing.
  std::vector<GroupInfo> infos(schedule.groups_size());
  for (const GroupWork& work : (*structure)->groups) {
    infos[work.group].resolved = schedule.groups(work.group);
    infos[work.group].skeleton = v1::Group::kMap;
    if (work.analysis == nullptr) continue;
    auto info = Info(*work.analysis, schedule.groups(work.group), kept_->target);
    if (!info.ok()) return info.status();
    infos[work.group] = *std::move(info);
  }
  return infos;
}

absl::Status Describer::Check(const v1::Schedule& schedule, int group) {
  auto structure = kept_->Find(schedule);
  if (!structure.ok()) return structure.status();
  const Analysis* analysis = (*structure)->groups[group].analysis.get();
  if (analysis == nullptr) return absl::OkStatus();
  return ResolveGroup(*analysis, schedule.groups(group), kept_->target).status();
}

int Describer::GroupsBesideOthers(const v1::Schedule& schedule) {
  auto structure = kept_->Find(schedule);
  if (!structure.ok()) return 0;
  const auto& groups = (*structure)->groups;
  const std::vector<std::vector<bool>> needed = NeededGroups(**structure);
  const auto runs = [&](size_t g) {
    return groups[g].analysis != nullptr && !groups[g].analysis->constant();
  };
  std::vector<bool> beside(groups.size(), false);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t before = 0; before < g; ++before) {
      if (!runs(g) || !runs(before) || needed[g][before]) continue;
      beside[g] = beside[before] = true;
    }
  }
  return static_cast<int>(std::count(beside.begin(), beside.end(), true));
}

std::vector<Layout> Describer::Layouts(const v1::Schedule& schedule, int group) {
  auto structure = kept_->Find(schedule);
  if (!structure.ok()) return {};
  const Analysis* analysis = (*structure)->groups[group].analysis.get();
  if (analysis == nullptr) return {};
  auto resolved = ResolveGroup(*analysis, schedule.groups(group), kept_->target);
  if (!resolved.ok()) return {};
  return FindSkeleton(resolved->skeleton_case())->Layouts(*analysis, *resolved, kept_->target);
}

absl::StatusOr<std::vector<GroupInfo>> Describe(const graph::Graph& graph,
                                                const v1::Schedule& schedule,
                                                const Target& target) {
  return Describer(graph, target).Describe(schedule);
}

}  // namespace warpsmith::codegen
