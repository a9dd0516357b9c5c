// The optimiser works on one lease: it makes the lease's problem faster on the worker's device
// until the slice of budget is spent, the speed of light is reached, or nothing is left to try.
//
//   agent::Optimiser optimiser(evaluator, options);
//   auto outcome = optimiser.Run(lease, reporter, stop);
//
// The loop: describe the state of the incumbent, the meta-agent (a policy) picks a specialist, the
// specialist proposes an action on the schedule, codegen lowers it, the evaluator compiles and
// judges it, the reward is the gain in log time, and everything is reported. Several candidates are
// under way at once; their answers are taken in the order they were submitted, so that the same
// seed and the same answers give the same run; the policy is told of each, the refused and the
// abandoned included, in that order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "warpsmith/v1/planner.pb.h"
#include "warpsmith/v1/trial.pb.h"
#include "worker/agent/evaluator.h"
#include "worker/agent/policy.h"
#include "worker/codegen/codegen.h"

namespace warpsmith::agent {

// Told of everything that happens, on the thread that called Run. Must not block for long.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // Every candidate, once it has a verdict. Ids are unique: "LEASE/NUMBER".
  virtual void OnTrial(const v1::Trial& trial) = 0;
  // The best plan changed. Called once more at the end of the slice, with the same trial id and
  // with speedups from the final measurement beside the baselines.
  virtual void OnIncumbent(const v1::Incumbent& incumbent) = 0;
  // Which specialist is at work now; "opening" and "finalising" before and after.
  virtual void OnProgress(const std::string& specialist) = 0;
};

// How a lease ended.
struct Outcome {
  bool converged = false;     // nothing left to try, or at the speed of light
  std::string reason;         // one phrase: "budget spent", "at the speed of light", ...
  std::string held_by;        // what is believed to keep the best from it (held_by.h)
  int64_t trials = 0;         // candidates reported
  int64_t judged = 0;         // of them distinct sources that the device gave a verdict on
  double seconds = 0;         // wall time of the slice, the opening included
  double search_seconds = 0;  // of it between opening and finalising
  double first_plan_seconds =
      0;  // from the start of the search to the first verified plan; 0: none
};

// A plan this near to the speed of light (light time over measured time) ends the search.
inline constexpr double kLightReached = 0.99;
// Judge failures in a row after which a lease is given up.
inline constexpr int kMaxJudgeFailures = 5;
// Bounds of Options.in_flight.
inline constexpr int kMaxInFlight = 64;

struct Options {
  codegen::Target target;
  std::string card;  // its name, for the record: "NVIDIA H200"
  // Candidates lowered, compiling or being judged at once, up to kMaxInFlight. 0: so many that the
  // device need not wait for the compiler, and few enough that what is dropped costs little.
  int in_flight = 0;
  base::Clock* clock = base::Clock::Real();  // budget and time stamps; never waits
  // Of a lease's policy, by name.
  std::function<absl::StatusOr<std::unique_ptr<Policy>>(const std::string& name, uint64_t seed)>
      make_policy = MakePolicy;
};

class Optimiser {
 public:
  // `evaluator` outlives the optimiser and is used by this thread alone.
  Optimiser(Evaluator& evaluator, Options options);

  // Blocks until the slice ends; `stop` ends it early, within about the time of one candidate.
  // InvalidArgument: the problem, its schedule or the policy's name is not one we can work on, and
  // will not be later (permanent). ResourceExhausted: it does not fit this device (permanent
  // there). Other codes: the judge or the compiler failed; another try may work.
  absl::StatusOr<Outcome> Run(const v1::Lease& lease, Reporter& reporter,
                              const std::atomic<bool>& stop);

 private:
  Evaluator& evaluator_;
  const Options options_;
};

}  // namespace warpsmith::agent
