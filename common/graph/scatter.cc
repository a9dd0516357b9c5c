#include "common/graph/scatter.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "common/graph/affine.h"
#include "common/graph/partial.h"

namespace warpsmith::graph {
namespace {

using Exprs = std::vector<ExprPtr>;

// Stands for the writer's number where what a map computes is told by who writes; beyond all axes.
constexpr int kWriter = kMaxRank;

ExprPtr And(const ExprPtr& a, const ExprPtr& b) {
  return a == nullptr ? b : Binary(Op::kAnd, a, b);
}

// Every part of e once, e itself last.
void ForEachPart(const ExprPtr& e, const std::function<void(const ExprPtr&)>& f,
                 std::set<const Expr*>& seen) {
  if (!seen.insert(e.get()).second) return;
  for (const ExprPtr& arg : e->args) ForEachPart(arg, f, seen);
  f(e);
}

void Conjuncts(const ExprPtr& e, std::set<const Expr*>& seen, Exprs& parts) {
  if (!seen.insert(e.get()).second) return;
  if (e->op != Op::kAnd) {
    parts.push_back(e);
    return;
  }
  for (const ExprPtr& arg : e->args) Conjuncts(arg, seen, parts);
}

std::vector<bool> VariablesOf(const ExprPtr& e) {
  std::vector<bool> used(kMaxRank + 1);
  std::set<const Expr*> seen;
  ForEachPart(
      e,
      [&](const ExprPtr& part) {
        if (part->op == Op::kIndex) used[part->var] = true;
      },
      seen);
  return used;
}

// e with `by` where `tensor` is loaded.
class Replacement {
 public:
  Replacement(const Graph& graph, int tensor, ExprPtr by)
      : graph_(graph), tensor_(tensor), by_(std::move(by)) {}

  ExprPtr Apply(const ExprPtr& e) {
    if (e->op == Op::kLoad && e->tensor == tensor_) return by_;
    if (e->args.empty()) return e;
    if (const auto known = done_.find(e.get()); known != done_.end()) return known->second;
    Exprs args;
    for (const ExprPtr& arg : e->args) args.push_back(Apply(arg));
    return done_[e.get()] = args == e->args ? e : Rebuilt(*e, std::move(args));
  }

 private:
  ExprPtr Rebuilt(const Expr& e, Exprs args) const {
    if (e.op == Op::kLoad) return Load(graph_, e.tensor, std::move(args));
    if (e.op == Op::kSelect) return Select(args[0], args[1], args[2]);
    if (e.op == Op::kCast) return Cast(e.type, args[0]);
    return args.size() == 1 ? Unary(e.op, args[0]) : Binary(e.op, args[0], args[1]);
  }

  const Graph& graph_;
  const int tensor_;
  const ExprPtr by_;
  std::unordered_map<const Expr*, ExprPtr> done_;
};

// A reduce that finds the last of the writers of a place:
//   max[writers](select(hit, position of the writer, -1))
struct Search {
  const Node* node = nullptr;
  ExprPtr hit, position;
};

std::optional<Search> SearchOf(const Graph& graph, int tensor) {
  const int id = graph.tensors[tensor].node;
  if (id < 0) return std::nullopt;
  const Node& node = graph.nodes[id];
  if (!node.reduce || node.combiner != Combiner::kMax) return std::nullopt;
  const Expr& value = *node.value;
  if (value.op != Op::kSelect || value.type != DType::kI64) return std::nullopt;
  const Expr& none = *value.args[2];
  if (none.op != Op::kConst || none.integer != -1) return std::nullopt;
  // Every writer has a number of its own, 0 or more.
  const int kept = static_cast<int>(node.axes.size());
  const auto position = AsAffine(value.args[1], kept + static_cast<int>(node.reduce_axes.size()));
  if (!position || position->constant != 0) return std::nullopt;
  for (int v = 0; v < kept; ++v) {
    if (position->coefficients[v] != 0) return std::nullopt;
  }
  constexpr int64_t kMaxWriters = int64_t{1} << 30;
  int64_t stride = 1;
  for (size_t a = node.reduce_axes.size(); a-- > 0;) {
    const int64_t extent = node.reduce_axes[a].extent;
    if (extent > 1 && position->coefficients[kept + a] != stride) return std::nullopt;
    stride *= extent;
  }
  if (stride > kMaxWriters) return std::nullopt;
  return Search{&node, value.args[0], value.args[1]};
}

// Of the search's axes, the place that a writer names, over the other axes and the writers'; null
// where it names none. `rest`: what else makes a hit.
Exprs NamedPlaces(const Search& search, Exprs& rest) {
  const size_t kept = search.node->axes.size();
  Exprs named(kept), parts;
  std::vector<std::vector<bool>> uses(kept);
  std::set<const Expr*> seen;
  Conjuncts(search.hit, seen, parts);
  for (const ExprPtr& part : parts) {
    bool solved = false;
    for (int side = 0; side < 2 && part->op == Op::kEq && !solved; ++side) {
      const ExprPtr &axis = part->args[side], &place = part->args[1 - side];
      if (axis->op != Op::kIndex || axis->var >= static_cast<int>(kept)) continue;
      if (named[axis->var] != nullptr) continue;
      const std::vector<bool> used = VariablesOf(place);
      bool known = !used[axis->var];  // without what is named itself
      for (size_t k = 0; k < kept; ++k)
        known = known && !(used[k] && named[k] != nullptr) &&
                !(named[k] != nullptr && uses[k][axis->var]);
      if (!known) continue;
      named[axis->var] = place;
      uses[axis->var] = used;
      solved = true;
    }
    if (!solved) rest.push_back(part);
  }
  return named;
}

// The axes of the map that the search is read at, in the order of the search's; empty: others.
std::vector<int> ReadAt(const ExprPtr& load) {
  std::vector<int> axes;
  for (const ExprPtr& arg : load->args) {
    if (arg->op != Op::kIndex || std::find(axes.begin(), axes.end(), arg->var) != axes.end())
      return {};
    axes.push_back(arg->var);
  }
  return axes;
}

// Where the map's and the search's variables are among the writers' axes.
struct Writers {
  std::vector<Axis> axes;
  Exprs of_map, of_search;
};

Writers WritersOf(const Node& map, const Search& search, const std::vector<int>& read_at,
                  const Exprs& named) {
  Writers writers;
  const size_t kept = search.node->axes.size();
  writers.of_map.resize(map.axes.size());
  writers.of_search.resize(kept + search.node->reduce_axes.size());
  const auto add = [&](const Axis& axis) {
    writers.axes.push_back(axis);
    return Index(static_cast<int>(writers.axes.size()) - 1);
  };
  bool there = false;  // the writers stand where the first place that they name does
  for (size_t a = 0; a < map.axes.size(); ++a) {
    const auto at = std::find(read_at.begin(), read_at.end(), static_cast<int>(a));
    const size_t k = at - read_at.begin();
    if (at == read_at.end() || named[k] == nullptr) {
      writers.of_map[a] = add(map.axes[a]);
      if (at != read_at.end()) writers.of_search[k] = writers.of_map[a];
      continue;
    }
    for (size_t r = 0; !there && r < search.node->reduce_axes.size(); ++r)
      writers.of_search[kept + r] = add(search.node->reduce_axes[r]);
    there = true;
  }
  for (size_t k = 0; k < kept; ++k) {
    if (named[k] == nullptr) continue;
    writers.of_search[k] = Substitute(named[k], writers.of_search);
    writers.of_map[read_at[k]] = writers.of_search[k];
  }
  return writers;
}

// A search that decides what changes; -1: there is none.
int SearchIn(const Graph& graph, const PartialUpdate& partial) {
  for (int tensor : LoadedTensors(partial.condition)) {
    if (!SearchOf(graph, tensor)) continue;
    // Where nobody hits, nothing changes.
    const ExprPtr missed =
        Replacement(graph, tensor, ConstInt(DType::kI64, -1)).Apply(partial.condition);
    const auto changes = EvaluateAt(*missed, std::vector<int64_t>(kMaxRank));
    const std::vector<bool> used = VariablesOf(missed);
    const bool fixed = std::none_of(used.begin(), used.end(), [](bool u) { return u; });
    if (fixed && changes && (*changes != 0) != partial.where) return tensor;
  }
  return -1;
}

// The search's load in these expressions, always at the same place; null.
ExprPtr LoadIn(const Exprs& parts, int tensor) {
  ExprPtr load;
  bool one = true;
  std::set<const Expr*> seen;
  for (const ExprPtr& part : parts) {
    ForEachPart(
        part,
        [&](const ExprPtr& e) {
          if (e->op != Op::kLoad || e->tensor != tensor) return;
          one = one && (load == nullptr || Same(load, e));
          load = e;
        },
        seen);
  }
  return one ? load : nullptr;
}

// The places are inside, and what else makes a hit holds.
ExprPtr Hits(const Node& map, const std::vector<int>& read_at, const Exprs& named,
             const Exprs& rest, const Writers& writers) {
  ExprPtr hits;
  for (size_t k = 0; k < read_at.size(); ++k) {
    if (named[k] == nullptr) continue;
    const ExprPtr &place = writers.of_map[read_at[k]],
                  end = ConstInt(DType::kI64, map.axes[read_at[k]].extent);
    hits = And(hits, Binary(Op::kLe, ConstInt(DType::kI64, 0), place));
    hits = And(hits, Binary(Op::kLt, place, end));
  }
  for (const ExprPtr& part : rest) hits = And(hits, Substitute(part, writers.of_search));
  return hits;
}

bool NamesNone(const Exprs& named) {
  return std::all_of(named.begin(), named.end(), [](const ExprPtr& e) { return e == nullptr; });
}

// The search itself, by its writers.
std::optional<Scatter> SearchScatterOf(const Graph& graph, int tensor) {
  const auto search = SearchOf(graph, tensor);
  if (!search) return std::nullopt;
  std::vector<int> own(search->node->axes.size());
  std::iota(own.begin(), own.end(), 0);
  Exprs rest;
  const Exprs named = NamedPlaces(*search, rest);
  if (NamesNone(named)) return std::nullopt;
  const Writers writers = WritersOf(*search->node, *search, own, named);
  if (writers.axes.size() > kMaxRank) return std::nullopt;
  return Scatter{-1, writers.axes, writers.of_map, Hits(*search->node, own, named, rest, writers),
                 Substitute(search->position, writers.of_search)};
}

std::optional<Scatter> ScatterOf(const Graph& graph, int tensor, const PartialUpdate& partial) {
  const Node& map = graph.nodes[graph.tensors[tensor].node];
  const int found = SearchIn(graph, partial);
  if (found < 0) return std::nullopt;
  const Search search = *SearchOf(graph, found);
  const ExprPtr load = LoadIn({partial.condition, partial.value}, found);
  if (load == nullptr) return std::nullopt;
  const std::vector<int> read_at = ReadAt(load);
  Exprs rest;
  const Exprs named = NamedPlaces(search, rest);
  if (read_at.empty() || NamesNone(named)) return std::nullopt;

  const Writers writers = WritersOf(map, search, read_at, named);
  if (writers.axes.size() > kMaxRank) return std::nullopt;
  Scatter scatter{partial.base, writers.axes, writers.of_map,
                  Hits(map, read_at, named, rest, writers), nullptr};
  const ExprPtr writer = Substitute(search.position, writers.of_search);
  scatter.wins = And(scatter.wins, Binary(Op::kEq, Substitute(load, writers.of_map), writer));
  const auto of_writer = [&](const ExprPtr& e) {
    return Substitute(Replacement(graph, found, Index(kWriter)).Apply(e), [&] {
      Exprs vars = writers.of_map;
      vars.resize(kWriter + 1);
      vars[kWriter] = writer;
      return vars;
    }());
  };
  const ExprPtr changes = of_writer(partial.condition);
  scatter.wins = And(scatter.wins, partial.where ? changes : Unary(Op::kNot, changes));
  scatter.value = of_writer(partial.value);
  scatter.search = found;
  // What a place depends on, and who names it.
  std::vector<bool> used(kMaxRank + 1);
  for (const ExprPtr& e : writers.of_search) {
    const std::vector<bool> own = VariablesOf(e);
    for (size_t v = 0; v < own.size(); ++v) used[v] = used[v] || own[v];
  }
  for (size_t a = scatter.axes.size(); a-- > 0 && !used[a];) scatter.part *= scatter.axes[a].extent;
  return scatter;
}

}  // namespace

std::optional<Scatter> ScatterOf(const Graph& graph, int tensor) {
  for (const PartialUpdate& partial : PartialMapsOf(graph, tensor)) {
    if (auto scatter = ScatterOf(graph, tensor, partial)) return scatter;
  }
  return SearchScatterOf(graph, tensor);
}

}  // namespace warpsmith::graph
