// Maps that are inlined are made wherever they are read. Of an expensive one, an angle's sine say,
// that every head of a row reads, memory is the quicker way.
#include <algorithm>

#include "worker/codegen/fuse/fusion.h"

namespace warpsmith::codegen {

namespace {

// Limit on what is tried.
constexpr int kMaxStoresTried = 200;
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

double Fusion::SavingOfStoring(int tensor, const std::vector<size_t>& makers,
                               std::vector<double>* seconds) {
  ++stores_tried_;
  stored_.insert(tensor);
  const auto own = Estimate({tensor});
  double before = 0, then = own.value_or(0);
  bool possible = own.has_value();
  seconds->assign(1, then);
  for (size_t p : makers) {
    const auto with = possible ? Estimate(parts_[p].roots) : std::nullopt;
    possible = with.has_value() && product_ == parts_[p].product;
    seconds->push_back(with.value_or(0));
    before += parts_[p].seconds;
    then += seconds->back();
  }
  stored_.erase(tensor);
  return possible && before - then > kLeastSaving * before ? before - then : 0;
}

bool Fusion::StoreBest() {
  attends_ = true;  // some may be
  std::vector<std::set<int>> nodes;
  for (const Part& part : parts_) {
    const std::set<int> memory = MemoryFor(part.roots);
    const std::vector<int> needed = NeededNodes(graph_, part.roots, [&](int t) {
      return graph_.tensors[t].node < 0 || memory.count(t) > 0;
    });
    nodes.emplace_back(needed.begin(), needed.end());
  }
  int best = -1;
  double most = 0;
  std::vector<size_t> makers_of_best;
  std::vector<double> seconds_of_best;
  for (int t : heavy_) {
    if (stored_.count(t) > 0 || Moves(t) || stores_tried_ >= kMaxStoresTried) continue;
    const std::vector<size_t> makers = MakersOf(t, nodes);
    std::vector<double> seconds;
    const double saved = makers.empty() ? 0 : SavingOfStoring(t, makers, &seconds);
    if (saved <= most) continue;
    best = t;
    most = saved;
    makers_of_best = makers;
    seconds_of_best = seconds;
  }
  attends_ = false;
  if (best < 0) return false;
  stored_.insert(best);
  for (size_t i = 0; i < makers_of_best.size(); ++i)
    parts_[makers_of_best[i]].seconds = seconds_of_best[i + 1];
  Part part;
  part.roots = {best};
  part.seconds = seconds_of_best[0];
  parts_.push_back(part);
  for (Part& each : parts_) each.reads = ReadsOf(each.roots);
  return true;
}

}  // namespace warpsmith::codegen
