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

Outlook OutlookOf(const v1::TaskRecord& record) {
  const v1::Task& task = record.task();
  if (task.incumbent_blob().empty() || task.speedup() <= 0) return {};
  const double speedup = std::log(task.speedup()), limit = speedup + Room(task);
  const bool under_way = task.state() == v1::LEASED && record.slice_speedup() > 0;
  const double before = under_way ? std::log(record.slice_speedup()) : speedup;
  const double hoped = before + (GoesOn(task) ? ExpectedGainOfRest(task) : 0);
  return {.reached = std::max(0.0, speedup),
          .expected = std::max(0.0, std::clamp(hoped, speedup, limit)),
          .limit = std::max(0.0, limit)};
}

}  // namespace warpsmith::planner
