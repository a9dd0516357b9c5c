// Lanes of a plan: its steps as streams and events carry them out, a stream for each lane, wherever
// it is run.
//
//   record the beginning in stream 0, and have each other stream wait for it
//   for each step, in its lane's stream:
//     wait for the ends of those in `after`
//     the step
//     where it is `awaited`, record its end
//   record the end of each other stream, and have stream 0 wait for it
//
// So it is right in a stream as in a capture, which all streams are part of from their first wait
// on and which the first has joined again when it ends. A plan of one lane needs none of this.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::problem {

inline constexpr int kMaxLanes = 4;  // of a plan

struct Turn {
  bool awaited = false;  // by a step of another lane
  // A kernel behind a kernel of its lane, and nothing that streams wait for is between them: it may
  // begin before that one has ended, if it is launched so.
  bool may_overlap = false;
};

struct Lanes {
  int count = 1;            // streams
  std::vector<Turn> turns;  // of each step
};

// InvalidArgument: a lane of kMaxLanes or above, or a step that waits for what is not an earlier
// step of another lane, or for more steps than there are other lanes.
absl::StatusOr<Lanes> LanesOf(const v1::Plan& plan);

}  // namespace warpsmith::problem
