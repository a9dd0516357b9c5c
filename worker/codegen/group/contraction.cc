#include "worker/codegen/group/contraction.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/codegen/group/axes.h"
#include "worker/codegen/group/trace.h"

namespace warpsmith::codegen {
namespace {

using graph::DType;
using graph::Node;

// An axis of the node, with its stride in either factor and in the result.
struct Line {
  int64_t extent = 1;
  int64_t a = 0, b = 0, out = 0;
};

absl::Status No(absl::string_view why) { return absl::InvalidArgumentError(why); }

// The element that a factor is, perhaps cast to a wider float.
ValuePtr ElementOf(ValuePtr value) {
  if (value->kind == Value::Kind::kOp && value->op == graph::Op::kCast) {
    const ValuePtr inner = value->args[0];
    const bool widens = graph::IsFloat(inner->type) && graph::IsFloat(value->type) &&
                        graph::SizeOf(inner->type) < graph::SizeOf(value->type);
    if (!widens) return nullptr;
    value = inner;
  }
  return value->kind == Value::Kind::kLoad ? value : nullptr;
}

// Strides along the node's axes; nullopt: it is not affine in them.
std::optional<std::vector<int64_t>> StridesOf(ValuePtr load, const Traced& traced,
                                              int64_t* offset) {
  std::vector<int64_t> strides(traced.env.size());
  Index left = load->index;
  for (size_t i = 0; i < traced.env.size(); ++i) {
    if (traced.env[i].is_constant()) continue;
    const Variable& variable = traced.env[i].terms()[0].atom->variable;
    strides[i] = left.CoefficientOf(variable);
    left = left.Without(variable);
  }
  if (!left.is_constant()) return std::nullopt;
  *offset = left.constant();
  return strides;
}

// Lines that follow each other in all that they stand in, as one each.
std::vector<Line> Folded(std::vector<Line> lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const Line& x, const Line& y) {
    if (x.out != y.out) return x.out > y.out;
    return std::max(x.a, x.b) > std::max(y.a, y.b);
  });
  std::vector<Line> folded;
  for (const Line& line : lines) {
    if (line.extent == 1) continue;
    if (!folded.empty()) {
      Line& outer = folded.back();
      const auto follows = [&](int64_t Line::*stride) {
        return outer.*stride == line.*stride * line.extent;
      };
      if (follows(&Line::a) && follows(&Line::b) && follows(&Line::out)) {
        outer = {outer.extent * line.extent, line.a, line.b, line.out};
        continue;
      }
    }
    folded.push_back(line);
  }
  return folded;
}

}  // namespace

absl::StatusOr<Contraction> ContractionOf(const graph::Graph& graph, const Node& node,
                                          const InMemory& in_memory) {
  if (!node.reduce || node.combiner != graph::Combiner::kSum) return No("it is no sum");
  Traced traced;
  Trace(graph, in_memory, {}, node, traced);
  if (traced.value == nullptr) return traced.status;
  const ValuePtr value = traced.value;
  if (value->kind != Value::Kind::kOp || value->op != graph::Op::kMul ||
      !graph::IsFloat(value->type)) {
    return No("what it sums is no product");
  }
  ValuePtr loads[2];
  std::vector<int64_t> strides[2];
  Contraction contraction;
  contraction.sums = value->type;
  Factor factors[2];
  for (int f = 0; f < 2; ++f) {
    loads[f] = ElementOf(value->args[f]);
    if (loads[f] == nullptr) return No("a factor is no element in memory");
    if (!loads[f]->args.empty()) return No("a factor is read under a condition");
    auto found = StridesOf(loads[f], traced, &factors[f].offset);
    if (!found) return No("a factor is read at places that are not affine");
    if (std::any_of(found->begin(), found->end(), [](int64_t stride) { return stride < 0; })) {
      return No("a factor is read backwards");
    }
    strides[f] = *std::move(found);
    factors[f].tensor = loads[f]->tensor;
  }
  contraction.type = loads[0]->type;
  if (loads[1]->type != contraction.type) return No("its factors have different types");

  std::vector<Line> rows[2], batch, k;
  int64_t out = Product(node.axes);
  for (size_t i = 0; i < traced.env.size(); ++i) {
    const bool kept = i < node.axes.size();
    const int64_t extent =
        kept ? node.axes[i].extent : node.reduce_axes[i - node.axes.size()].extent;
    if (kept) out /= extent;
    const Line line{extent, strides[0][i], strides[1][i], kept ? out : 0};
    if (extent == 1) continue;
    if (!kept) {
      if (line.a == 0 || line.b == 0) return No("it sums over what one factor alone has");
      k.push_back(line);
    } else if (line.a != 0 && line.b != 0) {
      batch.push_back(line);
    } else if (line.a == 0 && line.b == 0) {
      return No("an axis of the result is none of its factors'");
    } else {
      rows[line.a == 0].push_back(line);
    }
  }
  k = Folded(k);
  if (k.size() > 1) return No("what it sums over is not one axis in both factors");
  if (k.size() == 1) {
    contraction.k = k[0].extent;
    factors[0].k = k[0].a;
    factors[1].k = k[0].b;
  }
  for (int f = 0; f < 2; ++f) {
    const std::vector<Line> folded = Folded(rows[f]);
    if (folded.size() > 1) return No("a factor's rows are not one axis in it and in the result");
    if (folded.empty()) continue;
    factors[f].rows = folded[0].extent;
    factors[f].row = f == 0 ? folded[0].a : folded[0].b;
    factors[f].out = folded[0].out;
  }
  // N runs along the result's memory; a vector's only rows are M.
  const bool first_is_n =
      factors[0].rows > 1 && factors[1].rows > 1 && factors[0].out < factors[1].out;
  const bool first_is_none = factors[0].rows == 1 && factors[1].rows > 1;
  const bool swapped = first_is_n || first_is_none;
  contraction.a = factors[swapped];
  contraction.b = factors[!swapped];
  for (const Line& line : Folded(batch)) {
    contraction.batch.push_back(
        {line.extent, swapped ? line.b : line.a, swapped ? line.a : line.b, line.out});
  }
  return contraction;
}

}  // namespace warpsmith::codegen
