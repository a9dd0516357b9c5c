#include "worker/agent/draw.h"

#include <algorithm>

namespace warpsmith::agent {
namespace {

constexpr int kSteps = 1024;  // of the integral

// That every other draw is below `value`, which number `which` has.
double AllBelow(const std::vector<Uniform>& draws, int which, double value) {
  double probability = 1;
  for (int i = 0; i < static_cast<int>(draws.size()) && probability > 0; ++i) {
    if (i == which) continue;
    const auto& [low, width] = draws[i];
    if (width > 0) {
      probability *= std::clamp((value - low) / width, 0.0, 1.0);
    } else if (low > value || (low == value && i < which)) {
      return 0;
    }
  }
  return probability;
}

}  // namespace

double ProbabilityOfLargest(const std::vector<Uniform>& draws, int which) {
  const auto& [low, width] = draws[which];
  if (width <= 0) return AllBelow(draws, which, low);
  // Below the highest of the lower ends it cannot win.
  double from = low;
  for (const Uniform& draw : draws) from = std::max(from, draw.low);
  const double step = (low + width - from) / kSteps;
  if (step <= 0) return 0;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += AllBelow(draws, which, from + (i + 0.5) * step);
  return std::min(1.0, sum * step / width);  // rounding may take it beyond
}

}  // namespace warpsmith::agent
