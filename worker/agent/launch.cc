// Launch: how consecutive kernels follow each other.
#include <algorithm>

#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "launch";
// Microseconds that a programmatic launch can hide between two kernels.
constexpr double kGapUs = 2.0;

class Launch : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    int kernels = std::max<int>(state.groups.size(), state.report.kernels_size());
    for (const auto& info : state.groups) {
      kernels += info.launches - 1;
    }
    if (kernels < 2) return {};
    const bool now = state.schedule.launch().programmatic();
    Action action;
    action.specialist = kName;
    action.kind = "programmatic";
    action.name = now ? "programmatic launch: yes -> no" : "programmatic launch: no -> yes";
    action.key = now ? "programmatic=no" : "programmatic=yes";
    action.from = now ? "yes" : "no";
    action.to = now ? "no" : "yes";
    action.schedule = state.schedule;
    action.schedule.mutable_launch()->set_programmatic(!now);
    const double time_us = std::max(state.time_us, state.light_us);
    const double hidden = (kernels - 1) * kGapUs / std::max(time_us, kGapUs);
    action.prior = now || time_us == 0 ? 0.005 : std::min(0.2, hidden);
    return {action};
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeLaunch() { return std::make_unique<Launch>(); }

}  // namespace warpsmith::agent
