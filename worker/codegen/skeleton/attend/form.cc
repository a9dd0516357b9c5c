#include "worker/codegen/skeleton/attend/form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "worker/codegen/fuse/products.h"
#include "worker/codegen/skeleton/contract/sums.h"

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Op;

constexpr int64_t kMostElements = 256;    // of a row of Q, K or V (ws::Attend)
constexpr int64_t kMostFolded = 64;       // queries of a group of warps
constexpr int64_t kMostPlaces = 1 << 30;  // so that positions of queries and keys fit an int
constexpr int64_t kEven = 8;  // elements of 16 bits of 16 bytes, as the copy engine wants

absl::Status No(absl::string_view why) { return absl::InvalidArgumentError(why); }

bool IsOp(ValuePtr value, Op op) { return value->kind == Value::Kind::kOp && value->op == op; }

// Without casts from floats to floats.
ValuePtr Bare(ValuePtr value) {
  while (IsOp(value, Op::kCast) && graph::IsFloat(value->type) &&
         graph::IsFloat(value->args[0]->type))
    value = value->args[0];
  return value;
}
bool IsNumber(ValuePtr value, double number) {
  value = Bare(value);
  return value->kind == Value::Kind::kConst && graph::IsFloat(value->type) &&
         value->number == number;
}
bool IsNothing(ValuePtr value) { return IsNumber(value, -INFINITY); }

graph::ExprPtr Bare(graph::ExprPtr e) {
  while (e->op == Op::kCast) e = e->args[0];
  return e;
}

// What a cast of 16 bits to more has, which leaves all numbers as they are.
graph::ExprPtr Widened(const graph::ExprPtr& e) {
  return e->op == Op::kCast && graph::IsFloat(e->type) && IsHalf(e->args[0]->type) ? e->args[0] : e;
}
// What a tensor is a view of, through such casts, too.
int WidenedBehind(const graph::Graph& graph, int tensor) {
  for (;;) {
    tensor = ViewedBy(graph, tensor);
    const int node = graph.tensors[tensor].node;
    if (node < 0 || !graph.nodes[node].map()) return tensor;
    const graph::ExprPtr& value = graph.nodes[node].value;
    const graph::ExprPtr of = Widened(value);
    if (of == value || of->op != Op::kLoad) return tensor;
    tensor = of->tensor;
  }
}

// ---- the softmax between the products

// What stands between casts to bool or integers and `not`s; whether those turn it round.
std::pair<ValuePtr, bool> Turned(ValuePtr value) {
  bool turned = false;
  for (;; value = value->args[0]) {
    if (IsOp(value, Op::kNot)) {
      turned = !turned;
    } else if (!IsOp(value, Op::kCast) || graph::IsFloat(value->type) ||
               graph::IsFloat(value->args[0]->type)) {
      return {value, turned};
    }
  }
}

// Whether the node says of a row that some of it is more than minus infinity: max(not(s == -inf)).
bool IsAnySeen(ValuePtr value, ValuePtr score) {
  const auto [test, turned] = Turned(value);
  return turned && IsOp(test, Op::kEq) &&
         ((Bare(test->args[0]) == score && IsNothing(test->args[1])) ||
          (Bare(test->args[1]) == score && IsNothing(test->args[0])));
}

// What a weight is made of that is replaced where it is not finite: NaN by 0, as `no_nan` says
// then, and infinities, which a weight never is, by anything.
ValuePtr WithoutReplaced(ValuePtr value, bool& no_nan) {
  value = Bare(value);
  std::vector<ValuePtr> tested;
  for (; IsOp(value, Op::kSelect); value = Bare(value->args[2])) {
    const ValuePtr test = value->args[0];
    const bool of_nan = IsOp(test, Op::kIsNan) && IsNumber(value->args[1], 0);
    const bool of_infinity = IsOp(test, Op::kEq) && (IsNumber(test->args[1], INFINITY) ||
                                                     IsNumber(test->args[1], -INFINITY));
    if (!of_nan && !of_infinity) break;
    no_nan = no_nan || of_nan;
    tested.push_back(Bare(test->args[0]));
  }
  const bool same =
      std::all_of(tested.begin(), tested.end(), [&](ValuePtr one) { return one == value; });
  return same ? value : nullptr;
}

// An axis of the scores' tensor.
struct Along {
  int64_t stride = 0, extent = 1;
};

// Whether the group's only root is the softmax of `score`, a tensor in memory. `along`: the axis;
// `or_zero`, `no_nan`: as the form has them.
absl::Status CheckSoftmax(const Analysis& weights, int score, Along& along, bool& or_zero,
                          bool& no_nan) {
  const absl::StatusOr<Domain>& domain = weights.stages();
  if (!domain.ok()) return domain.status();
  const absl::StatusOr<Kernel>& kernel = weights.PointsOf(*domain);
  if (!kernel.ok()) return kernel.status();
  if (kernel->roots.size() != 1 || kernel->roots[0].level != Level::kPoints)
    return No("what stands between its products has other results");
  if (domain->online.size() != 1) return No("between its products there is no softmax");
  const auto [sum, max] = *domain->online.begin();
  const auto combines = [&](int node, graph::Combiner with) {
    return weights.graph().nodes[node].combiner == with;
  };
  if (!combines(sum, graph::Combiner::kSum) || !combines(max, graph::Combiner::kMax))
    return No("between its products there is no softmax");
  ValuePtr of_max = nullptr, of_sum = nullptr, of_any = nullptr;
  int any = -1;
  for (const Kernel::Reduce& reduce : kernel->reduces) {
    if (reduce.node == max) {
      of_max = reduce.value;
    } else if (reduce.node == sum) {
      of_sum = reduce.value;
    } else {
      of_any = reduce.value;
      any = reduce.node;
    }
  }
  if (kernel->reduces.size() != (of_any == nullptr ? 2 : 3) || of_max == nullptr ||
      of_sum == nullptr)
    return No("between its products more than a softmax is reduced");
  const ValuePtr load =
      IsOp(of_max, Op::kCast) && IsHalf(of_max->args[0]->type) ? of_max->args[0] : of_max;
  if (load->kind != Value::Kind::kLoad || load->tensor != score)
    return No("the softmax is not of what the first product makes");
  if (of_max->type != DType::kF32) return No("the softmax is not of fp32");
  const Kernel::Root& root = kernel->roots[0];
  if (!(load->index == root.address)) return No("scores and weights lie differently");
  for (const DomainAxis& axis : domain->axes) {
    if (axis.role != Role::kReduced) continue;
    if (along.stride != 0) return No("its softmax is along several axes");
    along = {root.address.CoefficientOf(axis.variable), axis.extent()};
    if (along.stride == 0) return No("its softmax is along a part of an axis");
  }
  ValuePtr value = WithoutReplaced(root.value, no_nan);
  if (value == nullptr) return No("weights are not a softmax' alone");
  if (of_any != nullptr) {
    if (!combines(any, graph::Combiner::kMax) || !IsAnySeen(of_any, load) ||
        !IsOp(value, Op::kSelect))
      return No("between its products more than a softmax is reduced");
    const auto [result, turned] = Turned(value->args[0]);
    const bool is_any = result->kind == Value::Kind::kResult && result->node == any;
    if (!is_any || !IsNumber(value->args[turned ? 1 : 2], 0))
      return No("rows of which nothing is seen have weights of their own");
    value = Bare(value->args[turned ? 2 : 1]);
  }
  or_zero = of_any != nullptr;
  const bool divides = IsOp(value, Op::kDiv) && value->args[0] == of_sum &&
                       value->args[1]->kind == Value::Kind::kResult && value->args[1]->node == sum;
  return divides ? absl::OkStatus() : No("weights are not a softmax' alone");
}

// ---- operands

// A 16-bit element in memory, and what it is multiplied by.
struct Scaled {
  ValuePtr load = nullptr;
  double by = 1;
};
std::optional<Scaled> ScaledOf(ValuePtr value) {
  Scaled scaled;
  for (;;) {
    if (value->kind == Value::Kind::kLoad) {
      if (!value->args.empty() || !IsHalf(value->type)) return std::nullopt;
      scaled.load = value;
      return scaled;
    }
    if (value->kind != Value::Kind::kOp) return std::nullopt;
    const auto constant = [&](int arg) { return value->args[arg]->kind == Value::Kind::kConst; };
    if (value->op == Op::kCast && value->type == DType::kF32) {
      value = value->args[0];
    } else if (value->op == Op::kMul && value->type == DType::kF32 && constant(1)) {
      scaled.by *= value->args[1]->number;
      value = value->args[0];
    } else if (value->op == Op::kMul && value->type == DType::kF32 && constant(0)) {
      scaled.by *= value->args[0]->number;
      value = value->args[1];
    } else if (value->op == Op::kDiv && value->type == DType::kF32 && constant(1)) {
      scaled.by /= value->args[1]->number;
      value = value->args[0];
    } else {
      return std::nullopt;
    }
  }
}

// Where elements lie of which `along` are neighbours and `down` rows; `from` is the place of one.
absl::StatusOr<AttendPlaces> PlacesAt(int tensor, const Index& from, const Frame& frame,
                                      const Variable& along, int64_t width, const Variable& down,
                                      int64_t rows) {
  AttendPlaces at;
  at.tensor = tensor;
  at.width = width;
  at.rows = rows;
  at.row = from.CoefficientOf(down);
  if (width > 1 && from.CoefficientOf(along) != 1)
    return No("elements of a row do not lie beside each other");
  if (rows == 1) at.row = (width + kEven - 1) / kEven * kEven;
  const Index rest = from.Without(along).Without(down);
  if ((rest.variables() & ~BitOf(frame.outer)) != 0 || rest.has_opaque())
    return No("rows do not lie one behind the other");
  at.offset = rest.constant();
  for (const Index::Term& term : rest.terms()) at.outer = std::gcd(at.outer, term.coefficient);
  if (at.outer == 0) {
    at.outer = at.row * rows;
  } else {
    for (const Index::Term& term : rest.terms())
      at.at = at.at + Index::Of(term.atom) * (term.coefficient / at.outer);
    at.outers = at.at.range().high + 1;
    if (at.at.range().low < 0) return No("a batch lies before its tensor");
  }
  if (at.offset % kEven != 0 || at.row <= 0 || at.row % kEven != 0 || at.outer % kEven != 0)
    return No("rows do not begin at multiples of 16 bytes");
  return at;
}

// ---- scores

// What a condition comes to: another one, or that it does not hold.
struct Said {
  ValuePtr condition;
  bool holds;
};
// x == number, of x that is 0 or 1 by a condition, as tables of masks are.
std::optional<Said> Equals(ValuePtr x, double number) {
  x = Bare(x);
  ValuePtr condition = nullptr;
  bool then = true;  // what x is where that holds
  if (IsOp(x, Op::kCast) && x->args[0]->type == DType::kBool) {
    condition = x->args[0];
  } else if (IsOp(x, Op::kSelect)) {
    then = IsNumber(x->args[1], 1);
    if (IsNumber(x->args[1], then ? 1 : 0) && IsNumber(x->args[2], then ? 0 : 1))
      condition = x->args[0];
  }
  if (condition == nullptr || (number != 0 && number != 1)) return std::nullopt;
  return Said{condition, then == (number == 1)};
}
// Of a condition that asks for an element of such a table.
std::optional<Said> OfTable(ValuePtr condition) {
  if (IsOp(condition, Op::kCast) && graph::IsFloat(condition->args[0]->type)) {
    auto said = Equals(condition->args[0], 0);
    if (said) said->holds = !said->holds;
    return said;
  }
  if (!IsOp(condition, Op::kEq) && !IsOp(condition, Op::kNe)) return std::nullopt;
  for (const int number : {0, 1}) {
    const ValuePtr to = condition->args[number];
    if (to->kind != Value::Kind::kConst || !graph::IsFloat(to->type)) continue;
    auto said = Equals(condition->args[1 - number], to->number);
    if (said && condition->op == Op::kNe) said->holds = !said->holds;
    return said;
  }
  return std::nullopt;
}

// What 0 <= index says where the condition holds, of all that it asks for; false: it asks for
// something else, too.
bool AddConditions(ValuePtr condition, bool holds, std::vector<Index>& all) {
  // bool(i32(b)) is b.
  ValuePtr bare = condition;
  while (IsOp(bare, Op::kCast) && !graph::IsFloat(bare->args[0]->type)) bare = bare->args[0];
  if (bare->type == DType::kBool) condition = bare;
  if (condition->kind == Value::Kind::kCompare && condition->op == Op::kLe) {
    if (condition->index.has_opaque() || Magnitude(condition->index) > kMostPlaces) return false;
    all.push_back(holds ? condition->index : Index(-1) - condition->index);
    return true;
  }
  if (IsOp(condition, Op::kNot)) return AddConditions(condition->args[0], !holds, all);
  if (const auto said = OfTable(condition))
    return AddConditions(said->condition, said->holds == holds, all);
  if (IsOp(condition, holds ? Op::kAnd : Op::kOr)) {
    const bool first = AddConditions(condition->args[0], holds, all);
    return AddConditions(condition->args[1], holds, all) && first;
  }
  return false;
}

// What a value is minus infinity without: `seen` gets what of it can be said so, all of it if it is
// to be `whole`, or nothing. The side of the choice that is left; nullptr: it is no such choice.
ValuePtr SeenSide(ValuePtr choice, bool whole, std::vector<Index>& seen) {
  if (!IsOp(choice, Op::kSelect)) return nullptr;
  for (const bool holds : {true, false}) {
    if (!IsNothing(choice->args[holds ? 2 : 1])) continue;
    std::vector<Index> conditions;
    if (!AddConditions(choice->args[0], holds, conditions) && whole) continue;
    seen.insert(seen.end(), conditions.begin(), conditions.end());
    return choice->args[holds ? 1 : 2];
  }
  return nullptr;
}

bool IsPositive(ValuePtr value) {
  return value->kind == Value::Kind::kConst && value->number > 0 && std::isfinite(value->number);
}

// Where a score is minus infinity, as far as it can be said: not everywhere where it is.
void FindSeen(ValuePtr value, std::vector<Index>& seen) {
  value = Bare(value);
  if (IsOp(value, Op::kAdd)) {
    FindSeen(value->args[0], seen);
    FindSeen(value->args[1], seen);
  } else if (IsOp(value, Op::kMul) || IsOp(value, Op::kDiv)) {
    if (IsPositive(value->args[1])) FindSeen(value->args[0], seen);
    if (IsOp(value, Op::kMul) && IsPositive(value->args[0])) FindSeen(value->args[1], seen);
  } else if (const ValuePtr side = SeenSide(value, false, seen); side != nullptr) {
    FindSeen(side, seen);
  }
}

// What the sum is multiplied by where a score is seen, and in `seen` where that is; nullopt:
// something else becomes of it.
std::optional<double> ScaleOf(ValuePtr value, bool unrounded, std::vector<Index>& seen) {
  if (value->kind == Value::Kind::kResult) return 1;
  if (value->kind != Value::Kind::kOp || !graph::IsFloat(value->type)) return std::nullopt;
  const auto of = [&](int arg, double by) -> std::optional<double> {
    const auto scale = ScaleOf(value->args[arg], unrounded, seen);
    return scale ? std::optional<double>(*scale * by) : std::nullopt;
  };
  switch (value->op) {
    case Op::kCast:
      return !graph::IsFloat(value->args[0]->type) || (IsHalf(value->type) && !unrounded)
                 ? std::nullopt
                 : of(0, 1);
    case Op::kMul:
      if (IsPositive(value->args[1])) return of(0, value->args[1]->number);
      return IsPositive(value->args[0]) ? of(1, value->args[0]->number) : std::nullopt;
    case Op::kDiv:
      return IsPositive(value->args[1]) ? of(0, 1 / value->args[1]->number) : std::nullopt;
    case Op::kAdd:
      for (const int mask : {0, 1}) {
        std::vector<Index> conditions;
        const ValuePtr side = SeenSide(Bare(value->args[mask]), true, conditions);
        if (side == nullptr || !IsNumber(side, 0)) continue;
        seen.insert(seen.end(), conditions.begin(), conditions.end());
        return of(1 - mask, 1);
      }
      return std::nullopt;
    case Op::kSelect: {
      const ValuePtr side = SeenSide(value, true, seen);
      return side != nullptr ? ScaleOf(side, unrounded, seen) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

class Former {
 public:
  Former(const Analysis& group, bool unrounded, AttendForm& form)
      : group_(group), graph_(group.graph()), unrounded_(unrounded), form_(form) {}

  absl::Status Run() {
    if (absl::Status s = Part(); !s.ok()) return s;
    const ContractForm scores = form_.of_scores, values = form_.of_values;
    const absl::Status whole = Joined();
    if (whole.ok() && SeenByRows()) return whole;
    // Heads of the same keys may be rows of one product and the batch's in the other, or lie behind
    // rows in what is written; and a mask says nothing of rows that are heads' and queries'.
    std::set<int64_t, std::greater<>> all = {scores.m, values.m};
    for (int tensor : {form_.score, form_.weight, group_.roots()[0]}) {
      for (int64_t extent : graph_.tensors[tensor].shape) all.insert(extent);
    }
    all.erase(0);
    if (scores.m > 1 && values.m > 1) all.erase(1);
    for (int64_t rows : all) {
      // Heads of few queries share what is read of keys as rows of one.
      if (whole.ok() && rows < kMostFolded) break;
      auto of_scores = OfRows(*form_.scores, scores, rows);
      auto of_values = OfRows(*form_.values, values, rows);
      if (!of_scores || !of_values) continue;
      form_.of_scores = *std::move(of_scores);
      form_.of_values = *std::move(of_values);
      if (Joined().ok() && (!whole.ok() || SeenByRows())) return absl::OkStatus();
    }
    form_.of_scores = scores;
    form_.of_values = values;
    return Joined();
  }

 private:
  // The form of so many rows, the others' coordinates in the batch.
  static std::optional<ContractForm> OfRows(const Analysis& part, ContractForm form, int64_t rows) {
    if (form.m == rows) return form;
    if (form.m % rows != 0) return std::nullopt;
    const std::vector<DomainAxis>& axes = part.stages()->axes;
    const auto one = std::find_if(form.m_axes.begin(), form.m_axes.end(),
                                  [&](int axis) { return axes[axis].extent() == rows; });
    if (one != form.m_axes.end()) {
      const int axis = *one;
      form.m_axes.erase(one);
      form.batch_axes.insert(form.batch_axes.end(), form.m_axes.begin(), form.m_axes.end());
      std::sort(form.batch_axes.begin(), form.batch_axes.end());
      form.m_axes = {axis};
    } else {
      form.parts = form.m / rows;
    }
    form.batch *= form.m / rows;
    form.m = rows;
    return form;
  }

  // Of the parts as they are.
  absl::Status Joined() {
    form_.seen.clear();
    form_.scale = 1;
    form_.score_steps = 0;
    if (absl::Status s = Operands(); !s.ok()) return s;
    return Scores();
  }

  // Whether it is known of runs of keys and of queries where scores are seen.
  bool SeenByRows() const {
    const auto kernel = BuildScores(form_);
    return kernel.ok() && std::all_of(form_.seen.begin(), form_.seen.end(), [&](const Index& at) {
             const Index rest = at.Without(kernel->frame.row).Without(kernel->frame.column);
             return (rest.variables() & (BitOf(kernel->frame.row) | BitOf(kernel->frame.column))) ==
                    0;
           });
  }

  // Makes the parts, and checks that they are what they should be.
  absl::Status Part() {
    int sums = 0, last = -1;
    for (int id : NeededNodes(graph_, group_.roots(), group_.in_memory())) {
      const graph::Node& node = graph_.nodes[id];
      if (node.scan) return No("it has a scan");
      if (!node.reduce) continue;
      ++sums;
      last = id;
    }
    if (sums < 4) return No("attention has two products and a softmax");
    const AttendBetween between = BetweenOf(graph_, last, group_.in_memory());
    if (between.weight < 0) return No("its last sum is no product with a softmax");
    form_.score = between.score;
    form_.weight = between.weight;
    std::set<int> memory;
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (group_.in_memory()(static_cast<int>(t))) memory.insert(static_cast<int>(t));
    }
    const auto with = [&](int tensor) {
      std::set<int> all = memory;
      all.insert(tensor);
      return all;
    };
    const Analysis weights(graph_, {form_.weight}, with(form_.score));
    if (absl::Status s = CheckSoftmax(weights, form_.score, along_, form_.or_zero, form_.no_nan);
        !s.ok())
      return s;
    form_.scores = std::make_unique<Analysis>(graph_, std::vector<int>{form_.score}, memory);
    form_.values = std::make_unique<Analysis>(graph_, group_.roots(), with(form_.weight));
    if (absl::Status s = Product(*form_.scores, form_.of_scores); !s.ok()) return s;
    return Product(*form_.values, form_.of_values);
  }

  absl::Status Product(const Analysis& part, ContractForm& form) {
    const absl::StatusOr<Domain>& domain = part.stages();
    if (!domain.ok()) return domain.status();
    form = FormContract(part, *domain, false);
    if (!form.status.ok()) return form.status;
    if (form.sums != DType::kF32 || form.pair || !form.end_sums.empty() || form.summed >= 0)
      return No("its products are more than two of fp32");
    return absl::OkStatus();
  }

  absl::Status Operands() {
    const auto scores = BuildScores(form_);
    const auto values =
        BuildContract(*form_.values, *form_.values->stages(), form_.of_values, Lane::kNone, 1);
    if (!scores.ok()) return scores.status();
    if (!values.ok()) return values.status();
    form_.batch = form_.of_scores.batch;
    form_.queries = form_.of_scores.m;
    form_.keys = form_.of_scores.n;
    form_.head = form_.of_scores.k;
    form_.head_v = form_.of_values.n;
    for (int64_t elements : {form_.head, form_.head_v}) {
      if (elements % kEven != 0 || elements > kMostElements)
        return No("rows have a multiple of 8 elements, and 256 at the most");
    }
    for (int64_t extent : {form_.queries, form_.keys, form_.batch}) {
      if (extent > kMostPlaces) return No("an axis has more than 2^30 elements");
    }
    if (absl::Status s = Weights(*scores, *values); !s.ok()) return s;
    if (absl::Status s = Elements(*scores, *values); !s.ok()) return s;
    const int64_t batch = form_.batch;
    for (int64_t folded = std::min(kMostFolded, batch); form_.queries == 1 && folded > 1;
         --folded) {
      if (batch % folded == 0 && Places(*scores, *values, folded).ok()) return absl::OkStatus();
    }
    return Places(*scores, *values, 1);
  }

  // What of operands and result is in memory.
  absl::Status Elements(const Kernel& scores, const Kernel& values) {
    const auto q = ScaledOf(OperandOf(form_.of_scores, scores, 0)),
               k = ScaledOf(OperandOf(form_.of_scores, scores, 1)),
               v = ScaledOf(OperandOf(form_.of_values, values, 1));
    if (!q || !k || !v) return No("an operand is not in memory in 16 bits");
    form_.type = q->load->type;
    if (k->load->type != form_.type || v->load->type != form_.type)
      return No("operands are of different types");
    if (v->by != 1) return No("values are multiplied by something");
    form_.scale = q->by * k->by;
    loads_ = {q->load, k->load, v->load};
    if (values.roots.size() != 1) return No("it writes several tensors");
    const Kernel::Root& root = values.roots[0];
    ValuePtr value = root.value;
    while (IsOp(value, Op::kCast) && (value->type == form_.type || value->type == DType::kF32))
      value = value->args[0];
    if (value->kind != Value::Kind::kResult || root.value->type != form_.type)
      return No("its result is not the second product in the type of its operands");
    return root.condition == nullptr ? absl::OkStatus() : No("it writes only some places");
  }

  // Where they are, so many of the batch folded into one.
  absl::Status Places(const Kernel& scores, const Kernel& values, int64_t folded) {
    const int64_t batch = form_.of_scores.batch / folded;
    const int64_t queries = folded > 1 ? folded : form_.queries;
    absl::Status status;
    const auto place = [&](const Kernel& kernel, int tensor, Index from, const Variable& along,
                           int64_t width, const Variable* keys, AttendPlaces& at) {
      Frame frame = kernel.frame;
      if (folded > 1) {
        frame.outer.range.high = batch - 1;
        frame.row.range = {0, folded - 1};
        std::vector<Index> by(kMaxVariables);
        for (const Variable& same : {frame.column, frame.k}) by[same.id] = Index::Of(same);
        by[frame.outer.id] = Index::Of(frame.outer) * folded + Index::Of(frame.row);
        from = Substitute(from, by);
      }
      auto found = keys != nullptr
                       ? PlacesAt(tensor, from, frame, along, width, *keys, form_.keys)
                       : PlacesAt(tensor, from, frame, along, width, frame.row, queries);
      if (!found.ok() && status.ok()) status = found.status();
      if (found.ok()) at = *found;
    };
    const Frame &first = scores.frame, &second = values.frame;
    const Kernel::Root& root = values.roots[0];
    place(scores, loads_[0]->tensor, loads_[0]->index, first.k, form_.head, nullptr, form_.q);
    place(scores, loads_[1]->tensor, loads_[1]->index, first.k, form_.head, &first.column, form_.k);
    place(values, loads_[2]->tensor, loads_[2]->index, second.column, form_.head_v, &second.k,
          form_.v);
    place(values, root.tensor, root.address, second.column, form_.head_v, nullptr, form_.out);
    if (!status.ok()) return status;
    form_.batch = batch;
    form_.queries = queries;
    form_.folded = folded;
    return absl::OkStatus();
  }

  // Weights are where the scores are that they are made of.
  absl::Status Weights(const Kernel& scores, const Kernel& values) const {
    const ContractForm& second = form_.of_values;
    if (second.batch != form_.batch || second.m != form_.queries || second.k != form_.keys)
      return No("its products do not share their axes");
    const ValuePtr weight = Bare(OperandOf(second, values, 0));
    if (weight->kind != Value::Kind::kLoad || weight->tensor != form_.weight ||
        !weight->args.empty())
      return No("weights are not the second product's rows");
    std::vector<Index> by(kMaxVariables);
    by[scores.frame.outer.id] = Index::Of(values.frame.outer);
    by[scores.frame.row.id] = Index::Of(values.frame.row);
    by[scores.frame.column.id] = Index::Of(values.frame.k);
    by[scores.frame.k.id] = Index(0);
    if (!(Substitute(scores.roots[0].address, by) == weight->index))
      return No("weights lie otherwise in the second product than the first one makes them");
    const Index& place = weight->index;
    if (along_.extent != form_.keys ||
        (form_.keys > 1 && place.CoefficientOf(values.frame.k) != along_.stride))
      return No("the softmax is along another axis than the second product");
    return absl::OkStatus();
  }

  absl::Status Scores() {
    const auto kernel = BuildScores(form_);
    if (!kernel.ok()) return kernel.status();
    const ValuePtr value = kernel->roots[0].value;
    const auto scale = ScaleOf(value, unrounded_, form_.seen);
    form_.plain = scale && *scale * form_.scale > 0;
    if (form_.plain) {
      form_.scale *= *scale;
    } else {
      form_.seen.clear();
      FindSeen(value, form_.seen);
      for (ValuePtr one : kernel->values->Closure({value})) {
        if (one->kind == Value::Kind::kOp) form_.score_steps += StepsOf(one->op);
      }
    }
    form_.reach.clear();
    for (const Index& index : form_.seen) {
      const Variable &q = kernel->frame.row, &k = kernel->frame.column;
      const Index rest = index.Without(q).Without(k);
      form_.reach.push_back({index.CoefficientOf(q), index.CoefficientOf(k), rest.range().high});
    }
    return absl::OkStatus();
  }

  const Analysis& group_;
  const graph::Graph& graph_;
  const bool unrounded_;
  AttendForm& form_;
  std::array<ValuePtr, 3> loads_{};  // of Q, K and V
  Along along_;                      // of the softmax
};

}  // namespace

AttendBetween BetweenOf(const graph::Graph& graph, int node, const InMemory& in_memory) {
  const graph::Node& product = graph.nodes[node];
  if (!product.reduce || product.combiner != graph::Combiner::kSum || product.value->op != Op::kMul)
    return {};
  for (const graph::ExprPtr& factor : product.value->args) {
    const graph::ExprPtr load = Bare(factor);
    if (load->op != Op::kLoad) continue;
    const int weight = ViewedBy(graph, load->tensor);
    if (in_memory(weight) || graph.tensors[weight].node < 0 ||
        !graph.nodes[graph.tensors[weight].node].map())
      continue;
    const std::vector<int> needed = NeededNodes(graph, {weight}, in_memory);
    for (auto id = needed.rbegin(); id != needed.rend(); ++id) {  // the last: others are before it
      const graph::Node& max = graph.nodes[*id];
      if (!max.reduce || max.combiner != graph::Combiner::kMax) continue;
      const graph::ExprPtr of = Widened(max.value);
      if (of->op != Op::kLoad || !graph::IsFloat(of->type)) continue;
      const int score = WidenedBehind(graph, of->tensor);
      if (in_memory(score)) continue;
      return {score, weight};
    }
  }
  return {};
}

int64_t AttendForm::StepsOfTile(int64_t q, int64_t rows, int64_t keys_of_step,
                                int64_t split) const {
  const int64_t last = std::min(q + rows, queries) - 1;
  int64_t from = 0, to = keys;
  for (const Reach& one : reach) {
    const int64_t edge = one.rest + one.by_q * (folded > 1 ? 0 : one.by_q > 0 ? last : q);
    if (one.by_k > 0) {
      if (edge < 0) from = std::max(from, (one.by_k - 1 - edge) / one.by_k);
    } else if (edge < 0) {
      to = 0;
    } else if (one.by_k < 0) {
      to = std::min(to, edge / -one.by_k + 1);
    }
  }
  if (from >= to) return 0;
  const int64_t steps = (to - 1) / keys_of_step - from / keys_of_step + 1;
  return (steps + split - 1) / split;
}

bool AttendForm::later_longer() const {
  return folded == 1 && std::any_of(reach.begin(), reach.end(),
                                    [](const Reach& one) { return one.by_q > 0 && one.by_k < 0; });
}

std::unique_ptr<AttendForm> FormAttend(const Analysis& group, bool unrounded) {
  auto form = std::make_unique<AttendForm>();
  form->status = Former(group, unrounded, *form).Run();
  return form;
}

absl::StatusOr<Kernel> BuildScores(const AttendForm& form, int width) {
  auto kernel = BuildContract(*form.scores, *form.scores->stages(), form.of_scores,
                              width > 1 ? Lane::kN : Lane::kNone, width);
  if (!kernel.ok()) return kernel;
  ValuePtr& score = kernel->roots[0].value;
  if (IsHalf(score->type)) score = kernel->values->Op(Op::kCast, DType::kF32, {score});
  return kernel;
}

const Domain& DomainOf(const AttendForm& form) { return *form.values->stages(); }

}  // namespace warpsmith::codegen
