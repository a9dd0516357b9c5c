#include "worker/codegen/plan/storage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

int64_t RoundedToWords(int64_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

std::vector<bool> PreparedGroups(const graph::Graph& graph, const Structure& structure) {
  std::vector<bool> prepared(structure.groups.size(), false);
  if (!graph.constant_params) return prepared;
  // Answers share memory with some; what is in memory when it is asked for.
  std::set<int> answers, there;
  for (int output : graph.outputs) answers.insert(structure.Base(output));
  for (const auto& update : graph.updates) answers.insert(structure.Base(update.value));
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].role == graph::Role::kParam) there.insert(static_cast<int>(t));
  }
  for (size_t g = 0; g < structure.groups.size(); ++g) {
    const Analysis* group = structure.groups[g].analysis.get();
    if (group == nullptr) continue;
    const auto& roots = group->roots();
    const auto& reads = group->demand().reads;
    prepared[g] = group->constant() &&
                  std::all_of(roots.begin(), roots.end(),
                              [&](int root) { return answers.count(root) == 0; }) &&
                  std::all_of(reads.begin(), reads.end(),
                              [&](int read) { return there.count(structure.Base(read)) > 0; });
    if (prepared[g]) there.insert(roots.begin(), roots.end());
  }
  return prepared;
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
                 const std::map<int, int>& in_place, const std::vector<bool>& prepared,
                 bool branches, v1::Plan& plan)
    : graph_(graph), structure_(structure), in_place_(in_place), plan_(plan) {
  if (branches) {
    needed_ = NeededGroups(structure);
    needed_.emplace_back(needed_.size(), true);
    for (std::vector<bool>& groups : needed_) groups.resize(needed_.size(), false);
  }
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
  std::vector<bool> mine = prepared;
  mine.flip();
  if (graph.constant_params) {
    preparation_.reset(new Storage(graph, structure, *plan.mutable_prepare(), OfPreparation{}));
    const std::set<int> left = ReadBy(mine);
    for (size_t g = 0; g < prepared.size(); ++g) {
      if (!prepared[g]) continue;
      for (int root : structure.groups[g].analysis->roots()) {
        if (left.count(root) == 0) continue;
        buffers_[root] = AddBuffer(v1::Buffer::PREPARED, root);
        preparation_->buffers_[root] = preparation_->AddBuffer(v1::Buffer::OUTPUT, root);
      }
    }
    preparation_->PlaceBetweenGroups(prepared);
  }
  PlaceBetweenGroups(mine);
}

Storage::Storage(const graph::Graph& graph, const Structure& structure, v1::Plan& plan,
                 OfPreparation)
    : graph_(graph), structure_(structure), plan_(plan) {
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].role == graph::Role::kParam)
      buffers_[static_cast<int>(t)] = AddBuffer(v1::Buffer::PARAM, static_cast<int>(t));
  }
}

std::set<int> Storage::ReadBy(const std::vector<bool>& groups) const {
  std::set<int> read;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g] || structure_.groups[g].analysis == nullptr) continue;
    for (int tensor : structure_.groups[g].analysis->demand().reads) read.insert(Base(tensor));
  }
  return read;
}

void Storage::PlaceBetweenGroups(const std::vector<bool>& mine) {
  std::map<int, std::set<int>> readers;  // of base tensors: groups
  const int end = static_cast<int>(structure_.groups.size());
  for (int g = 0; g < end; ++g) {
    if (!mine[g] || structure_.groups[g].analysis == nullptr) continue;
    for (int tensor : structure_.groups[g].analysis->demand().reads)
      readers[Base(tensor)].insert(g);
  }
  for (const auto& update : graph_.updates) readers[Base(update.value)].insert(end);
  for (int tensor : graph_.outputs) readers[Base(tensor)].insert(end);
  for (int g = 0; g < end; ++g) {
    if (!mine[g] || structure_.groups[g].analysis == nullptr) continue;
    for (int tensor : structure_.groups[g].analysis->roots()) {
      if (buffers_.count(tensor) > 0) continue;
      const graph::Tensor& t = graph_.tensors[tensor];
      Life life{readers[tensor]};
      life.groups.insert(g);
      buffers_[tensor] = Claim(t.name, t.bytes(), life);
    }
  }
}

// Words: what lies there has types of its own.
int Storage::AddWords(v1::Buffer::Kind kind, const std::string& name, int64_t bytes) {
  bytes = RoundedToWords(bytes);
  v1::Buffer* added = plan_.add_buffers();
  added->set_kind(kind);
  added->set_tensor(name);
  added->set_dtype("i32");
  added->add_shape(bytes / 4);
  added->set_bytes(bytes);
  return plan_.buffers_size() - 1;
}

Storage::Left Storage::AddPrepared(const std::string& name, int64_t bytes) {
  return {preparation_->AddWords(v1::Buffer::OUTPUT, name, bytes),
          AddWords(v1::Buffer::PREPARED, name, bytes)};
}

bool Storage::Meet(const Life& a, const Life& b) const {
  if (needed_.empty()) return a.from() <= b.to() && b.from() <= a.to();
  const auto ended = [this](const Life& one, const Life& other) {
    return std::all_of(one.groups.begin(), one.groups.end(),
                       [&](int group) { return needed_[other.from()][group]; });
  };
  return !ended(a, b) && !ended(b, a);
}

// The free buffer that fits best, grown if it is too small, or a new one.
int Storage::Claim(const std::string& name, int64_t bytes, const Life& life) {
  bytes = RoundedToWords(bytes);
  int best = -1;
  auto worse = [&](int a, int b) {  // how far a is from fitting, against b
    const int64_t x = plan_.buffers(a).bytes() - bytes, y = plan_.buffers(b).bytes() - bytes;
    if ((x >= 0) != (y >= 0)) return x < 0;
    return std::abs(x) >= std::abs(y);
  };
  for (const auto& [buffer, lives] : lives_) {
    const bool free = std::none_of(lives.begin(), lives.end(),
                                   [&](const Life& other) { return Meet(other, life); });
    if (free && (best < 0 || !worse(buffer, best))) best = buffer;
  }
  if (best < 0) best = AddWords(v1::Buffer::WORKSPACE, name, bytes);
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
  return Claim(name, bytes, {{now_}});
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
