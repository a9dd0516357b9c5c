// A task in full, for the page: its kernel's source, its gains in order, its baselines, and what
// became of its trials. Pure; any thread.
#pragma once

#include <string>

#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::web {

// Of a task's gains the newest, and of a kernel's source the beginning.
inline constexpr size_t kMaxGainsShown = 2'000;
inline constexpr size_t kMaxSourceBytes = 1 << 20;

// JSON; `reply` has the trials.
std::string DetailOf(const v1::GetTaskReply& reply);

}  // namespace warpsmith::web
