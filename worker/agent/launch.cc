// Launch: how kernels follow each other, or run beside each other.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "launch";
// Microseconds between two kernels that a programmatic launch can hide, and so can a kernel that
// runs meanwhile.
constexpr double kGapUs = 2.0;
constexpr double kUnlikely = 0.005, kMost = 0.2;  // priors

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
    const std::string from = NameOf(state.schedule.launch());
    for (const auto& [programmatic, when_ended] :
         {std::pair{false, false}, {true, false}, {true, true}}) {
      v1::LaunchKnobs knobs = state.schedule.launch();
      knobs.set_programmatic(programmatic);
      knobs.set_when_ended(when_ended);
      if (NameOf(knobs) == from) continue;
      actions.push_back(
          Move(state, "programmatic", "programmatic launch", from, NameOf(knobs), knobs));
      if (programmatic) actions.back().prior = Hidden(state, kernels - 1);
    }
    const bool branches = state.schedule.launch().branches();
    const int beside = state.described->describer.GroupsBesideOthers(state.schedule);
    if (beside > 0) {
      v1::LaunchKnobs knobs = state.schedule.launch();
      knobs.set_branches(!branches);
      actions.push_back(Move(state, "branches", "kernels beside each other",
                             branches ? "yes" : "no", branches ? "no" : "yes", knobs));
      if (!branches) actions.back().prior = Hidden(state, beside);
    }
    return actions;
  }

 private:
  static Action Move(const State& state, const std::string& kind, const std::string& what,
                     const std::string& from, const std::string& to, const v1::LaunchKnobs& knobs) {
    Action action;
    action.specialist = kName;
    action.kind = kind;
    action.name = absl::StrCat(what, ": ", from, " -> ", to);
    action.key = absl::StrCat(kind, "=", to);
    action.from = from;
    action.to = to;
    action.schedule = state.schedule;
    *action.schedule.mutable_launch() = knobs;
    action.prior = kUnlikely;
    return action;
  }

  // What is expected where so many kernels no longer wait for the ones before them.
  static double Hidden(const State& state, int kernels) {
    const double time_us = std::max(state.time_us, state.light_us);
    return time_us == 0 ? kUnlikely : std::min(kMost, kernels * kGapUs / std::max(time_us, kGapUs));
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeLaunch() { return std::make_unique<Launch>(); }

}  // namespace warpsmith::agent
