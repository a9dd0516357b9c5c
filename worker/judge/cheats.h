// A set of hand-written candidates, honest and not, that a judge has to tell apart. The tests run
// it on the host device, `warpsmith-judge --self-check` on a card.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/judge.pb.h"
#include "worker/device/device.h"

namespace warpsmith::judge {

struct Cheat {
  std::string name;
  std::string problem;  // of CheatProblem
  v1::Plan plan;
  std::vector<v1::Verdict> expected;  // any of these catches it
  std::string reason;                 // part of what the verdict has to say; empty: anything
  bool maps = false;                  // only a device with tensor maps can run it
};

// "gate" (pointwise, with a weight), "constant gate" (the same, and the weight is one), "rows"
// (sums), "running" (a state) and "largest" (an index).
v1::Problem CheatProblem(const std::string& name);
// An honest plan for the problem; `work` > 0 makes it that much slower.
v1::Plan HonestPlan(const std::string& problem, int work);
std::vector<Cheat> Cheats();

}  // namespace warpsmith::judge
