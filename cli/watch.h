// Following a run to its end.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/command.h"

namespace warpsmith::cli {

// How often the planner is asked, and for how long it may be away before watching gives up.
inline constexpr absl::Duration kWatchInterval = absl::Milliseconds(500);
inline constexpr absl::Duration kWatchPatience = absl::Minutes(2);

// Shows progress on stderr (bars that are drawn again in place on a terminal, otherwise a line for
// each change) until the run is done, then prints its results on stdout: kDone, or kPartly if a
// task failed or was parked.
absl::StatusOr<int> WatchRun(const Context& context, Client& client, const std::string& run_id);

// What to tell whoever waits for a run whose queue no worker serves, or quarantined ones alone; "":
// one does. Pure.
std::string WaitsForWorker(const v1::ListReply& list);

// The picture of a run: what a terminal of this size shows. Pure.
std::string ProgressPicture(const v1::ListReply& list, double elapsed_seconds, int columns,
                            int lines, bool colour);
// Lines for what is new in `now`; `before` may be empty. Pure.
std::string ProgressLines(const v1::ListReply& before, const v1::ListReply& now,
                          double elapsed_seconds);

}  // namespace warpsmith::cli
