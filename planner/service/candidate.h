// A planner's candidacy (candidacy.h) on a thread: looks at the standing, catches up, takes over
// when the leader's counter has not moved for long enough, moves it from then on.
//
//   Candidate candidate(planner, store, "10.0.0.7:4000", clock,
//                       {.on_lead = ..., .on_deposed = ..., .on_fatal = ...});
//   candidate.Stop();    // a leader resigns, so that the next one need not wait
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/store/leadership.h"
#include "planner/service/candidacy.h"

namespace warpsmith::planner {

class Candidate {
 public:
  struct Callbacks {
    std::function<void()> on_lead;
    // See Candidacy::Next.
    std::function<void(const absl::Status&)> on_deposed;
    std::function<void(const absl::Status&)> on_fatal;
  };

  // `planner`, which follows, and `leadership` outlive it. `address`: where this one is reached.
  // `now_ms`: as the planner's clock. Callbacks run on the candidate's thread.
  Candidate(Contender* planner, store::Leadership* leadership, std::string address,
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
  // Each gives what is to be done next.
  Candidacy::Next Look();
  Candidacy::Next Beat();

  store::Leadership* const leadership_;
  const std::string address_;
  const std::function<int64_t()> now_ms_;
  const Callbacks callbacks_;
  Candidacy candidacy_;  // of the thread
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::planner
