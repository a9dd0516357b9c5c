#include "planner/service/outlook.h"

#include <algorithm>
#include <cmath>

#include "planner/core/allocator.h"

namespace warpsmith::planner {
namespace {

// How much quicker it would be at the speed of light, in log time.
double Room(const v1::Task& task) {
  const double light = task.light_us(), device = task.best_us();
  if (light <= 0 || device <= light) return 0;
  const double launching = std::max(0.0, task.graph_us() - device);
  return std::log((launching + device) / (launching + light));
}

}  // namespace

Outlook OutlookOf(const v1::Task& task) {
  if (task.incumbent_blob().empty() || task.speedup() <= 0) return {};
  const double speedup = std::log(task.speedup()), room = Room(task);
  const double gain = GoesOn(task) ? std::min(ExpectedGainOfRest(task), room) : 0;
  return {.reached = std::max(0.0, speedup),
          .expected = std::max(0.0, speedup + gain),
          .limit = std::max(0.0, speedup + room)};
}

}  // namespace warpsmith::planner
