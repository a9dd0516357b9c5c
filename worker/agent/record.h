// What a trial says so that others can learn from it: the move, the schedule as it was resolved,
// and what the group that changed is against the card. docs/reference/trials.md has every field.
#pragma once

#include <string>

#include "warpsmith/v1/trial.pb.h"
#include "worker/agent/specialist.h"
#include "worker/agent/state.h"

namespace warpsmith::agent {

// The schedule of a state with every knob as code generation uses it.
v1::Schedule Resolved(const State& state);

// A group of a state against its card. Registers are the compiler's where it has spoken
// (state.report), else code generation's estimate. Empty where there is no such group.
v1::GroupFeatures FeaturesOf(const State& state, int group);

// Fills in what is known of a proposal before it is lowered: move, specialist, action, the plan as
// a whole, the group before.
void RecordProposal(const State& from, const Action& action, v1::Trial& trial);
// Fills in what its schedule has become: resolved, the group after. With `from`, also which numbers
// the knobs that it set have now.
void RecordResult(const State* from, const State& after, v1::Trial& trial);

}  // namespace warpsmith::agent
