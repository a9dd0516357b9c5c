// What a task wants of its worker, beside the architecture: labels, and memory.
//
// A worker has the labels (common/problem/label.h) that its operator gave it and one of its own,
// "oracle=pytorch" or "oracle=native", by what it compares with.
//
// Pure; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

struct Needs {
  std::vector<std::string> labels;  // sorted, each once
  int64_t bytes = 0;                // of the card

  auto operator<=>(const Needs&) const = default;
};

Needs NeedsOf(const v1::Run& run, const v1::Task& task);

bool Meets(const v1::WorkerInfo& worker, const Needs& needs);

// The memory that a task is taken to need which needs `bytes`: a little more, so that there are few
// different ones; 0 below a GiB, which every card has.
int64_t RoundedBytes(int64_t bytes);

// Equal for workers of one architecture that meet the same needs.
std::string KindOf(const v1::WorkerInfo& worker);

}  // namespace warpsmith::planner
