#include "planner/service/candidate.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

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

Candidate::Candidate(Planner* planner, store::Leadership* leadership, std::string address,
                     std::function<int64_t()> now_ms, Callbacks callbacks)
    : planner_(planner),
      leadership_(leadership),
      address_(std::move(address)),
      now_ms_(std::move(now_ms)),
      callbacks_(std::move(callbacks)) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "candidate");
}

Candidate::~Candidate() { Stop(); }

void Candidate::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Candidate::Resign() {
  if (epoch_ == 0) return;
  const absl::Status resigned = leadership_->Resign(epoch_);
  if (!resigned.ok()) spdlog::warn("did not resign: {}", std::string(resigned.message()));
}

void Candidate::Run() {
  while (epoch_ == 0 ? Look() : Beat()) {
    absl::MutexLock lock(&mutex_);
    const absl::Duration pause = epoch_ == 0 ? kBetweenLooks : kBetweenBeats;
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), pause)) return;
  }
}

void Candidate::Answers(const absl::Status& status) {
  if (status.ok() == !store_away_) return;
  store_away_ = !status.ok();
  if (store_away_) {
    spdlog::error("the store does not answer, waiting: {}", std::string(status.message()));
  } else {
    spdlog::info("the store answers again");
  }
}

bool Candidate::Look() {
  const absl::StatusOr<store::Standing> standing = leadership_->Look();
  if (absl::IsFailedPrecondition(standing.status()) || absl::IsDataLoss(standing.status())) {
    callbacks_.on_fatal(standing.status());
    return false;
  }
  Answers(standing.status());
  if (!standing.ok()) {
    watch_.SeesNothing();
    return true;
  }
  if (standing->leader != leader_ && !standing->leader.empty()) {
    spdlog::info("{} leads, this planner follows", standing->leader);
  }
  leader_ = standing->leader;
  const bool over = watch_.Sees(*standing, now_ms_());
  absl::Status caught_up = planner_->CatchUp(*standing);
  absl::StatusOr<int64_t> epoch = 0;
  if (caught_up.ok() && over) {
    epoch = leadership_->LeadAfter(standing->epoch, address_);
    if (store::IsStaleEpoch(epoch.status())) return true;  // another one was quicker
    if (epoch.ok()) caught_up = planner_->Lead(*epoch);
  }
  if (absl::IsOutOfRange(caught_up) || absl::IsFailedPrecondition(caught_up)) {
    callbacks_.on_deposed(caught_up);
    return false;
  }
  if (absl::IsDataLoss(caught_up)) {
    callbacks_.on_fatal(caught_up);
    return false;
  }
  if (!caught_up.ok() || !epoch.ok()) {
    Answers(caught_up.ok() ? epoch.status() : caught_up);
    watch_.SeesNothing();
    // It was made the leader, and could not begin.
    if (epoch.ok() && *epoch != 0) {
      callbacks_.on_deposed(caught_up);
      return false;
    }
    return true;
  }
  if (*epoch == 0) return true;
  epoch_ = *epoch;
  spdlog::info("leads, epoch {}", epoch_);
  callbacks_.on_lead();
  return true;
}

bool Candidate::Beat() {
  const int64_t sent_ms = now_ms_();
  if (sent_ms - planner_->alive_ms() > kStuckMs) return true;
  const absl::Status moved = leadership_->Beat(epoch_, address_);
  if (absl::IsFailedPrecondition(moved) || absl::IsDataLoss(moved)) {
    (store::IsStaleEpoch(moved) ? callbacks_.on_deposed : callbacks_.on_fatal)(moved);
    return false;
  }
  Answers(moved);
  if (moved.ok()) planner_->Confirm(sent_ms);
  return true;
}

}  // namespace warpsmith::planner
