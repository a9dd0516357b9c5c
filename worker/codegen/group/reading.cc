#include "worker/codegen/group/reading.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace warpsmith::codegen {

using graph::Node;

namespace {

// Narrows the range of `variable` to where a guard can hold, as far as it is about that alone.
void Narrow(ValuePtr guard, const Variable& variable, Range& range) {
  if (guard->kind == Value::Kind::kOp && guard->op == graph::Op::kAnd) {
    for (ValuePtr arg : guard->args) Narrow(arg, variable, range);
    return;
  }
  if (guard->kind != Value::Kind::kCompare || guard->op != graph::Op::kLe) return;
  const int64_t by = guard->index.CoefficientOf(variable);
  const Index rest = guard->index.Without(variable);
  if (!rest.is_constant()) return;
  if (by == -1) range.high = std::min(range.high, rest.constant());
  if (by == 1) range.low = std::max(range.low, -rest.constant());
}

// 1 where `parts` neighbours along an axis each have a part of one element (bits of a byte), and
// the next ones of the next; 0: it is not so.
int64_t StrideOfParts(const Index& index, const Variable& axis, int64_t& parts) {
  for (const Index::Term& term : index.terms()) {
    const Atom& atom = *term.atom;
    if (atom.kind != Atom::Kind::kDiv || term.coefficient != 1 || !(*atom.inner == Index::Of(axis)))
      continue;
    const Index rest = index - Index::Of(term.atom);
    if ((rest.variables() & (uint64_t{1} << axis.id)) != 0) continue;
    parts = atom.divisor;
    return 1;
  }
  return 0;
}

// The load that runs along most of the reduced axes. Of those alike whose neighbours are those of a
// kept axis, one along the innermost of the result, where neighbours are written beside each other.
void FindMainLoad(const Node& node, const Traced& traced, const graph::Graph& graph,
                  const std::vector<graph::Axis>& axes, Reading& reading) {
  int64_t best = -1;
  size_t innermost = node.axes.size();  // of the result's axes with several places
  while (innermost > 0 && axes[innermost - 1].extent == 1) --innermost;
  for (ValuePtr value : traced.values.Closure({traced.value})) {
    if (value->kind != Value::Kind::kLoad) continue;
    std::vector<int64_t> stride(axes.size()), parts(axes.size(), 1);
    int64_t reduced = 0, seen = 0;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (traced.env[a].is_constant()) continue;
      const Variable& axis = traced.env[a].terms()[0].atom->variable;
      stride[a] = value->index.CoefficientOf(axis);
      if (stride[a] == 0) stride[a] = StrideOfParts(value->index, axis, parts[a]);
      if (stride[a] == 0) continue;
      ++seen;
      if (a >= node.axes.size()) ++reduced;
    }
    const auto beside = std::find(stride.begin(), stride.end(), 1) - stride.begin();
    const bool turned = beside + 1 != static_cast<int64_t>(innermost) &&
                        beside < static_cast<int64_t>(node.axes.size());
    const int64_t score =
        reduced * 1000 + seen * 10 + (value->args.empty() ? 2 : 0) + (turned ? 0 : 1);
    const int64_t elements = graph.tensors[value->tensor].elements();
    if (reduced > 0 && (score > best || (score == best && elements > 0 && !reading.known))) {
      best = score;
      reading.stride = stride;
      reading.extents.clear();
      for (size_t a = 0; a < axes.size(); ++a) {
        Range range{0, axes[a].extent - 1};
        for (ValuePtr guard : value->args) {
          if (stride[a] != 0) Narrow(guard, traced.env[a].terms()[0].atom->variable, range);
        }
        const int64_t length = range.high - range.low + 1;
        reading.extents.push_back(std::max<int64_t>(1, (length + parts[a] - 1) / parts[a]));
      }
      reading.guarded = !value->args.empty();
      reading.parted = std::any_of(parts.begin(), parts.end(), [](int64_t p) { return p > 1; });
      reading.known = true;
    }
  }
}

}  // namespace

Reading ReadingOf(const Node& node, const Traced& traced, const graph::Graph& graph) {
  Reading reading;
  if (traced.value == nullptr) return reading;
  std::vector<graph::Axis> axes = node.axes;
  axes.insert(axes.end(), node.reduce_axes.begin(), node.reduce_axes.end());
  FindMainLoad(node, traced, graph, axes, reading);
  if (!reading.known) return reading;
  // Windows overlap where strides are not those of a mixed radix.
  std::vector<std::pair<int64_t, int64_t>> digits;  // stride, extent
  for (size_t a = 0; a < axes.size(); ++a) {
    if (reading.stride[a] != 0 && reading.extents[a] > 1)
      digits.push_back({std::abs(reading.stride[a]), reading.extents[a]});
  }
  std::sort(digits.begin(), digits.end());
  for (size_t d = 0; d + 1 < digits.size(); ++d) {
    if (digits[d + 1].first < digits[d].first * (digits[d].second - 1) + 1)
      reading.overlapping = true;
  }
  return reading;
}

bool RunsAlong(const Node& node, const Reading& reading) {
  for (size_t a = 0; reading.known && a < node.reduce_axes.size(); ++a) {
    if (reading.stride[node.axes.size() + a] == 1) return true;
  }
  return false;
}

std::vector<int> ReduceOrder(const Node& node, const Reading& reading) {
  std::vector<int> order;
  for (size_t a = 0; a < node.reduce_axes.size(); ++a) order.push_back(static_cast<int>(a));
  if (reading.known) {
    const size_t kept = node.axes.size();
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return std::abs(reading.stride[kept + a]) > std::abs(reading.stride[kept + b]);
    });
  }
  return order;
}

}  // namespace warpsmith::codegen
