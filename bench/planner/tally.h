// What simulated workers saw, of one process or of all together.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace warpsmith::bench {

// What a planner said is durable, and what it may hold beside that (sent, and not answered).
struct TaskTally {
  int64_t trials = 0;
  int64_t trials_sent = 0;
  double speedup = 0;  // highest
  double speedup_sent = 0;
};

struct Tally {
  // "name": count, within the window unless it says otherwise.
  std::map<std::string, int64_t> counts;
  // Of calls answered within the window, from when they were due to their answer, repetitions
  // included, and of those that were due and not answered at its end, their age. Microseconds.
  std::vector<int64_t> latency_us;
  int64_t last_moved_us = 0;               // when the last worker was answered by another planner
  int64_t asked_sync_ms = 0;               // the longest next_sync_after_ms
  std::map<std::string, TaskTally> tasks;  // all, not of the window alone
  std::vector<std::string> first_errors;   // one of each kind

  void Merge(Tally other);
  // A line a fact; read back by Read.
  std::string Write() const;
  static Tally Read(const std::string& text);
};

// 0 <= share <= 1; of an empty list 0. Sorts.
int64_t Percentile(std::vector<int64_t>& values, double share);

}  // namespace warpsmith::bench
