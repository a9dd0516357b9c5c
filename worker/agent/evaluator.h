// What compiles and judges candidates for the optimiser.
//
// DeviceEvaluator (device_evaluator.h) is the one over the compile pool and the judge process.
// Tests also use one whose times are a pure function of the schedule.
#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/judge.pb.h"
#include "warpsmith/v1/problem.pb.h"
#include "warpsmith/v1/schedule.pb.h"
#include "warpsmith/v1/solution.pb.h"
#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::agent {

// What the device's time goes into while there is a lease. Compilers work beside all of it.
enum class Activity {
  kPropose,  // nothing is under way: the next candidate is proposed and lowered
  kWait,     // for compilers, with nothing to judge
  kJudge,    // candidates are verified and timed
  kOracle,   // inputs, reference and baselines, by PyTorch or native
};

struct Candidate {
  std::string trial_id;
  v1::Schedule schedule;
  std::vector<v1::Plan> plans;  // lowered, one for each workload, in the problem's order
  bool first = false;           // what is submitted after it is judged after it
};

struct Evaluated {
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;  // UNSPECIFIED: abandoned before it was judged
  std::string reason;
  v1::StaticReport report;  // of the first workload's plan; empty if it did not compile
  v1::Timing timing;
  v1::Times times;      // of one that is accepted
  v1::Profile profile;  // of one that is accepted
  v1::Accuracy accuracy;
  double judge_seconds = 0;
  double oracle_seconds = 0;  // of these
  int64_t peak_bytes = 0;
};

// The incumbent as a user runs it: exported.
struct Exported {
  std::vector<std::string> cubins;   // one for each plan; none: the device has no such thing
  double call_us = 0, graph_us = 0;  // of a plain call, and as a CUDA graph; 0: not timed
  std::string missing;               // why not
};

// Used by one thread.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Makes `problem` the current one, measures or recalls its baselines. `op_by_op` stands in for
  // PyTorch's baselines where there is no PyTorch: one plan for each workload, or none.
  virtual absl::StatusOr<v1::JudgeOpened> Open(const v1::Problem& problem, uint64_t seed,
                                               const std::vector<v1::Plan>& op_by_op) = 0;
  // Starts to compile and judge and returns at once. Candidates are judged as they are compiled, of
  // several the one submitted first, each against the best so far: ACCEPTED makes it the incumbent.
  virtual std::future<Evaluated> Submit(Candidate candidate) = 0;
  // Everything submitted and not yet begun by the judge is dropped; its futures become ready with
  // VERDICT_UNSPECIFIED. Returns when the judge is idle.
  virtual void Abandon() = 0;
  // Times the incumbent beside the baselines again. Nothing may be under way.
  virtual absl::StatusOr<v1::JudgeFinal> Finalise() = 0;
  // Times the incumbent's exported call, in a process of its own. Nothing may be under way. Empty
  // for a device that is no card.
  virtual Exported TimeExport() { return {}; }
};

}  // namespace warpsmith::agent
