#include "worker/codegen/plan/storage.h"

#include <algorithm>

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

absl::StatusOr<Work> ArrangeWork(const graph::Graph& graph, const v1::Schedule& schedule) {
  for (const graph::Node& node : graph.nodes) {
    if (!node.scan) continue;
    return absl::UnimplementedError(StrCat("'", graph.tensors[node.outputs[0]].name,
                                           "' is a scan, for which there is no skeleton yet"));
  }
  Work work;
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
    group.in_memory = in_memory;
    std::set<int> own;
    for (const std::string& name : schedule.groups(g).roots()) own.insert(graph.Find(name));
    auto reachable = [&](int tensor) {
      return in_memory.count(tensor) > 0 || own.count(tensor) > 0;
    };
    for (const std::string& name : schedule.groups(g).roots()) {
      const int tensor = graph.Find(name);
      const int base = ReshapeOf(graph, tensor, reachable);
      if (base >= 0) {
        work.alias[tensor] = base;
      } else {
        group.roots.push_back(tensor);
      }
    }
    // What a later group writes and this one computes again would be legal but for order.
    for (int node :
         NeededNodes(graph, group.roots, [&](int t) { return in_memory.count(t) > 0; })) {
      for (int tensor : graph.nodes[node].outputs) {
        auto other = group_of.find(tensor);
        if (other != group_of.end() && other->second > g && graph.nodes[node].reduce) {
          return absl::InvalidArgumentError(
              StrCat("group ", g, " of '", schedule.groups(g).roots(0), "' needs '",
                     graph.tensors[tensor].name, "', which group ", other->second,
                     " writes later; put that group before it"));
        }
      }
    }
    work.groups.push_back(group);
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
  return work;
}

int Storage::Base(int tensor) const {
  for (auto alias = work_.alias.find(tensor); alias != work_.alias.end();
       alias = work_.alias.find(tensor)) {
    tensor = alias->second;
  }
  return tensor;
}

Storage::Storage(const graph::Graph& graph, const Work& work, const std::map<int, int>& in_place,
                 v1::Plan& plan)
    : graph_(graph), work_(work), plan_(plan) {
  auto add = [&](v1::Buffer::Kind kind, int tensor) {
    const graph::Tensor& t = graph.tensors[tensor];
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    buffer->set_tensor(t.name);
    buffer->set_dtype(graph::NameOf(t.type));
    for (int64_t extent : t.shape) buffer->add_shape(extent);
    buffer->set_bytes(t.bytes());
    return plan.buffers_size() - 1;
  };
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node >= 0) continue;
    const graph::Role role = graph.tensors[t].role;
    const int buffer = add(role == graph::Role::kParam   ? v1::Buffer::PARAM
                           : role == graph::Role::kState ? v1::Buffer::STATE
                                                         : v1::Buffer::INPUT,
                           static_cast<int>(t));
    buffers_[static_cast<int>(t)] = buffer;
    if (role == graph::Role::kState) state_buffers_[static_cast<int>(t)] = buffer;
  }
  for (int tensor : graph.outputs) {
    output_buffers_.push_back(add(v1::Buffer::OUTPUT, tensor));
    buffers_.emplace(Base(tensor),
                     output_buffers_.back());  // the first that shares it is written directly
  }
  for (const auto& [tensor, state] : in_place)
    buffers_.emplace(Base(tensor), state_buffers_.at(state));
  for (const GroupWork& group : work.groups) {
    for (int tensor : group.roots) {
      if (buffers_.count(tensor) == 0) buffers_[tensor] = add(v1::Buffer::WORKSPACE, tensor);
    }
  }
}

int Storage::AddWorkspace(const std::string& name, const std::string& dtype, int64_t bytes) {
  v1::Buffer* buffer = plan_.add_buffers();
  buffer->set_kind(v1::Buffer::WORKSPACE);
  buffer->set_tensor(name);
  buffer->set_dtype(dtype);
  bytes = (bytes + 3) / 4 * 4;
  buffer->add_shape(bytes / 4);
  buffer->set_bytes(bytes);
  return plan_.buffers_size() - 1;
}

void Storage::AddFinalCopies() {
  auto copy = [&](int from, int to, int64_t bytes) {
    if (from == to) return;
    v1::Copy* step = plan_.add_steps()->mutable_copy();
    step->set_from(from);
    step->set_to(to);
    step->set_bytes(bytes);
  };
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    copy(BufferOf(graph_.outputs[i]), output_buffers_[i],
         graph_.tensors[graph_.outputs[i]].bytes());
  }
  // A state that another state's update still needs in its old form is saved first.
  std::map<int, int> from;
  for (const auto& update : graph_.updates) {
    int source = BufferOf(update.value);
    for (const auto& other : graph_.updates) {
      if (other.state != update.state && source == state_buffers_.at(other.state)) {
        const int saved = AddWorkspace(StrCat("old_", graph_.tensors[other.state].name), "f32",
                                       graph_.tensors[update.value].bytes());
        copy(source, saved, graph_.tensors[update.value].bytes());
        source = saved;
        break;
      }
    }
    from[update.state] = source;
  }
  for (const auto& update : graph_.updates) {
    copy(from[update.state], state_buffers_.at(update.state), graph_.tensors[update.value].bytes());
  }
}

}  // namespace warpsmith::codegen
