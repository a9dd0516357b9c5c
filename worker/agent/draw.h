// What a policy that draws says of its draw.
#pragma once

#include <vector>

namespace warpsmith::agent {

// A number drawn uniformly from [low, low + width].
struct Uniform {
  double low = 0, width = 0;
};

// The probability that number `which` of several independent draws is the largest, to about 1e-3.
// Of equals the first counts as the largest.
double ProbabilityOfLargest(const std::vector<Uniform>& draws, int which);

}  // namespace warpsmith::agent
