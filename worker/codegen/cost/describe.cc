// What groups are, for those who choose knobs and for reports.
#include <algorithm>
#include <map>

#include "common/graph/operations.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/group/group.h"

namespace warpsmith::codegen {

absl::StatusOr<std::vector<GroupInfo>> Describe(const graph::Graph& graph,
                                                const v1::Schedule& schedule,
                                                const Target& target) {
  auto work = ArrangeWork(graph, schedule);
  if (!work.ok()) return work.status();
  auto groups = AnalyseGroups(graph, schedule, *work, target);
  if (!groups.ok()) return groups.status();
  // One description a group of the schedule; what only reshapes runs nothing.
  std::vector<GroupInfo> infos(schedule.groups_size());
  for (int g = 0; g < schedule.groups_size(); ++g) {
    infos[g].skeleton = v1::SKELETON_MAP;
    infos[g].resolved = schedule.groups(g);
    infos[g].resolved.set_skeleton(v1::SKELETON_MAP);
  }
  for (const AnalysedGroup& group : *groups) {
    GroupInfo& info = infos[work->groups[group.work].group];
    const Space& space = group.space;
    info.skeleton = space.skeleton;
    info.stages = space.skeleton == v1::SKELETON_MAP ? 0 : space.stages;
    info.row_outputs = group.source.emits && space.skeleton != v1::SKELETON_MAP;
    info.window = space.skeleton == v1::SKELETON_MAP && space.window;
    info.rows = space.skeleton == v1::SKELETON_MAP ? space.elements : space.rows;
    info.row_elements = space.skeleton == v1::SKELETON_MAP ? 1 : space.row_elements;
    info.columns = space.skeleton == v1::SKELETON_COLUMNS ? space.columns : 0;
    info.streams = group.source.streams;
    info.aligned = !group.source.ragged && group.source.width * 4 >= 16;
    info.can_online = !space.online.empty();
    // Schedules name the roots; aliases among them stay in the description.
    info.resolved = group.resolved;
    info.element_bytes = 1;
    for (const Parameter& p : group.source.parameters) {
      const graph::Tensor& t = graph.tensors[p.tensor];
      (p.written ? info.bytes_written : info.bytes_read) += t.bytes();
      if (t.elements() > 1)
        info.element_bytes = std::max(info.element_bytes, graph::SizeOf(t.type));
    }
    const GroupWork& one = work->groups[group.work];
    auto in_memory = [&one](int tensor) { return one.in_memory.count(tensor) > 0; };
    for (int id : NeededNodes(graph, one.roots, in_memory)) {
      const graph::Node& node = graph.nodes[id];
      double times = 1;
      for (const graph::Axis& axis : node.axes) times *= static_cast<double>(axis.extent);
      for (const graph::Axis& axis : node.reduce_axes) times *= static_cast<double>(axis.extent);
      const graph::Operations each = graph::OperationsOf(node.value);
      info.operations += times * (each.all + (node.reduce ? 1 : 0));
      info.transcendental += times * each.transcendental;
    }
  }
  return infos;
}

}  // namespace warpsmith::codegen
