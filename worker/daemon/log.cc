#include "worker/daemon/log.h"

namespace warpsmith::daemon {
namespace {

using namespace told;  // NOLINT(google-build-using-namespace)

constexpr LogEvent kTable[] = {
    kStarted,     kListensHttp, kDraining,     kHurried,          kEnded,         kLeaseBegun,
    kLeaseDone,   kLeaseFailed, kInterrupting, kLeaseInterrupted, kWantedBack,    kFenced,
    kBetter,      kTrial,       kCardSick,     kCardDoubted,      kCardWell,      kXid,
    kXidOfKernel, kXidsUnseen,  kNoCard,       kCardsPassedOver,  kCardUnwatched, kLacks,
    kPlannerAway, kNotTaken,    kPlannerBack,  kSetAside,         kGivenWork,     kResultsRefused,
    kOutboxCut,   kOutboxAway,  kOutboxBack,   kOutboxReplayed,   kOutboxFull,    kOutboxUnread,
    kJudgeDied,   kJudgeSaid,   kCompilerSaid};

}  // namespace

absl::Span<const telemetry::LogEvent> WorkerLogTable() { return kTable; }

}  // namespace warpsmith::daemon
