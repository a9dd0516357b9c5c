// Precision: accumulators of floating-point sums, and approximate functions. The judge holds the
// result to the accuracy of what is replaced, so both directions are worth a try: cheaper, and more
// accurate where the cheap one is refused.
#include <algorithm>

#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "precision";
// Operations a byte from which arithmetic may be what limits.
constexpr double kArithmeticHeavy = 4.0;

const char* NameOf(v1::Accumulator accumulator) {
  switch (accumulator) {
    case v1::ACCUMULATOR_F32:
      return "f32";
    case v1::ACCUMULATOR_COMPENSATED:
      return "compensated f32";
    case v1::ACCUMULATOR_F64:
      return "f64";
    default:
      return "automatic";
  }
}

// How much an accumulator keeps.
int RankOf(v1::Accumulator accumulator) {
  switch (accumulator) {
    case v1::ACCUMULATOR_COMPENSATED:
      return 1;
    case v1::ACCUMULATOR_F64:
      return 2;
    default:
      return 0;
  }
}

// What is expected of it: fp32 is the cheapest; fp64 is surer than compensation and needs fewer
// operations.
double PriorOf(v1::Accumulator accumulator) {
  switch (accumulator) {
    case v1::ACCUMULATOR_F32:
      return 0.03;
    case v1::ACCUMULATOR_F64:
      return 0.004;
    default:
      return 0.002;
  }
}

// Other combiners and integers have no accumulator to choose.
bool Accumulates(const graph::Node& node) {
  return node.reduce && graph::IsFloat(node.value->type) && node.combiner == graph::Combiner::kSum;
}

class Precision : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    const auto& nodes = state.graph.nodes;
    const bool accumulates = std::any_of(nodes.begin(), nodes.end(), Accumulates);
    for (int i = 0; i < state.groups.size(); ++i) {
      const auto& info = state.groups[i];
      const auto& now = info.resolved.precision();
      const double bytes = std::max<double>(1.0, info.bytes_read + info.bytes_written);
      const double room = Room(state, i);
      if (info.transcendental > 0) {
        const bool heavy =
            info.transcendental / bytes * 16 + info.operations / bytes > kArithmeticHeavy;
        Action* action = AddMove(
            state, i, kName, "fast_math", now.fast_math() ? "yes" : "no",
            now.fast_math() ? "no" : "yes", (heavy ? 0.15 : 0.05) * room,
            [&](v1::Group& g) { g.mutable_precision()->set_fast_math(!now.fast_math()); }, actions);
        if (action != nullptr) action->accuracy = now.fast_math() ? 1 : -1;
      }
      if (!accumulates || (info.stages == 0 && !info.window)) continue;
      for (auto accumulator :
           {v1::ACCUMULATOR_F32, v1::ACCUMULATOR_COMPENSATED, v1::ACCUMULATOR_F64}) {
        if (accumulator == now.accumulator()) continue;
        Action* action = AddMove(
            state, i, kName, "accumulator", NameOf(now.accumulator()), NameOf(accumulator),
            PriorOf(accumulator) * room,
            [&](v1::Group& g) { g.mutable_precision()->set_accumulator(accumulator); }, actions);
        if (action == nullptr) continue;
        action->accuracy = RankOf(accumulator) > RankOf(now.accumulator()) ? 1 : -1;
      }
    }
    return actions;
  }
};

}  // namespace

std::unique_ptr<Specialist> MakePrecision() { return std::make_unique<Precision>(); }

}  // namespace warpsmith::agent
