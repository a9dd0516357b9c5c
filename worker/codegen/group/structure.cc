#include "worker/codegen/group/structure.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using absl::StrCat;

int ReshapeOf(const graph::Graph& graph, int tensor, const InMemory& in_memory) {
  const graph::Tensor& t = graph.tensors[tensor];
  if (t.node < 0 || !graph.nodes[t.node].map()) return -1;
  Values values;
  const Index position = Index::Of(values.NewVariable("i", {0, t.elements() - 1}));
  TensorAccess access;
  access.in_memory = [&](int other) { return other != tensor && in_memory(other); };
  Inliner inliner(graph, values, access);
  auto value = inliner.Element(tensor, Unflatten(position, t.shape));
  if (!value.ok() || (*value)->kind != Value::Kind::kLoad) return -1;
  const ValuePtr load = *value;
  const graph::Tensor& from = graph.tensors[load->tensor];
  const bool same = load->args.empty() && from.type == t.type && from.elements() == t.elements() &&
                    load->index == position;
  return same ? load->tensor : -1;
}

std::string StructureKey(const v1::Schedule& schedule) {
  std::string key;
  for (const v1::Group& group : schedule.groups()) {
    for (const std::string& root : group.roots()) absl::StrAppend(&key, root, ",");
    key += "|";
  }
  return key;
}

// Kept at once; beyond it all go.
constexpr size_t kMaxAnalyses = 1024;

std::shared_ptr<const Analysis> Analyses::Of(const std::vector<int>& roots,
                                             const std::set<int>& in_memory,
                                             const std::vector<int>& needed) {
  // Roots, -1, and what is read of what groups wrote; inputs are always there.
  std::vector<int> key = roots;
  key.push_back(-1);
  std::set<int> read;
  for (int node : needed) {
    for (int tensor : graph::LoadedTensors(graph_.nodes[node].value)) {
      if (graph_.tensors[tensor].node >= 0 && in_memory.count(tensor) > 0) read.insert(tensor);
    }
  }
  key.insert(key.end(), read.begin(), read.end());
  const auto known = kept_.find(key);
  if (known != kept_.end()) return known->second;
  if (kept_.size() >= kMaxAnalyses) kept_.clear();
  return kept_[key] = std::make_shared<const Analysis>(graph_, roots, in_memory);
}

absl::StatusOr<Structure> StructureOf(const graph::Graph& graph, const v1::Schedule& schedule) {
  Analyses analyses(graph);
  return StructureOf(graph, schedule, analyses);
}

absl::StatusOr<Structure> StructureOf(const graph::Graph& graph, const v1::Schedule& schedule,
                                      Analyses& analyses) {
  Structure structure;
  std::set<int> in_memory;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node < 0) in_memory.insert(static_cast<int>(t));
  }
  std::map<int, int> group_of;
  for (int g = 0; g < schedule.groups_size(); ++g) {
    if (schedule.groups(g).roots_size() == 0) {
      return absl::InvalidArgumentError(
          StrCat("group ", g, " has no roots; name the tensors that it writes"));
    }
    for (const std::string& name : schedule.groups(g).roots()) {
      const int tensor = graph.Find(name);
      if (tensor < 0)
        return absl::InvalidArgumentError(
            StrCat("group ", g, ": the graph has no tensor '", name, "'"));
      if (graph.tensors[tensor].node < 0) {
        return absl::InvalidArgumentError(
            StrCat("group ", g, ": '", name, "' is an input; groups write results"));
      }
      if (!group_of.emplace(tensor, g).second) {
        return absl::InvalidArgumentError(StrCat("group ", g, ": '", name, "' is written by group ",
                                                 group_of[tensor], " already"));
      }
    }
  }
  for (int g = 0; g < schedule.groups_size(); ++g) {
    GroupWork group;
    group.group = g;
    std::vector<int> roots;
    std::set<int> own;
    for (const std::string& name : schedule.groups(g).roots()) own.insert(graph.Find(name));
    auto reachable = [&](int tensor) {
      return in_memory.count(tensor) > 0 || own.count(tensor) > 0;
    };
    for (const std::string& name : schedule.groups(g).roots()) {
      const int tensor = graph.Find(name);
      const int base = ReshapeOf(graph, tensor, reachable);
      if (base >= 0) {
        structure.alias[tensor] = base;
      } else {
        roots.push_back(tensor);
      }
    }
    // What a later group writes and this one computes again would be legal but for order.
    const std::vector<int> needed =
        NeededNodes(graph, roots, [&](int t) { return in_memory.count(t) > 0; });
    for (int node : needed) {
      for (int tensor : graph.nodes[node].outputs) {
        auto other = group_of.find(tensor);
        if (other != group_of.end() && other->second > g && !graph.nodes[node].map()) {
          return absl::InvalidArgumentError(
              StrCat("group ", g, " of '", schedule.groups(g).roots(0), "' needs '",
                     graph.tensors[tensor].name, "', which group ", other->second,
                     " writes later; put that group before it"));
        }
      }
    }
    if (!roots.empty()) group.analysis = analyses.Of(roots, in_memory, needed);
    structure.groups.push_back(std::move(group));
    in_memory.insert(own.begin(), own.end());
  }
  auto needs = [&](int tensor, const char* what) -> absl::Status {
    if (in_memory.count(tensor) > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        StrCat("no group writes ", what, " '", graph.tensors[tensor].name, "'"));
  };
  for (int tensor : graph.outputs) {
    if (absl::Status s = needs(tensor, "output"); !s.ok()) return s;
  }
  for (const auto& update : graph.updates) {
    if (absl::Status s = needs(update.value, "update"); !s.ok()) return s;
  }
  return structure;
}

int Structure::Base(int tensor) const {
  for (auto found = alias.find(tensor); found != alias.end(); found = alias.find(tensor))
    tensor = found->second;
  return tensor;
}

std::vector<std::vector<bool>> NeededGroups(const Structure& structure) {
  const size_t count = structure.groups.size();
  std::vector<std::vector<bool>> needed(count, std::vector<bool>(count, false));
  std::map<int, size_t> writer;  // of a root
  for (size_t g = 0; g < count; ++g) {
    const Analysis* group = structure.groups[g].analysis.get();
    if (group == nullptr) continue;
    for (int tensor : group->demand().reads) {
      const auto found = writer.find(structure.Base(tensor));
      if (found == writer.end()) continue;
      for (size_t before = 0; before < found->second; ++before)
        needed[g][before] = needed[g][before] || needed[found->second][before];
      needed[g][found->second] = true;
    }
    for (int root : group->roots()) writer[root] = g;
  }
  return needed;
}

}  // namespace warpsmith::codegen
