#include "worker/device/host_order.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/problem/lanes.h"

namespace warpsmith::device {

namespace {

std::vector<int> LanesByTurn(const v1::Plan& plan, uint64_t seed) {
  std::vector<int> lanes(problem::kMaxLanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  std::mt19937_64 random(static_cast<uint64_t>(plan.steps_size()) << 32 | (seed + 1) / 2);
  for (size_t i = lanes.size(); i > 1; --i) std::swap(lanes[i - 1], lanes[random() % i]);
  if (seed % 2 == 0) std::reverse(lanes.begin(), lanes.end());
  return lanes;
}

}  // namespace

std::vector<int> StepOrder(const v1::Plan& plan, uint64_t seed) {
  std::vector<int> order;
  if (seed == 0) {
    order.resize(plan.steps_size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::vector<std::vector<int>> left(problem::kMaxLanes);  // by lane, the next one last
  for (int i = plan.steps_size() - 1; i >= 0; --i) left[plan.steps(i).lane()].push_back(i);
  std::vector<bool> ended(plan.steps_size(), false);
  const auto can_go_on = [&](int lane) {
    if (left[lane].empty()) return false;
    const auto& after = plan.steps(left[lane].back()).after();
    return std::all_of(after.begin(), after.end(), [&](uint32_t before) { return ended[before]; });
  };
  const std::vector<int> lanes = LanesByTurn(plan, seed);
  while (order.size() < ended.size()) {
    // There is one: the first in the plan's order of those that are left waits for none of them.
    const int lane = *std::find_if(lanes.begin(), lanes.end(), can_go_on);
    order.push_back(left[lane].back());
    ended[left[lane].back()] = true;
    left[lane].pop_back();
  }
  return order;
}

}  // namespace warpsmith::device
