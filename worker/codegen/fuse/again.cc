// Maps that are inlined are made wherever they are read. Of an expensive one, an angle's sine say,
// that every head of a row reads, memory is the quicker way.
#include <algorithm>

#include "worker/codegen/fuse/fusion.h"

namespace warpsmith::codegen {

namespace {

// Limit on what is tried.
constexpr size_t kMaxStoresTried = 200;
// An estimate has to promise more than it may be off by: of what the groups take now.
constexpr double kLeastSaving = 0.05;

}  // namespace

std::vector<size_t> Fusion::MakersOf(int tensor, const std::vector<std::set<int>>& nodes) const {
  const int maker = graph_.tensors[tensor].node;
  std::vector<size_t> makers;
  bool again = false;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (nodes[p].count(maker) == 0) continue;
    makers.push_back(p);
    int64_t points = 0;
    for (int id : nodes[p]) {
      const graph::Node& node = graph_.nodes[id];
      points = std::max(points, Product(node.axes) * Product(node.reduce_axes));
    }
    again = again || points > graph_.tensors[tensor].elements();
  }
  if (!again && makers.size() < 2) makers.clear();
  return makers;
}

std::optional<Part> Fusion::EstimatedAgain(const Part& part) {
  attends_ = part.attends;
  const auto seconds = Estimate(part.roots);
  attends_ = false;
  if (!seconds || (part.attends ? skeleton_ != v1::Group::kAttend : product_ != part.product))
    return std::nullopt;
  Part then = part;
  then.seconds = *seconds;
  then.places = places_;
  return then;
}

const Fusion::Stored& Fusion::Storing(int tensor, const std::vector<size_t>& makers) {
  std::pair<int, std::vector<Roots>> key = {tensor, {}};
  for (size_t p : makers) {
    key.second.push_back(parts_[p].roots);
    key.second.emplace_back(parts_[p].reads.begin(), parts_[p].reads.end());
  }
  const auto known = storings_.find(key);
  if (known != storings_.end()) return known->second;
  Stored& stored = storings_[std::move(key)];
  if (storings_.size() > kMaxStoresTried) return stored;
  stored_.insert(tensor);
  stored.own.roots = {tensor};
  const auto own = Estimate({tensor});
  stored.own.seconds = own.value_or(0);
  stored.own.places = places_;
  stored.own.product = product_;
  double before = 0, then = stored.own.seconds;
  bool possible = own.has_value();
  for (size_t p : makers) {
    const auto with = possible ? EstimatedAgain(parts_[p]) : std::nullopt;
    possible = with.has_value();
    if (!possible) break;
    before += parts_[p].seconds;
    then += with->seconds;
    stored.makers.push_back(*with);
  }
  stored_.erase(tensor);
  if (possible && before - then > kLeastSaving * before) stored.saved = before - then;
  return stored;
}

bool Fusion::StoreBest() {
  std::vector<std::set<int>> nodes;
  for (const Part& part : parts_) {
    const std::set<int> memory = MemoryFor(part.roots);
    const std::vector<int> needed = NeededNodes(graph_, part.roots, [&](int t) {
      return graph_.tensors[t].node < 0 || memory.count(t) > 0;
    });
    nodes.emplace_back(needed.begin(), needed.end());
  }
  const Stored* best = nullptr;
  std::vector<size_t> makers_of_best;
  for (int t : heavy_) {
    if (stored_.count(t) > 0 || Moves(t) || !graph_.nodes[graph_.tensors[t].node].map()) continue;
    const std::vector<size_t> makers = MakersOf(t, nodes);
    if (makers.empty()) continue;
    const Stored& stored = Storing(t, makers);
    if (stored.saved <= (best == nullptr ? 0 : best->saved)) continue;
    best = &stored;
    makers_of_best = makers;
  }
  if (best == nullptr) return false;
  stored_.insert(best->own.roots[0]);
  for (size_t i = 0; i < makers_of_best.size(); ++i) parts_[makers_of_best[i]] = best->makers[i];
  parts_.push_back(best->own);
  for (Part& each : parts_) each.reads = ReadsOf(each.roots);
  return true;
}

}  // namespace warpsmith::codegen
