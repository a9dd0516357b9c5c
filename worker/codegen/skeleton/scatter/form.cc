#include "worker/codegen/skeleton/scatter/form.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/graph/numeric.h"

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Op;

bool IsOp(ValuePtr value, Op op) { return value->kind == Value::Kind::kOp && value->op == op; }

bool IsZero(ValuePtr value) {
  return value->kind == Value::Kind::kConst && value->number == 0 && value->integer == 0;
}

bool Has(const std::vector<ValuePtr>& values, ValuePtr one) {
  return std::find(values.begin(), values.end(), one) != values.end();
}

// What is added, and where: elsewhere it is 0.
struct Term {
  std::vector<ValuePtr> met;
  ValuePtr value = nullptr;
};

void AddMet(Values& values, ValuePtr condition, bool holds, std::vector<ValuePtr>& met) {
  if (IsOp(condition, Op::kNot)) return AddMet(values, condition->args[0], !holds, met);
  if (IsOp(condition, holds ? Op::kAnd : Op::kOr)) {
    for (ValuePtr arg : condition->args) AddMet(values, arg, holds, met);
    return;
  }
  if (!holds && IsOp(condition, Op::kNe)) {
    condition = values.Op(Op::kEq, DType::kBool, condition->args);
  } else if (!holds) {
    condition = values.Op(Op::kNot, DType::kBool, {condition});
  }
  if (!Has(met, condition)) met.push_back(condition);
}

Term TermOf(Values& values, ValuePtr value) {
  if (IsOp(value, Op::kCast)) {
    const ValuePtr of = value->args[0];
    Term term;
    if (of->type == DType::kBool) {
      AddMet(values, of, true, term.met);
      term.value = graph::IsFloat(value->type) ? values.Const(value->type, 1)
                                               : values.ConstInt(value->type, 1);
    } else {
      term = TermOf(values, of);
      term.value = values.Op(Op::kCast, value->type, {term.value});
    }
    return term;
  }
  if (IsOp(value, Op::kSelect)) {
    for (const int side : {1, 2}) {
      if (!IsZero(value->args[3 - side])) continue;
      Term term = TermOf(values, value->args[side]);
      AddMet(values, value->args[0], side == 1, term.met);
      return term;
    }
  }
  return {{}, value};
}

uint64_t BitsOf(const Frame& frame, const std::vector<int>& axes) {
  uint64_t bits = 0;
  for (int axis : axes) bits |= frame.axes[axis].variables();
  return bits;
}

std::vector<int> AxesOf(const Domain& domain, Role role) {
  std::vector<int> axes;
  for (size_t a = 0; a < domain.axes.size(); ++a) {
    if (domain.axes[a].role == role) axes.push_back(static_cast<int>(a));
  }
  return axes;
}

// The axis, less a constant, as a number of i64 or one that is as large.
std::optional<int64_t> LessThanAxis(const Values& values, ValuePtr value, const Variable& axis) {
  while (IsOp(value, Op::kCast) && graph::IsInteger(value->type) &&
         graph::IsInteger(value->args[0]->type) &&
         values.RangeOf(value->args[0])
             .Within(graph::LowestOf(value->type), graph::HighestOf(value->type)))
    value = value->args[0];
  if (value->kind != Value::Kind::kIndex) return std::nullopt;
  const Index rest = value->index.Without(axis);
  if (value->index.CoefficientOf(axis) != 1 || !rest.is_constant()) return std::nullopt;
  return rest.constant();
}

uint64_t VariablesOf(const PlaceKey& key) {
  return key.number != nullptr ? key.number->variables : key.index.variables();
}

// What the condition says of the axis, where it is an equation with it on one side.
std::optional<PlaceKey> KeyOf(const Values& values, ValuePtr condition, int axis,
                              const Variable& variable) {
  PlaceKey key;
  key.axis = axis;
  if (condition->kind == Value::Kind::kCompare && condition->op == Op::kEq) {
    const int64_t coefficient = condition->index.CoefficientOf(variable);
    if (coefficient != 1 && coefficient != -1) return std::nullopt;
    key.index = condition->index.Without(variable) * -coefficient;
  } else if (IsOp(condition, Op::kEq)) {
    for (const int side : {0, 1}) {
      const auto minus = LessThanAxis(values, condition->args[side], variable);
      if (!minus) continue;
      key.number = condition->args[1 - side];
      key.minus = *minus;
    }
    if (key.number == nullptr) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if ((VariablesOf(key) & BitOf(variable)) != 0) return std::nullopt;
  return key;
}

// Equations that name places, each of an axis of its own, in terms of what they do not name.
std::vector<PlaceKey> KeysAmong(const Values& values, const Frame& frame,
                                const std::vector<ValuePtr>& met, const std::vector<int>& axes,
                                uint64_t of_rows, std::vector<ValuePtr>& used) {
  std::vector<PlaceKey> keys;
  uint64_t named = 0, needed = 0;
  for (ValuePtr condition : met) {
    for (int axis : axes) {
      const Index& at = frame.axes[axis];
      if (at.terms().size() != 1 || at.terms()[0].atom->kind != Atom::Kind::kVariable) continue;
      const Variable& variable = at.terms()[0].atom->variable;
      if ((BitOf(variable) & (named | needed)) != 0) continue;
      auto key = KeyOf(values, condition, axis, variable);
      if (!key || (VariablesOf(*key) & of_rows) == 0 || (VariablesOf(*key) & named) != 0) continue;
      named |= BitOf(variable);
      needed |= VariablesOf(*key);
      keys.push_back(*std::move(key));
      used.push_back(condition);
      break;
    }
  }
  std::sort(keys.begin(), keys.end(),
            [](const PlaceKey& a, const PlaceKey& b) { return a.axis < b.axis; });
  return keys;
}

struct Found {
  ScatterParts parts;
  uint64_t batches = 0;  // variables of kept axes that tell who has which keys
};

// `axes`: that may be places.
Found Find(const Domain& domain, const Kernel& kernel, const std::vector<int>& axes) {
  Values& values = *kernel.values;
  const uint64_t of_rows = BitsOf(kernel.frame, AxesOf(domain, Role::kReduced));
  std::vector<Term> terms;
  for (const Kernel::Reduce& reduce : kernel.reduces) terms.push_back(TermOf(values, reduce.value));
  std::vector<ValuePtr> common = terms.front().met;
  std::erase_if(common, [&](ValuePtr condition) {
    return !std::all_of(terms.begin(), terms.end(),
                        [&](const Term& term) { return Has(term.met, condition); });
  });

  Found found;
  ScatterParts& parts = found.parts;
  parts.keys = KeysAmong(values, kernel.frame, common, axes, of_rows, parts.met);
  for (const PlaceKey& key : parts.keys) found.batches |= VariablesOf(key) & ~of_rows;
  for (ValuePtr condition : common) {
    if (Has(parts.met, condition) || (condition->variables & ~(of_rows | found.batches)) != 0)
      continue;
    parts.counts.push_back(condition);
  }
  parts.met.insert(parts.met.end(), parts.counts.begin(), parts.counts.end());
  for (Term& term : terms) {
    ValuePtr value = term.value;
    const ValuePtr zero = graph::IsFloat(value->type) ? values.Const(value->type, 0)
                                                      : values.ConstInt(value->type, 0);
    for (ValuePtr condition : term.met) {
      if (!Has(parts.met, condition))
        value = values.Op(Op::kSelect, value->type, {condition, value, zero});
    }
    parts.terms.push_back(value);
  }
  return found;
}

int64_t Count(const Domain& domain, const std::vector<int>& axes) {
  int64_t count = 1;
  for (int axis : axes) count *= domain.axes[axis].extent();
  return count;
}

std::vector<int> InMemoryOrder(const Domain& domain, const Kernel& points) {
  std::vector<int> order = AxesOf(domain, Role::kKept);
  const Index& address = points.roots[0].address;
  const auto stride = [&](int axis) {
    return address.CoefficientOf(points.frame.axes[axis].terms()[0].atom->variable);
  };
  if (std::all_of(order.begin(), order.end(), [&](int axis) { return stride(axis) > 0; }))
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return stride(a) > stride(b); });
  return order;
}

absl::Status CheckSums(const graph::Graph& graph, const Domain& domain) {
  if (domain.stages != 1 || !domain.totals.empty() || domain.kept() == 1 || domain.reduced() == 1)
    return absl::InvalidArgumentError("a scatter is sums over one set of rows, each by itself");
  for (const StageNode& stage : domain.nodes) {
    if (graph.nodes[stage.node].combiner != graph::Combiner::kSum)
      return absl::InvalidArgumentError("a scatter combines by adding");
  }
  for (const RootPlace& root : domain.roots) {
    if (root.level != Level::kRows)
      return absl::InvalidArgumentError("a scatter writes its sums, and not what they are of");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScatterForm> ScatterFormOf(const Analysis& group) {
  if (!group.stages().ok()) return group.stages().status();
  const Domain& domain = *group.stages();
  if (absl::Status s = CheckSums(group.graph(), domain); !s.ok()) return s;
  const absl::StatusOr<Kernel>& points = group.PointsOf(domain);
  if (!points.ok()) return points.status();

  ScatterForm form;
  form.rows = AxesOf(domain, Role::kReduced);
  const std::vector<int> kept = AxesOf(domain, Role::kKept);
  const Found found = Find(domain, *points, kept);
  if (found.parts.keys.empty())
    return absl::InvalidArgumentError("no key of a row names the place that it is added to");
  for (const PlaceKey& key : found.parts.keys) form.places.push_back(key.axis);
  for (int axis : kept) {
    if (std::find(form.places.begin(), form.places.end(), axis) != form.places.end()) continue;
    const bool batch = (points->frame.axes[axis].variables() & found.batches) != 0;
    (batch ? form.batches : form.elements).push_back(axis);
  }
  form.place_count = Count(domain, form.places);
  form.batch_count = Count(domain, form.batches);
  form.element_count = Count(domain, form.elements);
  form.row_count = Count(domain, form.rows);
  form.order = InMemoryOrder(domain, *points);
  // Elements are numbered as they are gone through.
  std::stable_sort(form.elements.begin(), form.elements.end(), [&](int a, int b) {
    return std::find(form.order.begin(), form.order.end(), a) <
           std::find(form.order.begin(), form.order.end(), b);
  });
  return form;
}

absl::StatusOr<ScatterParts> ScatterPartsOf(const ScatterForm& form, const Domain& domain,
                                            const Kernel& kernel) {
  Found found = Find(domain, kernel, form.places);
  const std::vector<PlaceKey>& keys = found.parts.keys;
  const bool same = std::equal(keys.begin(), keys.end(), form.places.begin(), form.places.end(),
                               [](const PlaceKey& key, int axis) { return key.axis == axis; });
  if (!same || (found.batches & ~BitsOf(kernel.frame, form.batches)) != 0)
    return absl::InvalidArgumentError("vectors of elements hide the keys of rows");
  return std::move(found.parts);
}

}  // namespace warpsmith::codegen
