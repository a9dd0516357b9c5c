// Launch: how consecutive kernels follow each other.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "launch";
// Microseconds that a programmatic launch can hide between two kernels.
constexpr double kGapUs = 2.0;

const char* NameOf(const v1::LaunchKnobs& knobs) {
  return !knobs.programmatic() ? "no" : knobs.when_ended() ? "when ended" : "when begun";
}

class Launch : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    int kernels = std::max<int>(state.groups.size(), state.report.kernels_size());
    for (const auto& info : state.groups) {
      kernels += info.launches - 1;
    }
    if (kernels < 2) return {};
    std::vector<Action> actions;
    const double time_us = std::max(state.time_us, state.light_us);
    const double hidden = (kernels - 1) * kGapUs / std::max(time_us, kGapUs);
    const std::string from = NameOf(state.schedule.launch());
    for (const auto& [programmatic, when_ended] :
         {std::pair{false, false}, {true, false}, {true, true}}) {
      v1::LaunchKnobs knobs;
      knobs.set_programmatic(programmatic);
      knobs.set_when_ended(when_ended);
      Action action;
      action.to = NameOf(knobs);
      if (action.to == from) continue;
      action.from = from;
      action.specialist = kName;
      action.kind = "programmatic";
      action.name = absl::StrCat("programmatic launch: ", from, " -> ", action.to);
      action.key = absl::StrCat("programmatic=", action.to);
      action.schedule = state.schedule;
      *action.schedule.mutable_launch() = knobs;
      action.prior = !programmatic || time_us == 0 ? 0.005 : std::min(0.2, hidden);
      actions.push_back(std::move(action));
    }
    return actions;
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeLaunch() { return std::make_unique<Launch>(); }

}  // namespace warpsmith::agent
