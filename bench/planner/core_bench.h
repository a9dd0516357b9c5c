// What the planner's core takes for one command, without sockets and without a store.
#pragma once

#include <vector>

namespace warpsmith::bench {

// Prints a table: a line for each number of tasks, all of them queued for one architecture, half of
// them tried before, with `workers` workers that each hold a lease. Times are of the process's
// processor, microseconds, means of as many commands as fit into about a second.
void MeasureCore(const std::vector<int>& tasks, int workers);

}  // namespace warpsmith::bench
