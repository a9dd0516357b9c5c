#include "common/problem/lanes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpsmith::problem {

namespace {

absl::Status CheckStep(const v1::Plan& plan, int step) {
  const auto bad = [step](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("step ", step, ": ", parts...));
  };
  const v1::Step& it = plan.steps(step);
  if (it.lane() >= kMaxLanes)
    return bad("lane ", it.lane(), "; a plan has lanes 0 to ", kMaxLanes - 1);
  if (it.after_size() >= kMaxLanes)
    return bad("it waits for ", it.after_size(), " steps, at most ", kMaxLanes - 1,
               "; name the last one of each other lane");
  for (const uint32_t before : it.after()) {
    if (before >= static_cast<uint32_t>(step))
      return bad("it waits for step ", before,
                 ", which is not before it; name earlier steps of other lanes");
    if (plan.steps(static_cast<int>(before)).lane() == it.lane())
      return bad("it waits for step ", before, " of its own lane, ", it.lane(),
                 ", which has ended anyway; name steps of other lanes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Lanes> LanesOf(const v1::Plan& plan) {
  Lanes lanes;
  lanes.turns.resize(plan.steps_size());
  for (int i = 0; i < plan.steps_size(); ++i) {
    if (absl::Status status = CheckStep(plan, i); !status.ok()) return status;
    const v1::Step& step = plan.steps(i);
    lanes.count = std::max(lanes.count, static_cast<int>(step.lane()) + 1);
    for (const uint32_t before : step.after()) lanes.turns[before].awaited = true;
  }
  std::vector<int> last(lanes.count, -1);  // by lane
  for (int i = 0; i < plan.steps_size(); ++i) {
    const v1::Step& step = plan.steps(i);
    const int before = std::exchange(last[step.lane()], i);
    lanes.turns[i].may_overlap = before >= 0 && step.has_launch() &&
                                 plan.steps(before).has_launch() && step.after().empty() &&
                                 !lanes.turns[before].awaited;
  }
  return lanes;
}

}  // namespace warpsmith::problem
