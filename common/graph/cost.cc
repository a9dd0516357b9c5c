// What a run must do at the least: the elements of inputs that decide the outputs, found by walking
// the nodes backwards with the box of each tensor that is needed; what is computed of them is
// work.cc's.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/graph/affine.h"
#include "common/graph/graph.h"
#include "common/graph/partial.h"
#include "common/graph/places.h"
#include "common/graph/terms.h"
#include "common/graph/work.h"

namespace warpsmith::graph {
namespace {

// The part of a tensor that is needed: a box and how many elements in it, at most.
struct Need {
  std::vector<Interval> box;  // empty and count 0: nothing yet
  int64_t count = 0;
};

void Add(Need& need, const std::vector<Interval>& box, int64_t count) {
  if (count == 0) return;
  if (need.count == 0) {
    need.box = box;
  } else {
    for (size_t a = 0; a < box.size(); ++a) {
      need.box[a].low = std::min(need.box[a].low, box[a].low);
      need.box[a].high = std::max(need.box[a].high, box[a].high);
    }
  }
  need.count = std::min(need.count + count, Volume(need.box));
}

std::vector<Interval> Whole(const Tensor& tensor) {
  std::vector<Interval> box;
  for (int64_t extent : tensor.shape) box.push_back({0, extent - 1});
  return box;
}

// Conditions that are told apart; behind so many what is added to minus infinity is needed, too.
constexpr size_t kMaxContexts = 64;

// Walks the expression of one node and adds what its loads need.
class LoadCounter {
 public:
  // `evaluated`: how many elements of the node's outputs are needed.
  // `value`: the node's, or the part of it that is evaluated.
  LoadCounter(const Graph& graph, const Node& node, const ExprPtr& value,
              std::vector<Interval> ranges, int64_t evaluated, std::vector<Need>& needs)
      : graph_(graph), node_(node), evaluated_(evaluated), needs_(needs) {
    contexts_.push_back({std::move(ranges), {}});
    Walk(value, 0);
  }

 private:
  // What holds where an expression is evaluated.
  struct Context {
    std::vector<Interval> ranges;
    std::vector<Condition> conditions;
  };

  // The context of what is evaluated only where `condition` is `value`.
  int Guarded(int context, const ExprPtr& condition, bool value) {
    const auto [it, is_new] = guarded_.try_emplace({context, {condition.get(), value}},
                                                   static_cast<int>(contexts_.size()));
    if (is_new) {
      Context inner = contexts_[context];
      Narrow(condition, value, inner.ranges);
      inner.conditions.push_back({condition.get(), value});
      contexts_.push_back(std::move(inner));
    }
    return it->second;
  }

  void Walk(const ExprPtr& e, int context) {
    // Shared parts once; and what no point comes to, not at all.
    if (!walked_.insert({e.get(), context}).second) return;
    if (Volume(contexts_[context].ranges) == 0) return;
    switch (e->op) {
      case Op::kSelect:
        Walk(e->args[0], context);
        Walk(e->args[1], Guarded(context, e->args[0], true));
        Walk(e->args[2], Guarded(context, e->args[0], false));
        return;
      case Op::kAnd:
      case Op::kOr:
        Walk(e->args[0], context);
        Walk(e->args[1], Guarded(context, e->args[0], e->op == Op::kAnd));
        return;
      case Op::kAdd:
        if (!IsFloat(e->type) || contexts_.size() >= kMaxContexts) break;
        for (const int side : {0, 1}) {
          int inner = context;
          for (Guard& guard : FiniteWhere(graph_, e->args[1 - side])) {
            inner = Guarded(inner, guard.e, guard.value);
            kept_.push_back(std::move(guard.e));
          }
          Walk(e->args[side], inner);
        }
        return;
      default:
        break;
    }
    for (const ExprPtr& arg : e->args) Walk(arg, context);
    if (e->op == Op::kLoad) AddLoad(e, contexts_[context].ranges, contexts_[context].conditions);
  }

  void AddLoad(const ExprPtr& e, const std::vector<Interval>& ranges,
               const std::vector<Condition>& conditions) {
    for (const auto& [load, where] : seen_) {
      if (Same(load, e) && Equal(where, ranges)) return;
    }
    seen_.emplace_back(e, ranges);
    const Tensor& tensor = graph_.tensors[e->tensor];
    std::vector<Interval> box = Whole(tensor);
    int64_t count = 1;
    for (size_t a = 0; a < e->args.size(); ++a) {
      if (const auto bounds = BoundsOf(e->args[a], ranges)) {
        box[a].low = std::max(box[a].low, bounds->low);
        box[a].high = std::min(box[a].high, bounds->high);
      }
      count *= std::min(Length(box[a]), Distinct(e->args[a], ranges));
    }
    // No more elements than there are points that load.
    std::vector<bool> used(ranges.size(), false);
    MarkVariables(*e, used);
    int64_t points = 1, reduced = 1;
    for (size_t v = 0; v < ranges.size(); ++v) {
      if (used[v]) points *= Length(ranges[v]);
      if (used[v] && v >= node_.axes.size()) reduced *= Length(ranges[v]);
    }
    count = std::min(count, points);
    if (evaluated_ < kMaxPoints / reduced) count = std::min(count, evaluated_ * reduced);
    count = std::min(count, SampledCount(ranges, used, points, conditions, count));
    Add(needs_[e->tensor], box, count);
  }

  static bool Equal(const std::vector<Interval>& a, const std::vector<Interval>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.low == y.low && x.high == y.high;
    });
  }

  // Conditions on several variables (a triangle, a diagonal band) do not narrow ranges; sampling
  // tells what part of the points fulfils them. Only where that part is clearly less does it count,
  // so that figures of plain padding stay exact.
  int64_t SampledCount(const std::vector<Interval>& ranges, const std::vector<bool>& used,
                       int64_t points, const std::vector<Condition>& conditions, int64_t count) {
    if (conditions.empty()) return count;
    constexpr double kClearlyLess = 0.9;
    // A variable that the load does not use may still decide: then any of its values will do.
    std::vector<bool> all_used = used;
    for (const Condition& c : conditions) MarkVariables(*c.e, all_used);
    if (all_used != used) return count;
    const double estimate = static_cast<double>(points) * SampledShare(ranges, conditions);
    return estimate < kClearlyLess * count ? static_cast<int64_t>(estimate) : count;
  }

  const Graph& graph_;
  const Node& node_;
  std::vector<ExprPtr> kept_;  // conditions that no node has
  const int64_t evaluated_;
  std::vector<Need>& needs_;
  std::vector<Context> contexts_;
  std::map<std::pair<int, Condition>, int> guarded_;
  std::set<std::pair<const Expr*, int>> walked_;
  std::vector<std::pair<ExprPtr, std::vector<Interval>>> seen_;
};

// What a scan has to go over for the part of its result that is needed: everything before it, in
// its direction. Where only some of the box is needed, as much more of it as of the whole box.
Need ToScan(const Node& node, Need need) {
  if (need.count == 0) return need;
  Interval& along = need.box[node.scan->axis];
  const int64_t asked = Length(along), own = node.scan->exclusive ? 1 : 0;
  if (node.scan->reverse) {
    along = {along.low + own, node.axes[node.scan->axis].extent - 1};
  } else {
    along = {0, along.high - own};
  }
  const double share = static_cast<double>(Length(along)) / static_cast<double>(asked);
  need.count = std::min(Volume(need.box),
                        static_cast<int64_t>(share * static_cast<double>(need.count) + 0.5));
  return need;
}

// What is written of an update that leaves elements of its state as they are, for certain: nothing
// where data decides.
Need WrittenOf(const Graph& graph, const Graph::Update& update, const PartialUpdate& partial) {
  Need need;
  const std::vector<Interval> box = ChangedBox(graph, update.value, partial);
  if (LoadedTensors(partial.condition).empty()) Add(need, box, Volume(box));
  return need;
}

bool IsPrepared(const std::vector<bool>& constant, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int output) { return constant[output]; });
}

}  // namespace

Cost Count(const Graph& whole) {
  const Graph graph = Prune(whole);
  Cost cost;
  std::vector<Need> needs(graph.tensors.size());
  const auto write = [&](int tensor) {
    const Tensor& t = graph.tensors[tensor];
    cost.written_bytes += t.bytes();
    Add(needs[tensor], Whole(t), t.elements());
  };
  for (int output : graph.outputs) write(output);
  std::map<int, std::pair<Need, ExprPtr>> partial;  // what is written, and of what it is made
  for (const Graph::Update& update : graph.updates) {
    if (const auto part = PartialUpdateOf(graph, update)) {
      const Need written = WrittenOf(graph, update, *part);
      cost.written_bytes += written.count * SizeOf(graph.tensors[update.value].type);
      partial[update.value] = {written, part->value};
    } else {
      write(update.value);
    }
  }

  // What is made once counts nothing, nor do its bytes: what is made of weights may be smaller.
  const std::vector<bool> constant = ConstantTensors(graph);
  std::vector<Asked> asked(graph.nodes.size());
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    Need need;
    ExprPtr value = node.value;
    for (int output : node.outputs) Add(need, needs[output].box, needs[output].count);
    if (const auto part = partial.find(node.outputs[0]); part != partial.end() && need.count == 0) {
      std::tie(need, value) = part->second;
    }
    if (node.scan) need = ToScan(node, std::move(need));
    if (need.count == 0 || IsPrepared(constant, node)) continue;
    std::vector<Interval> ranges = need.box;
    for (const Axis& axis : node.reduce_axes) ranges.push_back({0, axis.extent - 1});
    asked[n] = {value, ranges, static_cast<double>(need.count)};
    LoadCounter(graph, node, value, std::move(ranges), need.count, needs);
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].node < 0 && !constant[t])
      cost.read_bytes += needs[t].count * SizeOf(graph.tensors[t].type);
  }
  const Work work = FewestKnown(graph, asked);
  cost.operations = work.simple + work.products.all();
  cost.transcendental = work.transcendental;
  cost.products = work.products;
  return cost;
}

Fp32 Fp32Of(const Graph& graph, bool tolerance_only) {
  const auto rounded = [&](int tensor) {
    const DType type = graph.tensors[tensor].type;
    return IsFloat(type) && SizeOf(type) == 2;
  };
  bool coarse = tolerance_only;
  for (const int output : graph.outputs) coarse |= rounded(output);
  for (const Graph::Update& update : graph.updates) coarse |= rounded(update.value);
  return coarse ? Fp32::kCoarse : Fp32::kKept;
}

}  // namespace warpsmith::graph
