#include <algorithm>
#include <limits>

#include "worker/codegen/cost/cost.h"
#include "worker/codegen/fuse/fusion.h"
#include "worker/codegen/fuse/products.h"

namespace warpsmith::codegen {

namespace {

// Elements that one output loads.
constexpr int64_t kMaxLoadsOfOutput = 24;
// A tensor of at most this part of what it comes from is small.
constexpr int64_t kSmallPart = 16;

// Of which products are made.
bool IsSmallPower(const graph::Expr& e) {
  const graph::Expr& power = *e.args[1];
  return power.op == graph::Op::kConst && power.number >= -1 && power.number <= 3 &&
         power.number == static_cast<int>(power.number);
}

}  // namespace

void Fusion::Begin() {
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

void Fusion::FindAncestors() {
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

void Fusion::StoreRepeated(const std::vector<int>& needed) {
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
             (stores_more_ || Product(node.axes) * elements > graph_.tensors[Viewed(t)].elements());
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
        if (inlined(e->tensor) && loads[e->tensor] > 1)
          stored_.insert(SameInMemory(graph_, e->tensor));
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

int64_t Fusion::DistinctLoads(const graph::Node& node,
                              const std::function<bool(int)>& inlined) const {
  std::set<int> memory;
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    if (!inlined(static_cast<int>(t))) memory.insert(static_cast<int>(t));
  }
  for (int t : node.outputs) memory.erase(t);
  const Analysis group(graph_, node.outputs, memory);
  const absl::StatusOr<Domain>& domain = node.reduce ? group.stages() : group.elements();
  return domain.ok() ? LoadsOfPoint(group, *domain) : std::numeric_limits<int64_t>::max();
}

int Fusion::Viewed(int tensor) const {
  const int source = ViewedBy(graph_, tensor);
  const bool whole = graph_.tensors[source].elements() <= graph_.tensors[tensor].elements();
  return whole && graph_.tensors[source].node >= 0 ? source : tensor;
}

std::map<int, int> Fusion::EndProducts(const std::vector<int>& needed) {
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

void Fusion::StoreSmallResults(const std::vector<graph::ExprPtr>& loads) {
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
    if (graph_.tensors[t].elements() * kSmallPart <= std::min(largest, points))
      stored_.insert(SameInMemory(graph_, t));
  }
}

bool Fusion::IsHeavy(const graph::ExprPtr& e) {
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
      return (e->op == graph::Op::kPow && !IsSmallPower(*e)) ||
             std::any_of(e->args.begin(), e->args.end(),
                         [](const auto& arg) { return IsHeavy(arg); });
  }
}

}  // namespace warpsmith::codegen
