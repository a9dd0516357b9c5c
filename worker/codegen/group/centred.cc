#include "worker/codegen/group/centred.h"

#include <algorithm>

namespace warpsmith::codegen {

using graph::Op;

namespace {

bool IsOp(ValuePtr value, Op op) { return value->kind == Value::Kind::kOp && value->op == op; }

bool IsNumber(ValuePtr value) { return value->kind == Value::Kind::kConst; }

// d of d * d or d^2; nullptr.
ValuePtr Squared(ValuePtr value) {
  if (IsOp(value, Op::kMul) && value->args[0] == value->args[1]) return value->args[0];
  if (IsOp(value, Op::kPow) && IsNumber(value->args[1]) && value->args[1]->number == 2)
    return value->args[0];
  return nullptr;
}

// s of s / count or s * (1 / count), as the type rounds that; nullptr.
ValuePtr Averaged(ValuePtr mean, int64_t count) {
  if (IsOp(mean, Op::kDiv)) {
    const ValuePtr by = mean->args[1];
    return IsNumber(by) && by->number == static_cast<double>(count) ? mean->args[0] : nullptr;
  }
  if (!IsOp(mean, Op::kMul)) return nullptr;
  const float share = 1.0f / static_cast<float>(count);
  for (int side : {0, 1}) {
    const ValuePtr by = mean->args[side];
    if (IsNumber(by) && static_cast<float>(by->number) == share) return mean->args[1 - side];
  }
  return nullptr;
}

}  // namespace

std::vector<CentredSquares> CentredSquaresOf(const graph::Graph& graph, const Domain& domain,
                                             const Kernel& kernel, int stage) {
  const auto is_sum = [&](const Kernel::Reduce& reduce) {
    // In fp64 sums of squares around 0 would be no better than the data.
    return graph.nodes[reduce.node].combiner == graph::Combiner::kSum &&
           reduce.value->type == graph::DType::kF32;
  };
  // The sum whose average over the row is `mean`, if that is subtracted from just what is summed.
  const auto sum_of = [&](ValuePtr mean, ValuePtr summed) {
    const ValuePtr result = Averaged(mean, domain.reduced());
    for (size_t i = 0; result != nullptr && i < kernel.reduces.size(); ++i) {
      const Kernel::Reduce& sum = kernel.reduces[i];
      if (result->kind == Value::Kind::kResult && result->node == sum.node &&
          sum.stage + 1 == stage && sum.value == summed && is_sum(sum))
        return static_cast<int>(i);
    }
    return -1;
  };
  std::vector<CentredSquares> all;
  for (size_t i = 0; i < kernel.reduces.size(); ++i) {
    const Kernel::Reduce& reduce = kernel.reduces[i];
    if (reduce.stage != stage) continue;
    const ValuePtr difference = is_sum(reduce) ? Squared(reduce.value) : nullptr;
    if (difference == nullptr || !IsOp(difference, Op::kSub)) return {};
    CentredSquares found;
    for (int side : {0, 1}) {  // v - mean, or mean - v
      const int sum = sum_of(difference->args[1 - side], difference->args[side]);
      if (sum >= 0) found = {sum, static_cast<int>(i), difference->args[1 - side]};
    }
    const auto same = [&](const CentredSquares& other) { return other.sum == found.sum; };
    if (found.sum < 0 || std::any_of(all.begin(), all.end(), same)) return {};
    all.push_back(found);
  }
  return all;
}

std::vector<int> JoinedStages(const graph::Graph& graph, const Domain& domain,
                              const Kernel& kernel) {
  std::vector<int> stages;
  for (int stage = 0; stage + 1 < domain.stages; ++stage) {
    if (CentredSquaresOf(graph, domain, kernel, stage + 1).empty()) continue;
    stages.push_back(stage);
    ++stage;
  }
  return stages;
}

}  // namespace warpsmith::codegen
