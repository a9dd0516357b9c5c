#include "planner/service/candidate.h"

#include <pthread.h>

#include <utility>

#include "planner/service/log.h"

namespace warpsmith::planner {

Candidate::Candidate(Contender* planner, store::Leadership* leadership, std::string address,
                     std::function<int64_t()> now_ms, Callbacks callbacks)
    : leadership_(leadership),
      address_(std::move(address)),
      now_ms_(std::move(now_ms)),
      callbacks_(std::move(callbacks)),
      candidacy_(planner) {
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
  if (!candidacy_.leads()) return;
  const absl::Status resigned = leadership_->Resign(candidacy_.epoch());
  if (resigned.ok()) return telemetry::Log(told::kResigned, {{"epoch", candidacy_.epoch()}});
  telemetry::Log(told::kNotResigned,
                 {{"reason", resigned.message()}, {"epoch", candidacy_.epoch()}});
}

void Candidate::Run() {
  while (true) {
    const Candidacy::Next next = candidacy_.leads() ? Beat() : Look();
    if (next == Candidacy::kDeposed) return callbacks_.on_deposed(candidacy_.why());
    if (next == Candidacy::kFatal) return callbacks_.on_fatal(candidacy_.why());
    absl::MutexLock lock(&mutex_);
    const absl::Duration pause = next == Candidacy::kBeat ? kBetweenBeats : kBetweenLooks;
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), pause)) return;
  }
}

Candidacy::Next Candidate::Look() {
  const absl::StatusOr<store::Standing> standing = leadership_->Look();
  Candidacy::Next next = candidacy_.Looked(standing, now_ms_());
  if (next != Candidacy::kTakeOver) return next;
  const int64_t asked_ms = now_ms_();
  next = candidacy_.TookOver(leadership_->LeadAfter(candidacy_.seen(), address_), asked_ms);
  if (next == Candidacy::kBeat) callbacks_.on_lead();
  return next;
}

Candidacy::Next Candidate::Beat() {
  const int64_t sent_ms = now_ms_();
  if (!candidacy_.MayBeat(sent_ms)) return Candidacy::kBeat;
  if (candidacy_.Doubts(sent_ms)) return candidacy_.LookedAgain(leadership_->Look());
  return candidacy_.Beaten(leadership_->Beat(candidacy_.epoch(), address_), sent_ms);
}

}  // namespace warpsmith::planner
