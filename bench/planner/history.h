// Tasks that were worked on before: events that a planner's log could hold, without the workers.
//
//   std::vector<v1::Event> events = FirstSlice(task, "incumbent", "batch", 40, gain, 0);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::bench {

// A task that nobody has worked on is granted, told a batch of trials and an incumbent, and ended
// in good order after the first slice. Blobs are digests.
std::vector<v1::Event> FirstSlice(const v1::Task& task, const std::string& incumbent_blob,
                                  const std::string& batch, int trials, double speedup,
                                  int64_t at_unix_ms);

}  // namespace warpsmith::bench
