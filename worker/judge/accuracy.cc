#include "worker/judge/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace warpsmith::judge {

Tolerance ToleranceOf(const v1::AccuracyRule& rule, graph::DType type) {
  if (rule.absolute() > 0 || rule.relative() > 0) return {rule.absolute(), rule.relative()};
  switch (type) {
    case graph::DType::kF16:
      return {0x1p-9, 0x1p-9};
    case graph::DType::kBF16:
      return {0x1p-6, 0x1p-6};
    case graph::DType::kF64:
      return {1e-7, 1e-7};
    default:
      return {1e-4, 1e-4};
  }
}

namespace {

bool ValueRoundsFloats(const graph::Graph& graph, const graph::ExprPtr& e) {
  if (!graph::IsNarrow(e->type)) return false;
  if (e->op == graph::Op::kCast) return graph::IsFloat(e->args[0]->type);
  if (e->op == graph::Op::kLoad) return RoundsFloats(graph, e->tensor);
  return std::any_of(e->args.begin(), e->args.end(),
                     [&](const graph::ExprPtr& arg) { return ValueRoundsFloats(graph, arg); });
}

}  // namespace

bool RoundsFloats(const graph::Graph& graph, int tensor) {
  const graph::Tensor& t = graph.tensors[tensor];
  return t.node >= 0 && ValueRoundsFloats(graph, graph.nodes[t.node].value);
}

double ErrorRatio(graph::DType type, double error, double reference) {
  if (std::isnan(reference)) return 0;
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  const double floor = oracle::ErrorFloor(type);
  return std::max(error, floor) / std::max(reference, floor);
}

std::string DescribeErrors(const std::string& output, double error, double reference) {
  return absl::StrFormat(
      "output '%s': its largest error is %.2g of the answer's rms, that of what it replaces %.2g",
      output, error, reference);
}

}  // namespace warpsmith::judge
