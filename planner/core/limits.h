// How much of what requests say goes into the log and the state. An event that is too large for the
// store would end the planner, after it was applied.
#pragma once

#include <cstddef>

namespace warpsmith::planner {

// Bytes. Names of things are refused if they are longer, of trials and requests too.
inline constexpr size_t kMaxNameBytes = 200;
// What is said to people (reasons, actions, what a device calls itself) is cut, and whole in the
// blobs, where it comes with a result.
inline constexpr size_t kMaxLabelBytes = 200;
inline constexpr size_t kMaxTextBytes = 2'000;
// Of the one event whose size grows with the request, a run's submission.
inline constexpr size_t kMaxRunBytes = size_t{15} << 20;

}  // namespace warpsmith::planner
