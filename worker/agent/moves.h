// Helpers with which specialists build their actions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/agent/specialist.h"

namespace warpsmith::agent {

// The name by which people know a group: its first root.
std::string GroupName(const v1::Group& group);
// What group `group` runs on, "contract".
std::string SkeletonOf(const State& state, int group);

// Appends the move that `edit` makes on group `index`, unless it changes nothing, is there already,
// or would be refused. Gives it, until the next one is appended, or nullptr. `edit` gets a group of
// the skeleton that it runs on.
//   kind "unroll", to "4": key "y map unroll=4", name "group y: unroll 2 -> 4" if `from` is "2",
//   and "group y: unroll 4" if it is empty.
Action* AddMove(const State& state, int index, const char* specialist, const std::string& kind,
                const std::string& from, const std::string& to, double prior,
                const std::function<void(v1::Group&)>& edit, std::vector<Action>& actions);

// What the estimate says of a move to that state, in log time; half of it is believed, and not what
// is beyond that of a good move.
double EstimatedGain(const State& state, const State& to);
// The same of a schedule; 0 if it is none for this problem.
double EstimatedGain(const State& state, const v1::Schedule& schedule);

// Serialised so that equal schedules give equal bytes.
std::string Bytes(const google::protobuf::MessageLite& message);

}  // namespace warpsmith::agent
