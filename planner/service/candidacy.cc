#include "planner/service/candidacy.h"

#include "common/store/store.h"
#include "planner/service/log.h"

namespace warpsmith::planner {

bool Watch::Sees(const store::Standing& standing, int64_t now_ms) {
  const bool moved = !seen_ || standing.epoch != epoch_ || standing.beat != beat_;
  moves_ |= moved && seen_;
  seen_ = true;
  epoch_ = standing.epoch;
  beat_ = standing.beat;
  if (moved) since_ms_ = now_ms;
  return standing.leader.empty() || now_ms - since_ms_ >= kSilenceMs;
}

Candidacy::Next Candidacy::End(Next how, const absl::Status& why) {
  why_ = why;
  return how;
}

Candidacy::Next Candidacy::LookAgain(const absl::Status& status) {
  Answers(status);
  watch_.SeesNothing();
  return kLook;
}

void Candidacy::Answers(const absl::Status& status) {
  if (status.ok() == !store_away_) return;
  store_away_ = !status.ok();
  if (store_away_) {
    telemetry::Log(told::kStoreAway, {{"reason", status.message()}});
  } else {
    telemetry::Log(told::kStoreBack, {});
  }
}

Candidacy::Next Candidacy::Looked(const absl::StatusOr<store::Standing>& standing, int64_t now_ms) {
  if (absl::IsFailedPrecondition(standing.status()) || absl::IsDataLoss(standing.status())) {
    return End(kFatal, standing.status());
  }
  if (!standing.ok()) return LookAgain(standing.status());
  Answers(absl::OkStatus());
  if (standing->leader != leader_ && !standing->leader.empty()) {
    telemetry::Log(told::kFollows, {{"leader", standing->leader}, {"epoch", standing->epoch}});
  }
  leader_ = standing->leader;
  const bool over = watch_.Sees(*standing, now_ms);
  const absl::Status caught_up = planner_->CatchUp(*standing);
  if (absl::IsOutOfRange(caught_up) || absl::IsFailedPrecondition(caught_up)) {
    return End(kDeposed, caught_up);
  }
  if (absl::IsDataLoss(caught_up)) return End(kFatal, caught_up);
  if (!caught_up.ok()) return LookAgain(caught_up);
  if (!over) return kLook;
  seen_ = *standing;
  return kTakeOver;
}

Candidacy::Next Candidacy::TookOver(const absl::StatusOr<int64_t>& epoch, int64_t asked_ms) {
  if (store::IsStaleEpoch(epoch.status())) return kLook;  // another one was quicker
  if (absl::IsDataLoss(epoch.status())) return End(kFatal, epoch.status());
  if (!epoch.ok()) return LookAgain(epoch.status());
  if (absl::Status led = planner_->Lead(*epoch, asked_ms); !led.ok()) {
    // It was made the leader, and could not begin.
    return End(absl::IsDataLoss(led) ? kFatal : kDeposed, led);
  }
  leads_ = true;
  epoch_ = *epoch;
  confirmed_ms_ = asked_ms;
  telemetry::Log(told::kLeads, {{"epoch", epoch_}});
  return kBeat;
}

Candidacy::Next Candidacy::Beaten(const absl::Status& moved, int64_t sent_ms) {
  if (absl::IsFailedPrecondition(moved) || absl::IsDataLoss(moved)) {
    return End(store::IsStaleEpoch(moved) ? kDeposed : kFatal, moved);
  }
  Answers(moved);
  answered_ = moved.ok();
  if (!moved.ok()) return kBeat;
  confirmed_ms_ = sent_ms;
  planner_->Confirm(sent_ms);
  return kBeat;
}

bool Candidacy::Doubts(int64_t now_ms) const {
  return !answered_ && now_ms - confirmed_ms_ >= kUnconfirmedMs;
}

Candidacy::Next Candidacy::LookedAgain(const absl::StatusOr<store::Standing>& standing) {
  if (absl::IsFailedPrecondition(standing.status()) || absl::IsDataLoss(standing.status())) {
    return End(kFatal, standing.status());
  }
  answered_ = standing.ok();
  if (standing.ok() && standing->epoch != epoch_) {
    return End(kDeposed, store::StaleEpoch(epoch_, standing->epoch));
  }
  return kBeat;
}

}  // namespace warpsmith::planner
