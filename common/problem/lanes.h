// Lanes of a plan: its steps as streams and events carry them out, a stream for each lane, wherever
// it is run.
//
//   record the plan's beginning in stream 0
//   for each step, in its lane's stream:
//     where it `begins`, wait for the plan's beginning; wait for the ends of those in `after`
//     the step
//     where it is `awaited`, record its end
//   in stream 0, wait for the ends of `last`
//
// A plan of one lane needs none of this.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::problem {

inline constexpr int kMaxLanes = 4;  // of a plan

struct Turn {
  bool begins = false;   // the first of a lane other than 0
  bool awaited = false;  // by a step of another lane, or by the plan's end
  // A kernel behind a kernel of its lane, and nothing that streams wait for is between them: it may
  // begin before that one has ended, if it is launched so.
  bool may_overlap = false;
};

struct Lanes {
  int count = 1;            // streams
  std::vector<Turn> turns;  // of each step
  std::vector<int> last;    // the last step of each lane other than 0 that has any

  bool beside() const { return !last.empty(); }  // of more lanes than one
};

// InvalidArgument: a lane of kMaxLanes or above, or a step that waits for what is not an earlier
// step of another lane, or for more steps than there are other lanes.
absl::StatusOr<Lanes> LanesOf(const v1::Plan& plan);

}  // namespace warpsmith::problem
