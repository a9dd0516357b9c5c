#include "worker/codegen/plan/storage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using absl::StrCat;

int Storage::Base(int tensor) const {
  for (auto alias = structure_.alias.find(tensor); alias != structure_.alias.end();
       alias = structure_.alias.find(tensor)) {
    tensor = alias->second;
  }
  return tensor;
}

int Storage::StateOf(int tensor) const {
  const auto found = in_place_.find(tensor);
  return found == in_place_.end() ? -1 : found->second;
}

int Storage::AddBuffer(v1::Buffer::Kind kind, int tensor) {
  const graph::Tensor& t = graph_.tensors[tensor];
  v1::Buffer* buffer = plan_.add_buffers();
  buffer->set_kind(kind);
  buffer->set_tensor(t.name);
  buffer->set_dtype(graph::NameOf(t.type));
  for (int64_t extent : t.shape) buffer->add_shape(extent);
  buffer->set_bytes(t.bytes());
  return plan_.buffers_size() - 1;
}

Storage::Storage(const graph::Graph& graph, const Structure& structure,
                 const std::map<int, int>& in_place, v1::Plan& plan)
    : graph_(graph), structure_(structure), in_place_(in_place), plan_(plan) {
  for (int t = 0; t < static_cast<int>(graph.tensors.size()); ++t) {
    if (graph.tensors[t].node >= 0) continue;
    const graph::Role role = graph.tensors[t].role;
    buffers_[t] = AddBuffer(role == graph::Role::kParam   ? v1::Buffer::PARAM
                            : role == graph::Role::kState ? v1::Buffer::STATE
                                                          : v1::Buffer::INPUT,
                            t);
    plan_.mutable_buffers(buffers_[t])->set_inout(graph.tensors[t].inout);
    if (role == graph::Role::kState) state_buffers_[t] = buffers_[t];
  }
  for (int tensor : graph.outputs) {
    output_buffers_.push_back(AddBuffer(v1::Buffer::OUTPUT, tensor));
    // The first that shares it is written directly.
    buffers_.emplace(Base(tensor), output_buffers_.back());
  }
  for (const auto& [tensor, state] : in_place)
    buffers_.emplace(Base(tensor), state_buffers_.at(state));
  PlaceBetweenGroups(structure);
}

void Storage::PlaceBetweenGroups(const Structure& structure) {
  std::map<int, int> last;  // base tensor: the last group that reads it
  const int end = static_cast<int>(structure.groups.size());
  for (int g = 0; g < end; ++g) {
    if (structure.groups[g].analysis == nullptr) continue;
    for (int tensor : structure.groups[g].analysis->demand().reads) last[Base(tensor)] = g;
  }
  for (const auto& update : graph_.updates) last[Base(update.value)] = end;
  for (int tensor : graph_.outputs) last[Base(tensor)] = end;
  for (int g = 0; g < end; ++g) {
    if (structure.groups[g].analysis == nullptr) continue;
    for (int tensor : structure.groups[g].analysis->roots()) {
      if (buffers_.count(tensor) > 0) continue;
      const graph::Tensor& t = graph_.tensors[tensor];
      const auto read = last.find(tensor);
      buffers_[tensor] =
          Claim(t.name, t.bytes(), {g, read == last.end() ? g : std::max(g, read->second)});
    }
  }
}

// The free buffer that fits best, grown if it is too small, or a new one.
int Storage::Claim(const std::string& name, int64_t bytes, Life life) {
  bytes = (bytes + 3) / 4 * 4;
  int best = -1;
  auto worse = [&](int a, int b) {  // how far a is from fitting, against b
    const int64_t x = plan_.buffers(a).bytes() - bytes, y = plan_.buffers(b).bytes() - bytes;
    if ((x >= 0) != (y >= 0)) return x < 0;
    return std::abs(x) >= std::abs(y);
  };
  for (const auto& [buffer, lives] : lives_) {
    const bool free = std::none_of(lives.begin(), lives.end(), [&](const Life& other) {
      return other.from <= life.to && life.from <= other.to;
    });
    if (free && (best < 0 || !worse(buffer, best))) best = buffer;
  }
  if (best < 0) {
    v1::Buffer* added = plan_.add_buffers();
    added->set_kind(v1::Buffer::WORKSPACE);
    added->set_tensor(name);
    added->set_dtype("i32");  // words: what shares it has types of its own
    best = plan_.buffers_size() - 1;
  }
  v1::Buffer* buffer = plan_.mutable_buffers(best);
  if (buffer->bytes() < bytes) {
    buffer->clear_shape();
    buffer->add_shape(bytes / 4);
    buffer->set_bytes(bytes);
  }
  lives_[best].push_back(life);
  return best;
}

int Storage::AddWorkspace(const std::string& name, int64_t bytes) {
  return Claim(name, bytes, {now_, now_});
}

void Storage::AddFinalCopies() {
  now_ = static_cast<int>(structure_.groups.size());  // behind all of them
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
        const int saved = AddWorkspace(StrCat("old_", graph_.tensors[other.state].name),
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
