// From a schedule to a plan: each group's kernels and launches, in order.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/problem/units.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/plan/branches.h"
#include "worker/codegen/skeleton/skeleton.h"

namespace warpsmith::codegen {

namespace {

// A group that has something to run, with its knobs resolved.
struct Ready {
  int work = 0;  // in Structure.groups
  const Analysis* group = nullptr;
  const Skeleton* skeleton = nullptr;
  v1::Group resolved;
};

absl::StatusOr<std::vector<Ready>> Resolve(const Structure& structure, const v1::Schedule& schedule,
                                           const Target& target) {
  std::vector<Ready> ready;
  for (size_t w = 0; w < structure.groups.size(); ++w) {
    const GroupWork& work = structure.groups[w];
    if (work.analysis == nullptr) continue;
    Ready one;
    one.work = static_cast<int>(w);
    one.group = work.analysis.get();
    auto resolved = ResolveGroup(*one.group, schedule.groups(work.group), target);
    if (!resolved.ok()) return resolved.status();
    one.resolved = *std::move(resolved);
    one.skeleton = FindSkeleton(one.resolved.skeleton_case());
    ready.push_back(std::move(one));
  }
  return ready;
}

// Whether the group may overwrite the state with the value while it runs: within it only who writes
// the element reads it.
bool WritesWhereItReads(const Ready& one, int state, int value, const Target& target) {
  auto use = one.skeleton->Use(*one.group, one.resolved, target);
  auto domain = one.skeleton->Matches(*one.group);
  if (!use.ok() || !domain.ok() || use->recomputes) return false;
  return ReadsWhereItWrites(*one.group, **domain, use->reads_first).count({state, value}) > 0;
}

// States that the group which makes their new value may overwrite at once: nobody reads the old
// value afterwards.
std::map<int, int> FindInPlace(const graph::Graph& graph, const Structure& structure,
                               const std::vector<Ready>& groups, const Target& target) {
  std::map<int, int> in_place;
  for (const auto& update : graph.updates) {
    const Ready* writer = nullptr;
    for (const Ready& one : groups) {
      const auto& roots = one.group->roots();
      if (std::find(roots.begin(), roots.end(), update.value) != roots.end()) writer = &one;
    }
    bool fine =
        writer != nullptr && graph.tensors[update.value].type == graph.tensors[update.state].type;
    for (int output : graph.outputs)
      fine = fine && output != update.value && output != update.state;
    for (const auto& [alias, base] : structure.alias)
      fine = fine && base != update.state && base != update.value && alias != update.value;
    for (const auto& other : graph.updates) {
      if (&other != &update)
        fine = fine && other.value != update.value && other.value != update.state;
    }
    for (const Ready& one : groups) {
      if (!fine || one.work < writer->work) continue;
      const auto& reads = one.group->demand().reads;
      if (std::find(reads.begin(), reads.end(), update.state) == reads.end()) continue;
      fine =
          one.work == writer->work && WritesWhereItReads(one, update.state, update.value, target);
    }
    if (fine) in_place[update.value] = update.state;
  }
  return in_place;
}

}  // namespace

absl::StatusOr<v1::Plan> Lower(const graph::Graph& graph, const v1::Schedule& schedule,
                               const Target& target) {
  auto structure = StructureOf(graph, schedule);
  if (!structure.ok()) return structure.status();
  auto groups = Resolve(*structure, schedule, target);
  if (!groups.ok()) return groups.status();
  v1::Plan plan;
  bool fast = false;
  for (const Ready& one : *groups) fast = fast || one.resolved.precision().fast_math();
  plan.set_fast_math(fast);
  const std::vector<bool> prepared = PreparedGroups(graph, *structure);
  const bool branches = schedule.launch().branches();
  Storage storage(graph, *structure, FindInPlace(graph, *structure, *groups, target), prepared,
                  branches, plan);
  OnlyRead only_read;
  for (const Ready& one : *groups) {
    storage.Begin(one.work);
    const bool once = prepared[one.work];
    absl::StrAppend(plan.mutable_source(), problem::kGroupMark, "#include <warpsmith/",
                    one.skeleton->header(one.resolved, target), ".cuh>\n");
    KernelWriter writer(graph, one.group->roots()[0], schedule.launch(),
                        once ? *storage.preparation() : storage, plan,
                        once ? *plan.mutable_prepare() : plan, once ? nullptr : &only_read);
    absl::Status written = one.skeleton->Emit(*one.group, one.resolved, target, writer);
    if (!written.ok()) return OfGroup(*one.group, written);
  }
  storage.AddFinalCopies();
  // What is prepared is so once, and stays in order.
  if (branches) LayOverLanes(only_read, schedule.launch().programmatic(), plan);
  if (plan.prepare().steps().empty()) plan.clear_prepare();
  return plan;
}

}  // namespace warpsmith::codegen
