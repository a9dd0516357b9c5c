// What the planner tells its log; docs/reference/log.md lists it.
//
// Events that the service decides are told as they are decided, a moment before they are durable: a
// planner whose commit fails ends. `revision` is an event's place in the store's log.
#pragma once

#include "absl/types/span.h"
#include "common/telemetry/log.h"
#include "planner/core/state.h"

namespace warpsmith::planner {

// Those of leading, of the store and of the process; what is decided stands in log.cc.
namespace told {

using telemetry::LogEvent;
using enum spdlog::level::level_enum;

inline constexpr LogEvent kListening = {"listening", info,
                                        "listening on {address}, state in {state}"};
inline constexpr LogEvent kListensHttp = {"listens_http", info, "metrics and health at {address}"};
inline constexpr LogEvent kListensPage = {"listens_page", info, "the page is at {address}"};
inline constexpr LogEvent kRestored = {
    "restored", info,
    "at revision {revision} (checkpoint of {checkpoint}): {runs} runs, {tasks} tasks, {workers} "
    "workers"};
inline constexpr LogEvent kEnding = {"ending", info, "{signal}: shutting down"};
inline constexpr LogEvent kEnded = {"ended", info, "ended"};
inline constexpr LogEvent kLeads = {"leads", info, "leads, epoch {epoch}"};
inline constexpr LogEvent kFollows = {"follows", info, "{leader} leads, this planner follows",
                                      "epoch"};
inline constexpr LogEvent kCaughtUp = {"caught_up", info, "follows, at revision {revision}"};
inline constexpr LogEvent kDeposed = {"deposed", warn, "{reason}: begins anew"};
inline constexpr LogEvent kResigned = {"resigned", info, "leads no more, epoch {epoch}: resigned"};
inline constexpr LogEvent kNotResigned = {"not_resigned", warn, "did not resign: {reason}",
                                          "epoch"};
inline constexpr LogEvent kStoreAway = {"store_away", err,
                                        "the store does not answer, waiting: {reason}"};
inline constexpr LogEvent kStoreBack = {"store_back", info, "the store answers again"};
inline constexpr LogEvent kCommitsStall = {"commits_stall", err,
                                           "the store takes no writes, trying on: {reason}"};
inline constexpr LogEvent kCommitsGoOn = {"commits_go_on", info, "the store takes writes again"};
inline constexpr LogEvent kCheckpoint = {"checkpoint", debug, "checkpoint at revision {revision}",
                                         "entries"};
inline constexpr LogEvent kNoCheckpoint = {"no_checkpoint", warn,
                                           "no checkpoint at revision {revision}: {reason}"};
inline constexpr LogEvent kCollected = {
    "collected", info,
    "{removed} blobs of {bytes} bytes that nothing named are removed; of the others {named} are "
    "named, {unnamed} not"};
inline constexpr LogEvent kWalked = {
    "walked", debug, "of the store's blobs {named} are named, {unnamed} not; {removed} are removed",
    "bytes"};
inline constexpr LogEvent kNotCollected = {"not_collected", warn,
                                           "blobs that nothing names stay for now: {reason}"};
inline constexpr LogEvent kDamaged = {"task_damaged", err, "task {task} is held: {reason}", "run"};
inline constexpr LogEvent kBoard = {"board", info, "the board: {text}"};
inline constexpr LogEvent kBoardFailed = {"board_failed", err, "the board: {reason}"};

}  // namespace told

// All that has a name.
absl::Span<const telemetry::LogEvent> PlannerLogTable();

// "handed_back": for programs, as in the metrics.
std::string WordOf(v1::Cause cause);

// Events that were decided together, after they were applied to `state`.
void TellDecided(absl::Span<const v1::Event> events, const State& state);

}  // namespace warpsmith::planner
