// The search for attention: two products with a softmax between them are one group where that can
// be one kernel, since no two of its steps by themselves save anything.
#include <algorithm>

#include "worker/codegen/fuse/fusion.h"
#include "worker/codegen/fuse/products.h"
#include "worker/codegen/skeleton/attend/form.h"

namespace warpsmith::codegen {

std::optional<Fusion::Attention> Fusion::AttentionBehind(const Roots& end) const {
  const auto inputs = [this](int t) { return graph_.tensors[t].node < 0; };
  Attention attention;
  attention.second = ProductBehind(end, inputs);
  if (attention.second < 0) return std::nullopt;
  const AttendBetween between = BetweenOf(graph_, attention.second, inputs);
  attention.weight = between.weight;
  if (between.weight < 0) return std::nullopt;
  attention.first = ProductBehind({between.score}, inputs);
  if (attention.first < 0) return std::nullopt;
  for (int node : {attention.first, attention.second}) {
    const auto& factors = graph_.nodes[node].value->args;
    attention.factors.insert(attention.factors.end(), factors.begin(), factors.end());
  }
  return attention;
}

std::set<int> Fusion::StoredWithin(const Attention& attention, size_t p) const {
  const int first = graph_.nodes[attention.first].outputs[0],
            second = graph_.nodes[attention.second].outputs[0];
  std::set<int> within;
  for (int t : stored_) {
    if (t != second && DependsOn(t, {first}) && DependsOn(second, {t})) within.insert(t);
  }
  for (const graph::ExprPtr& factor : attention.factors) {
    std::set<int> with = within;
    for (int t : StoredViews(factor)) with.insert(t);
    if (OnlyFor(with, p)) within = std::move(with);
  }
  return within;
}

void Fusion::MergeAttentionInto(size_t p) {
  const Roots end = parts_[p].roots;
  const auto attention = AttentionBehind(end);
  if (!attention) return;
  const std::set<int> within = StoredWithin(*attention, p);
  if (!OnlyFor(within, p)) return;
  double seconds = parts_[p].seconds;
  for (const Part& part : parts_) {
    if (within.count(part.roots[0]) > 0) seconds += part.seconds;
  }
  const std::set<int> before = stored_;
  for (int t : within) stored_.erase(t);
  std::vector<Part> others;
  double then = 0;
  const auto store = [&](int t) {
    stored_.insert(t);
    others.push_back({.roots = {t}});
    others.back().seconds = Estimate({t}).value_or(1);
    then += others.back().seconds;
  };
  const int product = graph_.nodes[attention->first].outputs[0];
  for (const graph::ExprPtr& factor : attention->factors) {
    const int t = HalfBehind(factor);
    if (t >= 0 && t != attention->weight && !DependsOn(t, {product})) store(t);
  }
  Part& part = parts_[p];
  auto one = AttentionTo(end, *attention);
  if (one.seconds && one.turned >= 0) store(one.turned);
  const bool whole = one.seconds.has_value();
  if (!whole) {  // what is made of its result is another group
    const int result = HalfOf(attention->second);
    if (result >= 0 && result != end[0]) one = AttentionTo({result}, *attention);
    if (one.seconds) {
      if (one.turned >= 0) store(one.turned);
      stored_.insert(result);
      others.push_back(
          {.roots = {result}, .seconds = *one.seconds, .product = true, .attends = true});
      then += *one.seconds;
      one.seconds = Estimate(end);
    }
  }
  then += one.seconds.value_or(0);
  if (!one.seconds || then >= seconds) {
    stored_ = before;
    return;
  }
  part.seconds = *one.seconds;
  part.product = whole || product_;
  part.attends = whole;
  std::erase_if(parts_, [&](const Part& part) { return within.count(part.roots[0]) > 0; });
  parts_.insert(parts_.begin(), others.begin(), others.end());
  for (Part& part : parts_) part.reads = ReadsOf(part.roots);
}

Fusion::AsOne Fusion::AttentionTo(const Roots& end, const Attention& attention) {
  const auto estimate = [&](int turned) -> AsOne {
    attends_ = true;
    const auto one = Estimate(end);
    attends_ = false;
    if (!one || skeleton_ != v1::Group::kAttend) return {};
    return {*one, turned};
  };
  AsOne one = estimate(-1);
  for (const graph::ExprPtr& factor : attention.factors) {
    for (const graph::ExprPtr& load : LoadsBehind(factor)) {
      const int t = load->tensor;
      if (one.seconds || !Moves(t) || !IsHalf(graph_.tensors[t].type) || stored_.count(t) > 0 ||
          DependsOn(t, {graph_.nodes[attention.first].outputs[0]}))
        continue;
      stored_.insert(t);
      one = estimate(t);
      stored_.erase(t);
    }
  }
  return one;
}

int Fusion::HalfOf(int node) const {
  const int sum = graph_.nodes[node].outputs[0];
  for (size_t id = node + 1; id < graph_.nodes.size(); ++id) {
    const graph::Node& map = graph_.nodes[id];
    if (!map.map() || !IsHalf(graph_.tensors[map.outputs[0]].type)) continue;
    graph::ExprPtr e = map.value;
    while (e->op == graph::Op::kCast) e = e->args[0];
    if (e->op == graph::Op::kLoad && ViewedBy(graph_, e->tensor) == sum) return map.outputs[0];
  }
  return -1;
}

void Fusion::MergeAttention() {
  std::vector<Roots> ends;
  for (const Part& part : parts_) ends.push_back(part.roots);
  for (const Roots& end : ends) {
    const auto is = [&](const Part& part) { return part.roots == end; };
    const auto part = std::find_if(parts_.begin(), parts_.end(), is);
    if (part != parts_.end()) MergeAttentionInto(part - parts_.begin());
  }
}

std::vector<graph::ExprPtr> Fusion::LoadsBehind(graph::ExprPtr e) const {
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

bool Fusion::Moves(int tensor) const {
  const int node = graph_.tensors[tensor].node;
  return node >= 0 && graph_.nodes[node].map() && graph_.nodes[node].value->op == graph::Op::kLoad;
}

std::vector<int> Fusion::StoredViews(const graph::ExprPtr& factor) const {
  std::vector<int> views;
  for (const graph::ExprPtr& load : LoadsBehind(factor)) {
    if (stored_.count(load->tensor) > 0 && Moves(load->tensor)) views.push_back(load->tensor);
  }
  return views;
}

int Fusion::HalfBehind(const graph::ExprPtr& factor) const {
  for (const graph::ExprPtr& load : LoadsBehind(factor)) {
    const int t = load->tensor, node = graph_.tensors[t].node;
    if (node < 0 || stored_.count(t) > 0 || !graph_.nodes[node].map()) return -1;
    if (IsHalf(graph_.tensors[t].type) && !Moves(t)) return t;
  }
  return -1;
}

int Fusion::ProductBehind(const Roots& roots, const InMemory& in_memory) const {
  const std::vector<int> needed = NeededNodes(graph_, roots, in_memory);
  for (auto id = needed.rbegin(); id != needed.rend(); ++id) {
    const graph::Node& node = graph_.nodes[*id];
    if (node.map()) continue;
    const bool product =
        node.reduce && node.combiner == graph::Combiner::kSum && node.value->op == graph::Op::kMul;
    return product ? *id : -1;
  }
  return -1;
}

bool Fusion::OnlyFor(const std::set<int>& tensors, size_t p) const {
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

}  // namespace warpsmith::codegen
