// The worker's side: starts the judge process, talks to it, and makes a verdict of its death.
//
//   JudgeClient judge(options);
//   auto opened = judge.Open(request);
//   auto verdict = judge.Evaluate(candidate);   // HANG, CRASHED, OUT_OF_BOUNDS: the judge may be
//   dead
//
// A judge that is gone is started again by the next call: the current problem is opened again (its
// baselines are kept) and the incumbent put back. A judge that dies where no candidate can be
// blamed is tried again after a pause that doubles; after kMostDeaths of these in a row the call
// fails.
//
// Used by one thread. Calls block.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "warpsmith/v1/judge.pb.h"
#include "worker/judge/channel.h"

namespace warpsmith::judge {

inline constexpr int kMostDeaths = 4;

class JudgeClient {
 public:
  struct Options {
    std::string binary;                             // empty: warpsmith-judge beside this program
    std::string device = "host";                    // "cuda:0"
    std::vector<std::string> arguments;             // more of the judge's own
    absl::Duration open_limit = absl::Minutes(10);  // baselines are compiled and timed in it
    absl::Duration evaluate_limit = absl::Minutes(2);
    absl::Duration finalise_limit = absl::Minutes(10);
    absl::Duration first_pause = absl::Milliseconds(100);
    int stderr_fd = 2;  // the judge's standard error
    // Hears how the judge died, of the candidate of that trial, or of none (""). May be null.
    std::function<void(const std::string& trial_id, const std::string& how)> on_death;
  };

  explicit JudgeClient(Options options) : options_(std::move(options)) {}
  ~JudgeClient();
  JudgeClient(const JudgeClient&) = delete;
  JudgeClient& operator=(const JudgeClient&) = delete;

  // Errors: the judge's own, or Unavailable: it cannot be started or keeps dying.
  absl::StatusOr<v1::JudgeOpened> Open(const v1::JudgeOpen& request);
  absl::StatusOr<v1::JudgeVerdict> Evaluate(const v1::JudgeEvaluate& request);
  absl::StatusOr<v1::JudgeFinal> Finalise();

  pid_t pid() const { return pid_; }      // 0: not running
  int starts() const { return starts_; }  // processes started so far

 private:
  // How a call ended: a reply, or a death.
  struct Outcome {
    std::optional<v1::JudgeReply> reply;
    bool timed_out = false;
    int wait_status = 0;  // of waitpid, where there is no reply
  };

  absl::Status Start();
  absl::StatusOr<Outcome> Call(const v1::JudgeRequest& request, absl::Duration limit);
  int Stop(bool kill);  // waits for the process; its wait status
  // Starts, opens and reinstalls as needed.
  absl::Status MakeReady();
  absl::StatusOr<v1::JudgeOpened> OpenOnce();
  absl::Status Reinstall();
  absl::StatusOr<v1::JudgeReply> Insist(const v1::JudgeRequest& request, absl::Duration limit);

  const Options options_;
  std::unique_ptr<Channel> channel_;
  pid_t pid_ = 0;
  int starts_ = 0;
  bool ready_ = false;  // the child has the problem open and the incumbent in place
  std::optional<v1::JudgeOpen> problem_;
  std::optional<v1::JudgeEvaluate> incumbent_;
};

// The verdict on a candidate under which the judge ended without a word.
v1::JudgeVerdict VerdictOfDeath(const std::string& trial_id, bool timed_out, int wait_status);

}  // namespace warpsmith::judge
