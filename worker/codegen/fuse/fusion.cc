// First schedules: one kernel for each node, and greedy fusion by estimated time.
//
// Fusion starts from a group for each reduce, output and update; maps in between are inlined. The
// pair of groups whose union saves most is merged, until none saves anything. Then heavy maps that
// are made again and again are stored, where that saves something, and merging goes on. The
// estimate counts bytes, what is read again because a row does not fit on the card, launches, and
// work that would be done several times.
#include "worker/codegen/fuse/fusion.h"

#include <algorithm>

#include "worker/codegen/cost/cost.h"
#include "worker/codegen/fuse/precision.h"
#include "worker/codegen/skeleton/attend/attend.h"

namespace warpsmith::codegen {

namespace {

// Below this part of a row kept on the card, a second kernel does as well and is simpler.
constexpr double kWorthKeeping = 0.25;
// Limits on what is tried, for graphs of thousands of nodes.
constexpr int kMaxTrials = 600;
constexpr size_t kMaxParameters = 24;
// A kernel's own limits: reduces of its rows, nodes, elements that one output loads.
constexpr int kMaxReduces = 6;
constexpr size_t kMaxGroupNodes = 48, kMaxAttentionNodes = 192;
constexpr int64_t kMaxKernelLoads = 128;
// Products that a sum has from which on its matrices are worth tiles.
constexpr int64_t kLongSums = 16;

}  // namespace

std::vector<Part> Fusion::Run() {
  Begin();
  if (attention_) MergeAttention();
  do {
    while (MergeBest()) {
    }
  } while (StoreBest());
  Order();
  return std::move(parts_);
}

bool Fusion::DependsOn(int a, const std::set<int>& from) const {
  for (int t : from) {
    if (a == t || ancestors_[a][t]) return true;
  }
  return false;
}

std::set<int> Fusion::MemoryFor(const Roots& roots) {
  std::set<int> memory;
  const std::set<int> own(roots.begin(), roots.end());
  for (int t : stored_) {
    if (own.count(t) == 0 && !DependsOn(t, own)) memory.insert(t);
  }
  return memory;
}

std::set<int> Fusion::ReadsOf(const Roots& roots) {
  const std::set<int> memory = MemoryFor(roots);
  auto in_memory = [&](int t) { return graph_.tensors[t].node < 0 || memory.count(t) > 0; };
  std::set<int> reads;
  for (int id : NeededNodes(graph_, roots, in_memory)) {
    for (int t : graph::LoadedTensors(graph_.nodes[id].value)) {
      if (in_memory(t)) reads.insert(t);
    }
  }
  return reads;
}

std::optional<double> Fusion::Estimate(const Roots& roots) {
  places_ = product_ = false;
  const std::set<int> memory = MemoryFor(roots);
  std::set<int> readable = memory;
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    if (graph_.tensors[t].node < 0) readable.insert(static_cast<int>(t));
  }
  auto in_memory = [&](int t) { return readable.count(t) > 0; };
  bool alias = true;
  for (int root : roots) alias = alias && ReshapeOf(graph_, root, in_memory) >= 0;
  if (alias) return 0.0;
  const std::vector<int> nodes = NeededNodes(graph_, roots, in_memory);
  int reduces = 0;
  for (int id : nodes) reduces += graph_.nodes[id].reduce;
  const size_t most_nodes = attends_ ? kMaxAttentionNodes : kMaxGroupNodes;
  if (reduces > kMaxReduces || (reduces > 1 && nodes.size() > most_nodes)) return std::nullopt;
  const Analysis group(graph_, roots, readable);
  if (group.demand().reads.size() + roots.size() > kMaxParameters) return std::nullopt;
  auto resolved = ResolveGroup(group, {}, target_);
  unrounded_ = resolved.ok() && resolved->has_attend() && RoundsScores(group);
  if (unrounded_) {
    v1::Group knobs;
    knobs.mutable_precision()->set_unrounded(true);
    resolved = ResolveGroup(group, knobs, target_);
  }
  if (!resolved.ok()) return std::nullopt;
  places_ = group.places().ok();
  const Skeleton* skeleton = FindSkeleton(resolved->skeleton_case());
  skeleton_ = skeleton->id();
  auto domain = skeleton->Matches(group);
  product_ = skeleton_ == v1::Group::kContract && domain.ok() && (*domain)->reduced() >= kLongSums;
  auto use = skeleton->Use(group, *resolved, target_);
  if (!domain.ok() || !use.ok()) return std::nullopt;
  const std::vector<RootPlace>& places = (*domain)->roots;
  online_ = group.online().ok() && group.online()->online_used &&
            std::all_of(places.begin(), places.end(),
                        [](const auto& root) { return root.level == Level::kRows; });
  // A row that hardly stays on the card is as well read again by a second, simpler kernel.
  const bool emits = use->passes > (*domain)->stages && !(*domain)->elements();
  if (use->passes > 1 && !use->cached && use->kept < kWorthKeeping && emits) return std::nullopt;
  if (LoadsOfPoint(group, **domain) > kMaxKernelLoads) return std::nullopt;
  return SecondsOf(group, **domain, *use, target_);
}

Roots Fusion::Union(const Part& a, const Part& b) {
  Roots all = a.roots;
  all.insert(all.end(), b.roots.begin(), b.roots.end());
  Roots kept;
  for (int t : all) {
    bool needed = required_.count(t) > 0;
    for (const Part& part : parts_) {
      if (&part != &a && &part != &b) needed = needed || part.reads.count(t) > 0;
    }
    if (needed) kept.push_back(t);
  }
  // Nobody else needs any: they would not be there.
  return kept.empty() ? all : kept;
}

bool Fusion::Reaches(const std::set<int>& from, const Part& to) {
  for (int t : to.roots) {
    if (DependsOn(t, from)) return true;
  }
  return false;
}

void Fusion::FindAfter() {
  const size_t n = parts_.size();
  after_.assign(n, std::vector<bool>(n));
  for (size_t p = 0; p < n; ++p) {
    const std::set<int> own(parts_[p].roots.begin(), parts_[p].roots.end());
    for (size_t q = 0; q < n; ++q) after_[p][q] = p != q && Reaches(own, parts_[q]);
  }
  for (size_t by = 0; by < n; ++by) {
    for (size_t p = 0; p < n; ++p) {
      if (!after_[p][by]) continue;
      for (size_t q = 0; q < n; ++q) {
        if (after_[by][q]) after_[p][q] = true;
      }
    }
  }
}

bool Fusion::Convex(size_t a, size_t b) const {
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (p == a || p == b) continue;
    if ((after_[a][p] || after_[b][p]) && (after_[p][a] || after_[p][b])) return false;
  }
  return true;
}

bool Fusion::Related(const Part& a, const Part& b) {
  for (int t : a.roots)
    if (b.reads.count(t) > 0) return true;
  for (int t : b.roots)
    if (a.reads.count(t) > 0) return true;
  for (int t : a.reads)
    if (b.reads.count(t) > 0) return true;
  return a.places && b.places;  // keys and values of one token
}

bool Fusion::MergeBest() {
  double best = 0;
  size_t best_a = 0, best_b = 0;
  Roots best_roots;
  FindAfter();
  for (size_t a = 0; a < parts_.size(); ++a) {
    for (size_t b = a + 1; b < parts_.size(); ++b) {
      const double saved =
          Related(parts_[a], parts_[b]) && Convex(a, b) ? Saving(parts_[a], parts_[b]) : 0;
      if (saved <= best) continue;
      best = saved;
      best_a = a;
      best_b = b;
      best_roots = Union(parts_[a], parts_[b]);
    }
  }
  if (best <= 0) return false;
  parts_.erase(parts_.begin() + best_b);
  parts_.erase(parts_.begin() + best_a);
  Part merged;
  merged.roots = best_roots;
  stored_.clear();
  for (const Part& part : parts_) stored_.insert(part.roots.begin(), part.roots.end());
  stored_.insert(best_roots.begin(), best_roots.end());
  merged.seconds = Estimate(best_roots).value_or(1);
  merged.reads = ReadsOf(best_roots);
  merged.places = places_;
  merged.attends = skeleton_ == v1::Group::kAttend;
  merged.product = product_ || merged.attends;
  parts_.insert(parts_.begin() + best_a, merged);
  return true;
}

double Fusion::Saving(const Part& a, const Part& b) {
  const Roots merged = Union(a, b);
  const std::vector<Roots> key = {a.roots, b.roots, merged, Roots(a.reads.begin(), a.reads.end()),
                                  Roots(b.reads.begin(), b.reads.end())};
  auto known = savings_.find(key);
  if (known != savings_.end()) return known->second;
  if (trials_ >= kMaxTrials) return 0;
  ++trials_;
  // Roots that vanish are in no memory.
  const std::set<int> before = stored_;
  for (const Part* part : {&a, &b}) {
    for (int t : part->roots) stored_.erase(t);
  }
  stored_.insert(merged.begin(), merged.end());
  const auto seconds = Estimate(merged);
  stored_ = before;
  // What tiles share, loops of threads would read again and again.
  const bool untiled = (a.product || b.product) && !product_;
  const double saved = seconds.has_value() && !untiled ? a.seconds + b.seconds - *seconds : 0;
  savings_[key] = saved;
  return saved;
}

void Fusion::Order() {
  std::vector<Part> ordered;
  std::vector<bool> done(parts_.size());
  std::map<int, size_t> writer;
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].reads = ReadsOf(parts_[p].roots);
    for (int t : parts_[p].roots) writer[t] = p;
  }
  std::function<void(size_t)> visit = [&](size_t p) {
    if (done[p]) return;
    done[p] = true;
    for (int t : parts_[p].reads) {
      auto from = writer.find(t);
      if (from != writer.end()) visit(from->second);
    }
    ordered.push_back(parts_[p]);
  };
  for (size_t p = 0; p < parts_.size(); ++p) visit(p);
  parts_ = std::move(ordered);
  for (Part& part : parts_) {
    skeleton_ = v1::Group::SKELETON_NOT_SET;
    online_ = unrounded_ = false;
    attends_ = true;
    (void)Estimate(part.roots);
    attends_ = false;
    part.skeleton = skeleton_;
    part.online = online_;
    part.unrounded = unrounded_;
  }
}

namespace {

// Merging is greedy, and what it begins with decides: the quicker of two beginnings.
std::vector<Part> FusedParts(const graph::Graph& graph, const Target& target, bool attention) {
  const auto seconds = [](const std::vector<Part>& parts) {
    double all = 0;
    for (const Part& part : parts) all += part.seconds;
    return all;
  };
  std::vector<Part> first = Fusion(graph, target, true, attention).Run();
  if (first.size() < 2) return first;
  std::vector<Part> other = Fusion(graph, target, false, attention).Run();
  return seconds(other) < seconds(first) ? other : first;
}

}  // namespace

v1::Schedule OpByOpSchedule(const graph::Graph& graph, const Target&) {
  v1::Schedule schedule;
  for (int id :
       NeededNodes(graph, ResultsOf(graph), [&](int t) { return graph.tensors[t].node < 0; })) {
    v1::Group* group = schedule.add_groups();
    for (int t : graph.nodes[id].outputs) group->add_roots(graph.tensors[t].name);
  }
  return schedule;
}

namespace {

struct Fused {
  v1::Schedule schedule;
  double seconds = 0;
};

Fused Fuse(const graph::Graph& graph, const Target& target, bool attention) {
  Fused fused;
  v1::Schedule& schedule = fused.schedule;
  const FirstPrecision precision(graph);
  std::set<int> seen;
  for (const Part& part : FusedParts(graph, target, attention)) {
    v1::Group* group = schedule.add_groups();
    for (int t : part.roots) group->add_roots(graph.tensors[t].name);
    // What the group before read last is in L2 still: begin there.
    for (int t : part.reads) {
      if (part.skeleton == v1::Group::kMap && seen.count(t) > 0 &&
          graph.tensors[t].bytes() > target.l2_bytes) {
        group->mutable_map()->set_reverse(true);
      }
    }
    if (part.online && part.skeleton == v1::Group::kRows) group->mutable_rows()->set_online(true);
    if (part.online && part.skeleton == v1::Group::kColumns)
      group->mutable_columns()->set_online(true);
    precision.Choose(part.roots, part.reads, *group);
    if (part.unrounded) group->mutable_precision()->set_unrounded(true);
    seen.insert(part.reads.begin(), part.reads.end());
    fused.seconds += part.seconds;
  }
  // Kernels that do not need each other need not wait for each other.
  if (schedule.groups_size() > 1) schedule.mutable_launch()->set_branches(true);
  return fused;
}

}  // namespace

v1::Schedule DefaultSchedule(const graph::Graph& graph, const Target& target) {
  return Fuse(graph, target, true).schedule;
}

v1::Schedule FirstSchedule(const graph::Graph& graph, const Target& target, bool attention) {
  google::protobuf::RepeatedPtrField<std::string> rewrites;
  // What computes the same is computed once in what is lowered: groups are of that.
  const auto once = Rewrite(graph, rewrites);
  Fused best = Fuse(once.ok() ? *once : graph, target, attention);
  for (const std::string& rewrite : RewritesAtOnce(graph)) {
    *rewrites.Add() = rewrite;
    auto rewritten = Rewrite(graph, rewrites);
    Fused fused;
    if (rewritten.ok()) fused = Fuse(*rewritten, target, attention);
    if (rewritten.ok() && fused.seconds < best.seconds) {
      best = std::move(fused);
      *best.schedule.mutable_rewrites() = rewrites;
    } else {
      rewrites.RemoveLast();
    }
  }
  return best.schedule;
}

}  // namespace warpsmith::codegen
