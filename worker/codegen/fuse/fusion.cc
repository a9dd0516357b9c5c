// First schedules: one kernel for each node, and greedy fusion by estimated time.
//
// Fusion starts from a group for each reduce, output and update; maps in between are inlined. The
// pair of groups whose union saves most is merged, until none saves anything. The estimate counts
// bytes, what is read again because a row does not fit on the card, launches, and work that would
// be done several times.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "worker/codegen/codegen.h"
#include "worker/codegen/cost/cost.h"
#include "worker/codegen/fuse/precision.h"
#include "worker/codegen/fuse/products.h"
#include "worker/codegen/group/structure.h"
#include "worker/codegen/skeleton/attend/attend.h"
#include "worker/codegen/skeleton/attend/form.h"

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
constexpr int64_t kMaxLoadsOfOutput = 24;
constexpr int64_t kMaxKernelLoads = 128;
// Products that a sum has from which on its matrices are worth tiles.
constexpr int64_t kLongSums = 16;
// A tensor of at most this part of what it comes from is small.
constexpr int64_t kSmallPart = 16;

using Roots = std::vector<int>;

struct Part {
  Roots roots;
  std::set<int> reads;  // tensors in memory
  double seconds = 0;
  SkeletonCase skeleton = v1::Group::SKELETON_NOT_SET;
  bool unrounded = false;  // scores of attention are simpler without roundings on the way
  bool online = false;   // one pass does where there would be two, and nothing needs the row again
  bool places = false;   // it changes places of what stays
  bool product = false;  // of matrices, with sums that are long enough to want tiles
};

class Fusion {
 public:
  // `stores_more`: heavy maps that are read by sums that a thread could make alone, not only where
  // those have an element several times; and what loads many elements, each counted as often as a
  // map loads it.
  // `attention`: whether it may be one group.
  Fusion(const graph::Graph& graph, const Target& target, bool stores_more, bool attention)
      : graph_(graph), target_(target), stores_more_(stores_more), attention_(attention) {}

  std::vector<Part> Run() {
    Begin();
    if (attention_) MergeAttention();
    while (MergeBest()) {
    }
    Order();
    return std::move(parts_);
  }

 private:
  void Begin() {
    for (int output : graph_.outputs) required_.insert(output);
    for (const auto& update : graph_.updates) required_.insert(update.value);
    std::vector<int> roots(required_.begin(), required_.end());
    const auto inputs = [this](int t) { return graph_.tensors[t].node < 0; };
    const std::vector<int> needed = NeededNodes(graph_, roots, inputs);
    std::set<int> loaded;
    for (int id : needed) {
      for (int t : graph::LoadedTensors(graph_.nodes[id].value)) loaded.insert(t);
    }
    FindAncestors();
    for (int t : required_) {
      if (graph_.tensors[t].node >= 0) stored_.insert(t);
    }
    StoreRepeated(needed);
    const std::map<int, int> ends = EndProducts(needed);
    std::set<int> taken;  // written by a product that they stand behind
    std::vector<Roots> starts;
    for (int id : needed) {
      const graph::Node& node = graph_.nodes[id];
      Roots own;
      const auto end = ends.find(id);
      if (end != ends.end() && end->second != node.outputs[0]) {
        taken.insert(end->second);
        starts.push_back({end->second});
        continue;
      }
      for (int t : node.outputs) {
        if (taken.count(t) > 0) continue;
        if (stored_.count(t) > 0 || (!node.map() && loaded.count(t) > 0)) own.push_back(t);
      }
      if (!own.empty()) starts.push_back(own);
    }
    for (const Roots& start : starts) stored_.insert(start.begin(), start.end());
    for (const Roots& start : starts) {
      Part part;
      part.roots = start;
      part.reads = ReadsOf(start);
      part.seconds = Estimate(start).value_or(1);
      part.places = places_;
      part.product = product_;
      parts_.push_back(part);
    }
  }

  // Whether `a` is, or is computed from, a tensor of `from`.
  bool DependsOn(int a, const std::set<int>& from) const {
    for (int t : from) {
      if (a == t || ancestors_[a][t]) return true;
    }
    return false;
  }

  void FindAncestors() {
    const size_t n = graph_.tensors.size();
    ancestors_.assign(n, std::vector<bool>(n));
    for (const graph::Node& node : graph_.nodes) {
      std::vector<bool> above(n);
      for (int t : graph::LoadedTensors(node.value)) {
        above[t] = true;
        for (size_t u = 0; u < n; ++u) {
          if (ancestors_[t][u]) above[u] = true;
        }
      }
      for (int t : node.outputs) ancestors_[t] = above;
    }
  }

  // Maps that had better be in memory: what loads them at many places would compute them as often.
  void StoreRepeated(const std::vector<int>& needed) {
    std::map<int, int64_t> loads;  // distinct elements that an element of a map loads
    for (int id : needed) {
      const graph::Node& node = graph_.nodes[id];
      std::vector<graph::ExprPtr> distinct;
      std::function<void(const graph::ExprPtr&)> visit = [&](const graph::ExprPtr& e) {
        if (e->op == graph::Op::kLoad &&
            std::none_of(distinct.begin(), distinct.end(),
                         [&](const auto& d) { return graph::Same(d, e); })) {
          distinct.push_back(e);
        }
        for (const graph::ExprPtr& arg : e->args) visit(arg);
      };
      visit(node.value);
      int64_t elements = 1;
      for (const graph::Axis& axis : node.reduce_axes) elements *= axis.extent;
      // Whether a thread of it may compute elements of a map again that another has.
      const auto repeats = [&](int t) {
        return node.reduce && elements <= kMaxSerialElements &&
               (stores_more_ ||
                Product(node.axes) * elements > graph_.tensors[Viewed(t)].elements());
      };
      auto inlined = [&](int t) {
        const int producer = graph_.tensors[t].node;
        return producer >= 0 && graph_.nodes[producer].map() && stored_.count(t) == 0;
      };
      int64_t total = 0;
      for (const auto& e : distinct) {
        if (inlined(e->tensor) && heavy_.count(e->tensor) > 0 && repeats(e->tensor))
          stored_.insert(Viewed(e->tensor));
        total += inlined(e->tensor) ? loads[e->tensor] : 1;
      }
      // What several of the maps load is loaded once.
      if (total > kMaxLoadsOfOutput && !stores_more_)
        total = std::min(total, DistinctLoads(node, inlined));
      if (total > kMaxLoadsOfOutput) {
        for (const auto& e : distinct) {
          if (inlined(e->tensor) && loads[e->tensor] > 1) stored_.insert(e->tensor);
        }
        total = static_cast<int64_t>(distinct.size());
      }
      if (node.reduce) StoreSmallResults(distinct);
      if (node.map() && stores_more_) {
        std::set<int> read;
        for (const auto& e : distinct) {
          if (!inlined(e->tensor) || heavy_.count(e->tensor) == 0) continue;
          // Of a thread's own row it would be computed once, of many rows for each of their
          // elements.
          const int t = Viewed(e->tensor);
          const bool small = graph_.tensors[t].elements() * kSmallPart <= Product(node.axes);
          if (small || !read.insert(t).second) stored_.insert(t);
        }
      }
      for (int t : node.outputs) {
        loads[t] = total;
        bool heavy = IsHeavy(node.value);
        for (const auto& e : distinct)
          heavy = heavy || (inlined(e->tensor) && heavy_.count(e->tensor) > 0);
        if (heavy) heavy_.insert(t);
      }
    }
  }

  // Elements that an element of the node's, or of what it reduces, loads, maps that are `inlined`
  // computed where they are read.
  int64_t DistinctLoads(const graph::Node& node, const std::function<bool(int)>& inlined) const {
    std::set<int> memory;
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (!inlined(static_cast<int>(t))) memory.insert(static_cast<int>(t));
    }
    for (int t : node.outputs) memory.erase(t);
    const Analysis group(graph_, node.outputs, memory);
    const absl::StatusOr<Domain>& domain = node.reduce ? group.stages() : group.elements();
    return domain.ok() ? LoadsOfPoint(group, *domain) : std::numeric_limits<int64_t>::max();
  }

  // What to store for who needs `tensor`: of a view that moves all of a tensor's elements, or some
  // of them several times, that tensor, which others may view otherwise.
  int Viewed(int tensor) const {
    const int source = ViewedBy(graph_, tensor);
    const bool whole = graph_.tensors[source].elements() <= graph_.tensors[tensor].elements();
    return whole && graph_.tensors[source].node >= 0 ? source : tensor;
  }

  // For each node that is a product of matrices the tensor that its kernel writes. Operands that
  // had better be in memory are stored.
  std::map<int, int> EndProducts(const std::vector<int>& needed) {
    std::map<int, int> ends;
    std::set<int> taken;
    std::set<int> before;  // what other kernels have made by then
    for (int id : needed) {
      const graph::Node& node = graph_.nodes[id];
      std::set<int> memory = stored_;
      memory.insert(before.begin(), before.end());
      if (!node.map()) before.insert(node.outputs.begin(), node.outputs.end());
      std::vector<int> operands;
      if (!IsProduct(graph_, id, memory, target_, &operands)) continue;
      stored_.insert(operands.begin(), operands.end());
      const int sum = node.outputs[0];
      ends[id] = LastOfEpilogue(graph_, sum, needed, required_, taken);
      taken.insert(ends[id]);
      before.insert(ends[id]);
    }
    return ends;
  }

  // What a reduce makes of the results of other reduces is small and belongs to the kernel of
  // those: a loss of each row, say, and its mean.
  void StoreSmallResults(const std::vector<graph::ExprPtr>& loads) {
    for (const auto& e : loads) {
      const int t = e->tensor, producer = graph_.tensors[t].node;
      if (producer < 0 || !graph_.nodes[producer].map()) continue;
      int64_t largest = 0, points = 0;  // tensors, and what is reduced
      for (size_t u = 0; u < graph_.tensors.size(); ++u) {
        if (!ancestors_[t][u]) continue;
        largest = std::max(largest, graph_.tensors[u].elements());
        const int id = graph_.tensors[u].node;
        if (id < 0 || !graph_.nodes[id].reduce) continue;
        const graph::Node& reduce = graph_.nodes[id];
        points = std::max(points, Product(reduce.axes) * Product(reduce.reduce_axes));
      }
      // Of a large table few lines may be read, and a product has more points than elements.
      if (graph_.tensors[t].elements() * kSmallPart <= std::min(largest, points)) stored_.insert(t);
    }
  }

  static bool IsHeavy(const graph::ExprPtr& e) {
    switch (e->op) {
      case graph::Op::kExp:
      case graph::Op::kExpm1:
      case graph::Op::kLog:
      case graph::Op::kLog1p:
      case graph::Op::kTanh:
      case graph::Op::kErf:
      case graph::Op::kSin:
      case graph::Op::kCos:
        return true;
      default:
        return std::any_of(e->args.begin(), e->args.end(),
                           [](const auto& arg) { return IsHeavy(arg); });
    }
  }

  // Tensors that a group of these roots finds in memory.
  std::set<int> MemoryFor(const Roots& roots) {
    std::set<int> memory;
    const std::set<int> own(roots.begin(), roots.end());
    for (int t : stored_) {
      if (own.count(t) == 0 && !DependsOn(t, own)) memory.insert(t);
    }
    return memory;
  }

  std::set<int> ReadsOf(const Roots& roots) {
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

  // Seconds of a kernel with these roots; nothing where it cannot be one.
  std::optional<double> Estimate(const Roots& roots) {
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
    product_ =
        skeleton_ == v1::Group::kContract && domain.ok() && (*domain)->reduced() >= kLongSums;
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

  // Roots of the union that someone else needs.
  Roots Union(const Part& a, const Part& b) {
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

  bool Reaches(const std::set<int>& from, const Part& to) {
    for (int t : to.roots) {
      if (DependsOn(t, from)) return true;
    }
    return false;
  }

  // Which groups come after which, by way of others too: outputs of one group that have nothing to
  // do with each other still come together.
  void FindAfter() {
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

  // No third group lies between the two.
  bool Convex(size_t a, size_t b) const {
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (p == a || p == b) continue;
      if ((after_[a][p] || after_[b][p]) && (after_[p][a] || after_[p][b])) return false;
    }
    return true;
  }

  bool Related(const Part& a, const Part& b) {
    for (int t : a.roots)
      if (b.reads.count(t) > 0) return true;
    for (int t : b.roots)
      if (a.reads.count(t) > 0) return true;
    for (int t : a.reads)
      if (b.reads.count(t) > 0) return true;
    return a.places && b.places;  // keys and values of one token
  }

  // Two products with a softmax between them are one group where that can be one kernel: no two
  // of its steps by themselves save anything. From the first product on all that leads to the
  // second is in it.
  void MergeAttention() {
    const auto inputs = [this](int t) { return graph_.tensors[t].node < 0; };
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Roots end = parts_[p].roots;
      const int second = ProductBehind(end, inputs);
      if (second < 0) continue;
      const AttendBetween between = BetweenOf(graph_, second, inputs);
      if (between.weight < 0) continue;
      const int first = ProductBehind({between.score}, inputs);
      if (first < 0) continue;
      const int product = graph_.nodes[first].outputs[0];
      std::set<int> within;  // stored tensors that are not any more
      for (int t : stored_) {
        const bool behind = DependsOn(t, {product}),
                   before = DependsOn(graph_.nodes[second].outputs[0], {t});
        if (behind && before && t != graph_.nodes[second].outputs[0]) within.insert(t);
      }
      // Views that would be written for these products alone are not, either.
      for (int node : {first, second}) {
        for (const graph::ExprPtr& factor : graph_.nodes[node].value->args) {
          std::set<int> with = within;
          for (int t : StoredViews(factor)) with.insert(t);
          if (OnlyFor(with, p)) within = std::move(with);
        }
      }
      if (!OnlyFor(within, p)) continue;
      double seconds = parts_[p].seconds;
      for (const Part& part : parts_) {
        if (within.count(part.roots[0]) > 0) seconds += part.seconds;
      }
      const std::set<int> before = stored_;
      for (int t : within) stored_.erase(t);
      std::vector<Part> operands;
      for (int node : {first, second}) {
        for (const graph::ExprPtr& factor : graph_.nodes[node].value->args) {
          const int t = HalfBehind(factor);
          if (t < 0 || t == between.weight || DependsOn(t, {product})) continue;
          stored_.insert(t);
          operands.push_back({.roots = {t}});
          operands.back().seconds = Estimate({t}).value_or(1);
        }
      }
      attends_ = true;
      const auto one = Estimate(end);
      attends_ = false;
      double then = one.value_or(0);
      for (const Part& part : operands) then += part.seconds;
      if (!one || skeleton_ != v1::Group::kAttend || then >= seconds) {
        stored_ = before;
        continue;
      }
      parts_[p].seconds = *one;
      parts_[p].product = true;
      std::erase_if(parts_, [&](const Part& part) { return within.count(part.roots[0]) > 0; });
      parts_.insert(parts_.begin(), operands.begin(), operands.end());
      for (Part& part : parts_) part.reads = ReadsOf(part.roots);
      p = std::find_if(parts_.begin(), parts_.end(),
                       [&](const Part& part) { return part.roots == end; }) -
          parts_.begin();
    }
  }

  // What a factor is moved from or made of, one after the other: loads, through casts and products
  // with constants.
  std::vector<graph::ExprPtr> LoadsBehind(graph::ExprPtr e) const {
    std::vector<graph::ExprPtr> loads;
    const auto constant = [&](int arg) { return e->args[arg]->op == graph::Op::kConst; };
    for (;;) {
      if (e->op == graph::Op::kCast || (e->op == graph::Op::kDiv && constant(1)) ||
          (e->op == graph::Op::kMul && constant(1))) {
        e = e->args[0];
      } else if (e->op == graph::Op::kMul && constant(0)) {
        e = e->args[1];
      } else {
        if (e->op != graph::Op::kLoad) return loads;
        loads.push_back(e);
        const int node = graph_.tensors[e->tensor].node;
        if (node < 0 || !graph_.nodes[node].map()) return loads;
        e = graph_.nodes[node].value;
      }
    }
  }
  bool Moves(int tensor) const {
    const int node = graph_.tensors[tensor].node;
    return node >= 0 && graph_.nodes[node].map() &&
           graph_.nodes[node].value->op == graph::Op::kLoad;
  }
  std::vector<int> StoredViews(const graph::ExprPtr& factor) const {
    std::vector<int> views;
    for (const graph::ExprPtr& load : LoadsBehind(factor)) {
      if (stored_.count(load->tensor) > 0 && Moves(load->tensor)) views.push_back(load->tensor);
    }
    return views;
  }

  // The tensor of 16 bits, which maps make and nobody stores, whose elements a factor is but for
  // constants that they are multiplied by; -1: there is none. Attention brings it from memory.
  int HalfBehind(const graph::ExprPtr& factor) const {
    for (const graph::ExprPtr& load : LoadsBehind(factor)) {
      const int t = load->tensor, node = graph_.tensors[t].node;
      if (node < 0 || stored_.count(t) > 0 || !graph_.nodes[node].map()) return -1;
      if (IsHalf(graph_.tensors[t].type) && !Moves(t)) return t;
    }
    return -1;
  }

  // The last sum of products that the tensors need where those of `in_memory` are there, a node;
  // -1: the last sum is none.
  int ProductBehind(const Roots& roots, const InMemory& in_memory) const {
    const std::vector<int> needed = NeededNodes(graph_, roots, in_memory);
    for (auto id = needed.rbegin(); id != needed.rend(); ++id) {
      const graph::Node& node = graph_.nodes[*id];
      if (node.map()) continue;
      const bool product = node.reduce && node.combiner == graph::Combiner::kSum &&
                           node.value->op == graph::Op::kMul;
      return product ? *id : -1;
    }
    return -1;
  }

  // Whether nobody but parts_[p] and those that write nothing else needs these tensors.
  bool OnlyFor(const std::set<int>& tensors, size_t p) const {
    for (size_t q = 0; q < parts_.size(); ++q) {
      const Roots& roots = parts_[q].roots;
      const auto is = [&](int t) { return tensors.count(t) > 0; };
      const bool all = std::all_of(roots.begin(), roots.end(), is);
      if (!all && std::any_of(roots.begin(), roots.end(), is)) return false;
      const auto& reads = parts_[q].reads;
      if (!all && q != p && std::any_of(reads.begin(), reads.end(), is)) return false;
    }
    return std::none_of(tensors.begin(), tensors.end(),
                        [&](int t) { return required_.count(t) > 0; });
  }

  bool MergeBest() {
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
    merged.product = product_;
    parts_.insert(parts_.begin() + best_a, merged);
    return true;
  }

  // Of merging two groups that nothing lies between.
  double Saving(const Part& a, const Part& b) {
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

  // Each group after those it reads.
  void Order() {
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

  const graph::Graph& graph_;
  const Target& target_;
  const bool stores_more_, attention_;
  std::set<int> required_, stored_;
  std::set<int> heavy_;                       // maps with exponentials and the like
  std::vector<std::vector<bool>> ancestors_;  // of each tensor
  std::vector<Part> parts_;
  std::vector<std::vector<bool>> after_;          // [p][q]: parts_[q] comes after parts_[p]
  std::map<std::vector<Roots>, double> savings_;  // of a pair: both, their union, what they read
  int trials_ = 0;
  SkeletonCase skeleton_ = v1::Group::SKELETON_NOT_SET;  // of what was estimated last
  bool online_ = false;
  bool places_ = false, product_ = false;
  bool unrounded_ = false;
  bool attends_ = false;  // what is estimated is an attention
};

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
