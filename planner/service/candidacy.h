// Who of several planners on a store leads, as one of them sees it. It decides, and asks nobody:
// what the store said comes in, what to ask it next goes out. A thread drives it in the planner
// (candidate.h), the simulation in simulated time; both run the same lines.
//
//   Candidacy candidacy(&planner);
//   Candidacy::Next next = candidacy.Looked(leadership.Look(), now_ms);
//   if (next == Candidacy::kTakeOver) {
//     next = candidacy.TookOver(leadership.LeadAfter(candidacy.seen(), address), asked_ms);
//   }
//   if (next == Candidacy::kBeat && candidacy.MayBeat(now_ms)) {
//     next = candidacy.Doubts(now_ms)
//                ? candidacy.LookedAgain(leadership.Look())
//                : candidacy.Beaten(leadership.Beat(candidacy.epoch(), address), sent_ms);
//   }
//
// Time is the planner's own and monotonic; what a store's clock says decides nothing. Time in which
// the store did not answer is nobody's silence. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/store/leadership.h"

namespace warpsmith::planner {

// The leader is followed by another when its counter has not moved for so long.
inline constexpr int64_t kSilenceMs = 6'000;
inline constexpr absl::Duration kBetweenLooks = absl::Milliseconds(250);
inline constexpr absl::Duration kBetweenBeats = absl::Seconds(1);
// A leader that has not been confirmed for so long may have been followed by another: it answers
// nothing until it knows.
inline constexpr int64_t kUnconfirmedMs = 5'000;
// A planner whose strand has not run for so long moves no counter.
inline constexpr int64_t kStuckMs = 4'000;

// Whether a leader is gone, by what was seen of it. Not thread-safe.
class Watch {
 public:
  // True: it is to be followed by another, if the counter still is where it was seen
  // (Leadership::LeadAfter): whoever stood still may see what is long past.
  bool Sees(const store::Standing& standing, int64_t now_ms);
  // The store did not answer.
  void SeesNothing() { seen_ = moves_ = false; }
  // The counter has moved while it was watched.
  bool moves() const { return moves_; }

 private:
  bool seen_ = false, moves_ = false;
  int64_t epoch_ = 0, beat_ = 0;
  int64_t since_ms_ = 0;
};

// Of a planner, what its candidacy moves.
class Contender {
 public:
  virtual ~Contender() = default;

  // Only while it follows. CatchUp applies what was written meanwhile: OutOfRange, it is too far
  // behind; FailedPrecondition, the store has another history now; DataLoss, the store has lost
  // what this planner had read. In each case it is to begin anew, or a person is to look.
  virtual absl::Status CatchUp(const store::Standing& standing) = 0;
  // Of the epoch that the store gave it when it was asked. It must be confirmed from time to time
  // then.
  virtual absl::Status Lead(int64_t epoch, int64_t asked_ms) = 0;
  // The store knew it as the leader then, or later.
  virtual void Confirm(int64_t sent_ms) = 0;
  // When its strand last ran.
  virtual int64_t alive_ms() const = 0;
};

class Candidacy {
 public:
  enum Next {
    kLook,      // after kBetweenLooks
    kTakeOver,  // at once
    kBeat,      // after kBetweenBeats
    // Another planner leads, or there is nothing to follow from where this one is: it is to begin
    // anew, and must not answer any more.
    kDeposed,
    kFatal,  // a person is to look
  };

  explicit Candidacy(Contender* planner) : planner_(planner) {}

  // The store's answer, heard at that time.
  Next Looked(const absl::StatusOr<store::Standing>& standing, int64_t now_ms);
  // The answers to what was asked of the store at that time.
  Next TookOver(const absl::StatusOr<int64_t>& epoch, int64_t asked_ms);
  Next Beaten(const absl::Status& moved, int64_t sent_ms);
  // A leader that was not confirmed for so long that it answers nothing does not move its counter
  // either, before the store has answered a look: where only the answers do not come, another one
  // is to lead.
  bool Doubts(int64_t now_ms) const;
  Next LookedAgain(const absl::StatusOr<store::Standing>& standing);
  // False: the planner is stuck, and leaves its counter alone.
  bool MayBeat(int64_t now_ms) const { return now_ms - planner_->alive_ms() <= kStuckMs; }

  bool leads() const { return leads_; }
  int64_t epoch() const { return epoch_; }  // where it leads
  // As it was when it was seen last: what is taken over from.
  const store::Standing& seen() const { return seen_; }
  // Of kDeposed and kFatal.
  const absl::Status& why() const { return why_; }

 private:
  Next End(Next how, const absl::Status& why);
  // Nothing came of it: the store did not answer.
  Next LookAgain(const absl::Status& status);
  // The store fails, or answers again: said once each.
  void Answers(const absl::Status& status);

  Contender* const planner_;
  Watch watch_;
  bool leads_ = false;
  int64_t epoch_ = 0;
  store::Standing seen_;
  int64_t confirmed_ms_ = 0;  // of one that leads
  bool answered_ = true;      // the last look or beat of it
  absl::Status why_;
  bool store_away_ = false;
  std::string leader_;  // that was told last
};

}  // namespace warpsmith::planner
