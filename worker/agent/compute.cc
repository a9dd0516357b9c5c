// Compute: what a thread does. Loads in flight, online passes, outputs a window thread carries.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "compute";
constexpr int kMaxUnroll = 16;
constexpr int kMaxWindowOutputs = 32;

class Compute : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    for (int i = 0; i < state.groups.size(); ++i) {
      const auto& info = state.groups[i];
      const auto& now = info.resolved.compute();
      const double room = Room(state, i);
      if (info.can_online) {
        // One pass less over a row that does not fit; more arithmetic on one that does.
        AddMove(
            state, i, kName, "online", now.online() ? "yes" : "no", now.online() ? "no" : "yes",
            0.08 * room, [&](v1::Group& g) { g.mutable_compute()->set_online(!now.online()); },
            actions);
      }
      if (info.window) {
        for (int outputs : {8, 4, 16, 2, 1, kMaxWindowOutputs}) {
          if (outputs == now.window_outputs()) continue;
          Action* action = AddMove(
              state, i, kName, "window_outputs", absl::StrCat(now.window_outputs()),
              absl::StrCat(outputs), (outputs == 8 || outputs == 16 ? 0.3 : 0.15) * room,
              [&](v1::Group& g) { g.mutable_compute()->set_window_outputs(outputs); }, actions);
          if (action != nullptr) action->registers = outputs > now.window_outputs() ? 1 : -1;
        }
      }
      for (int unroll = 1; unroll <= kMaxUnroll; unroll *= 2) {
        if (unroll == now.unroll()) continue;
        // Neighbours first: too many loads in flight spill, too few wait.
        const bool near = unroll == 2 * now.unroll() || 2 * unroll == now.unroll();
        Action* action = AddMove(
            state, i, kName, "unroll", absl::StrCat(now.unroll()), absl::StrCat(unroll),
            (near ? 0.08 : 0.03) * room,
            [&](v1::Group& g) { g.mutable_compute()->set_unroll(unroll); }, actions);
        if (action != nullptr) action->registers = unroll > now.unroll() ? 1 : -1;
      }
    }
    return actions;
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeCompute() { return std::make_unique<Compute>(); }

}  // namespace warpsmith::agent
