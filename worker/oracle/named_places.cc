#include "worker/oracle/named_places.h"

#include "common/graph/places.h"

namespace warpsmith::oracle {
namespace {

using graph::Expr;
using graph::ExprPtr;
using graph::Node;
using graph::Op;

constexpr int64_t kNoPlace = -1;

bool IsZero(const Expr& e) { return e.op == Op::kConst && e.number == 0 && e.integer == 0; }

// Where what is added is not 0, as far as that is plain to see; null: anywhere.
ExprPtr Condition(ExprPtr e) {
  while (e->op == Op::kCast && e->type != graph::DType::kBool) e = e->args[0];
  if (e->type == graph::DType::kBool) return e;
  return e->op == Op::kSelect && IsZero(*e->args[2]) ? e->args[0] : nullptr;
}

// `where`: what was asked before, without which the key may be nothing that can be evaluated; null:
// nothing was.
std::optional<NamedPlaces> Named(const Node& node, const ExprPtr& condition, const ExprPtr& where) {
  if (condition->op == Op::kAnd) {
    auto named = Named(node, condition->args[0], where);
    if (named) return named;
    const ExprPtr& first = condition->args[0];
    return Named(node, condition->args[1],
                 where == nullptr ? first : graph::Binary(Op::kAnd, where, first));
  }
  if (condition->op != Op::kEq) return std::nullopt;
  const size_t kept = node.axes.size();
  for (const int side : {0, 1}) {
    const ExprPtr& place = condition->args[side];
    ExprPtr key = condition->args[1 - side];
    if (where != nullptr)
      key = graph::Select(where, key, graph::ConstInt(graph::DType::kI64, kNoPlace));
    if (place->op != Op::kIndex || place->var >= static_cast<int>(kept)) continue;
    std::vector<bool> used(graph::kMaxRank);
    graph::MarkVariables(*key, used);
    if (used[place->var]) continue;
    NamedPlaces named{place->var, key};
    named.places = node.axes[place->var].extent;
    for (size_t a = 0; a < kept; ++a) {
      if (!used[a]) continue;
      named.batches.push_back(static_cast<int>(a));
      named.batch_count *= node.axes[a].extent;
    }
    return named;
  }
  return std::nullopt;
}

}  // namespace

std::optional<NamedPlaces> NamedPlacesOf(const Node& node, int64_t elements) {
  if (!node.reduce || node.combiner != graph::Combiner::kSum) return std::nullopt;
  int64_t rows = 1;
  for (const graph::Axis& axis : node.reduce_axes) rows *= axis.extent;
  if (rows < kManyRows || elements < kManyPoints / rows) return std::nullopt;
  const ExprPtr condition = Condition(node.value);
  if (condition == nullptr) return std::nullopt;
  std::optional<NamedPlaces> named = Named(node, condition, nullptr);
  if (!named || named->batch_count > kMostKeys / rows) return std::nullopt;
  named->rows = rows;
  return named;
}

}  // namespace warpsmith::oracle
