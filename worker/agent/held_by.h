// What is believed to keep a plan from the speed of light: one phrase, from where its time goes.
//
//   HeldBy(state, 12.3, profile, 0)
//     == "kernel y (83 % of the time): latency: 0.4 waves of blocks"
//
// A belief, made to tell people and learners where to look: the first rule of a short list that
// fits, from counters where there are some, else from what code generation and the compiler know.
// Pure.
#pragma once

#include <string>

#include "warpsmith/v1/trial.pb.h"
#include "worker/agent/state.h"

namespace warpsmith::agent {

// `state`: of the plan's schedule, for the workload with number `workload`. `time_us`: of one run
// on the device. `profile`: its kernels'; may be empty. Empty: nothing is known, not even a time.
std::string HeldBy(const State& state, double time_us, const v1::Profile& profile, int workload);

}  // namespace warpsmith::agent
