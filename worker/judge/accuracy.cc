#include "worker/judge/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

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

// `tensors`: of those that it may load. `known`: parts are shared, and looked at once.
bool RoundsFloats(const graph::ExprPtr& e, const std::vector<bool>& tensors,
                  std::map<const graph::Expr*, bool>& known) {
  if (!graph::IsNarrow(e->type)) return false;
  if (e->op == graph::Op::kCast) return graph::IsFloat(e->args[0]->type);
  if (e->op == graph::Op::kLoad) return tensors[e->tensor];
  if (const auto found = known.find(e.get()); found != known.end()) return found->second;
  const bool rounds = std::any_of(e->args.begin(), e->args.end(), [&](const graph::ExprPtr& arg) {
    return RoundsFloats(arg, tensors, known);
  });
  return known[e.get()] = rounds;
}

}  // namespace

std::vector<bool> RoundedFloats(const graph::Graph& graph) {
  std::vector<bool> rounded(graph.tensors.size(), false);
  std::map<const graph::Expr*, bool> known;
  for (const graph::Node& node : graph.nodes) {
    if (!RoundsFloats(node.value, rounded, known)) continue;
    for (int output : node.outputs) rounded[output] = graph::IsNarrow(graph.tensors[output].type);
  }
  return rounded;
}

namespace {

double Ratio(double error, double reference, double floor) {
  if (std::isnan(reference)) return 0;
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  return std::max(error, floor) / std::max(reference, floor);
}

}  // namespace

double ErrorRatio(graph::DType type, double error, double reference) {
  return Ratio(error, reference, oracle::ErrorFloor(type));
}

double RmsRatio(graph::DType type, double error, double reference) {
  if (type != graph::DType::kF16 && type != graph::DType::kBF16) return 0;
  return Ratio(error, reference, oracle::RmsFloor(type));
}

std::string DescribeErrors(const std::string& output, const std::string& which, double error,
                           double reference) {
  return absl::StrFormat(
      "output '%s': its %s error is %.2g of the answer's rms, that of what it replaces %.2g",
      output, which, error, reference);
}

}  // namespace warpsmith::judge
