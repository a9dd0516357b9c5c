// Who of several planners on a store leads, as one of them sees it: looks at the standing, catches
// up, takes over when the leader's counter has not moved for long enough, moves it from then on.
//
//   Candidate candidate(planner, store, "10.0.0.7:4000", clock,
//                       {.on_lead = ..., .on_deposed = ..., .on_fatal = ...});
//   candidate.Stop();    // a leader resigns, so that the next one need not wait
//
// Time is the candidate's own and monotonic; what a store's clock says decides nothing. Time in
// which the store did not answer is nobody's silence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/store/leadership.h"
#include "planner/service/planner.h"

namespace warpsmith::planner {

// The leader is followed by another when its counter has not moved for so long.
inline constexpr int64_t kSilenceMs = 6'000;
inline constexpr absl::Duration kBetweenLooks = absl::Milliseconds(250);
inline constexpr absl::Duration kBetweenBeats = absl::Seconds(1);
// A planner whose strand has not run for so long moves no counter.
inline constexpr int64_t kStuckMs = 4'000;

// Whether a leader is gone, by what was seen of it. Not thread-safe.
class Watch {
 public:
  // True: it is to be followed by another.
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

class Candidate {
 public:
  struct Callbacks {
    std::function<void()> on_lead;
    // Another planner leads, or there is nothing to follow from where this one is: it is to begin
    // anew, and must not answer any more.
    std::function<void(const absl::Status&)> on_deposed;
    // A person is to look.
    std::function<void(const absl::Status&)> on_fatal;
  };

  // `planner`, which follows, and `leadership` outlive it. `address`: where this one is reached.
  // `now_ms`: as the planner's clock. Callbacks run on the candidate's thread.
  Candidate(Planner* planner, store::Leadership* leadership, std::string address,
            std::function<int64_t()> now_ms, Callbacks callbacks);
  ~Candidate();
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  // Ends the thread; the planner is as it was. Call Resign when it has ended.
  void Stop();
  // After Stop, and after everything is written: the next one need not wait.
  void Resign();

 private:
  void Run();
  // False: it is over.
  bool Look();
  bool Beat();
  // The store fails, or answers again: said once each.
  void Answers(const absl::Status& status);

  Planner* const planner_;
  store::Leadership* const leadership_;
  const std::string address_;
  const std::function<int64_t()> now_ms_;
  const Callbacks callbacks_;
  // Of the thread.
  Watch watch_;
  int64_t epoch_ = 0;  // it leads since; 0: it follows
  bool store_away_ = false;
  std::string leader_;  // that was told last
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::planner
