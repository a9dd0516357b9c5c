// What the states of tasks mean.
#pragma once

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::problem {

// It has come to its end: only a person has it worked on again.
inline bool IsOver(v1::TaskState state) {
  return state == v1::CONVERGED || state == v1::PARKED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

// Nothing is done on it; a run of such is done. Of a held one more is expected.
inline bool IsAtRest(v1::TaskState state) { return IsOver(state) || state == v1::HELD; }

}  // namespace warpsmith::problem
