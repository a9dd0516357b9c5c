// What a worker tells its log; docs/reference/log.md lists it.
#pragma once

#include "absl/types/span.h"
#include "common/telemetry/log.h"

namespace warpsmith::daemon {

namespace told {

using telemetry::LogEvent;
using enum spdlog::level::level_enum;

// The process.
inline constexpr LogEvent kStarted = {
    "started", info, "worker {name} on {device} ({arch}), {compile_jobs} compile jobs"};
inline constexpr LogEvent kListensHttp = {"listens_http", info, "metrics and health at {address}"};
inline constexpr LogEvent kDraining = {"draining", info,
                                       "{signal}: telling the planner and ending"};
inline constexpr LogEvent kHurried = {"hurried", warn, "ending without waiting any longer"};
inline constexpr LogEvent kEnded = {"ended", info, "ended in good order"};
// The lease.
inline constexpr LogEvent kLeaseBegun = {"lease_begun", info,
                                         "lease {lease}: {task} for {seconds} s",
                                         "run, fence, revision, why, start"};
inline constexpr LogEvent kLeaseDone = {
    "lease_done", info,
    "lease {lease}: {reason} after {seconds} s, {trials} trials, {judged} judged, first plan after "
    "{first_plan_seconds} s[; held by {held_by}]",
    "run, task, converged"};
inline constexpr LogEvent kLeaseFailed = {
    "lease_failed", warn, "lease {lease}: failed {how}: {reason}", "run, task, seconds"};
inline constexpr LogEvent kInterrupting = {
    "lease_interrupting", warn,
    "the lease is ended, and what it finds from here on is not told: {reason}", "lease"};
inline constexpr LogEvent kLeaseInterrupted = {
    "lease_interrupted", info, "lease {lease}: interrupted after {seconds} s: {reason}",
    "run, task"};
inline constexpr LogEvent kWantedBack = {"lease_wanted_back", info,
                                         "the planner wants the lease back", "lease"};
inline constexpr LogEvent kFenced = {
    "lease_fenced", warn, "no answer from the planner for the time of the lease: stopping its work",
    "lease"};
inline constexpr LogEvent kBetter = {
    "incumbent_found", info,
    "trial {trial} is the best: {best_us} us, {speedup} times the baseline",
    "run, task, lease, specialist, action"};
inline constexpr LogEvent kTrial = {"trial", debug, "trial {trial}: {verdict}[: {reason}]",
                                    "run, task, lease, parent, specialist, action, seconds"};
// Its card.
inline constexpr LogEvent kCardSick = {"card_sick", err, "the card: {reason}"};
inline constexpr LogEvent kCardDoubted = {"card_doubted", warn, "the card: {reason}"};
inline constexpr LogEvent kCardWell = {"card_well", info, "the card is well again"};
inline constexpr LogEvent kXid = {"card_xid", warn, "the card reports {text}", "xid"};
inline constexpr LogEvent kXidOfKernel = {"card_xid", info, "the card reports {text}", "xid"};
inline constexpr LogEvent kXidsUnseen = {"card_xids_unseen", warn,
                                         "Xid errors are not seen from here on: {reason}"};
inline constexpr LogEvent kNoCard = {"no_card", info, "{reason}"};
inline constexpr LogEvent kCardsPassedOver = {"cards_passed_over", warn, "{reason}"};
inline constexpr LogEvent kCardUnwatched = {"card_unwatched", warn, "{reason}"};
inline constexpr LogEvent kLacks = {"lacks", warn, "{reason}"};
// Its planner.
inline constexpr LogEvent kPlannerAway = {"planner_away", warn,
                                          "no answer from the planner, going on without: {reason}"};
inline constexpr LogEvent kNotTaken = {"not_taken", warn,
                                       "the planner does not take this worker yet: {reason}"};
inline constexpr LogEvent kPlannerBack = {"planner_back", info, "the planner answers again"};
inline constexpr LogEvent kSetAside = {"set_aside", err,
                                       "the planner gives this worker nothing: {reason}"};
inline constexpr LogEvent kGivenWork = {"given_work", info,
                                        "the planner gives this worker work again"};
inline constexpr LogEvent kResultsRefused = {
    "results_refused", err,
    "the planner refuses {batches} batches of results, which are lost: {reason}"};
// What waits for it.
inline constexpr LogEvent kOutboxReplayed = {
    "outbox_replayed", info, "outbox: {batches} batches of before, {bytes} bytes, for the planner"};
inline constexpr LogEvent kOutboxCut = {
    "outbox_cut", warn, "outbox: the last {cut} of {bytes} bytes are not whole and are cut off"};
inline constexpr LogEvent kOutboxAway = {
    "outbox_away", warn, "outbox: {reason}; results are kept in memory until it can be written"};
inline constexpr LogEvent kOutboxBack = {"outbox_back", info, "outbox: the file is written again"};
inline constexpr LogEvent kOutboxUnread = {"outbox_unread", err, "outbox: {reason}"};
inline constexpr LogEvent kOutboxFull = {
    "outbox_full", warn, "outbox: {bytes} bytes wait for the planner: no more trials are kept"};
// Its children.
inline constexpr LogEvent kJudgeDied = {"judge_died", warn, "the judge died: {reason}",
                                        "run, task, lease, trial"};
inline constexpr LogEvent kJudgeSaid = {"judge_said", warn, "{text}", "run, task, lease"};
inline constexpr LogEvent kCompilerSaid = {"compiler_said", warn, "{text}", "run, task, lease"};

}  // namespace told

absl::Span<const telemetry::LogEvent> WorkerLogTable();

}  // namespace warpsmith::daemon
