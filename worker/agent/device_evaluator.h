// The evaluator over the compile pool and the judge process of one device.
//
//   device::CompilePool pool(...);
//   judge::JudgeClient judge(...);
//   agent::DeviceEvaluator evaluator(pool, judge, settings);
//
// Sources compile on the pool's threads while one thread of its own talks to the judge, which
// measures one candidate at a time: of those that are compiled the one submitted first, so that a
// source that takes the compiler long keeps no other waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/agent/evaluator.h"
#include "worker/call/call_timer.h"
#include "worker/device/compile_pool.h"
#include "worker/judge/judge_client.h"

namespace warpsmith::agent {

class DeviceEvaluator : public Evaluator {
 public:
  struct Settings {
    bool use_torch = true;          // where the problem has a module and the worker a PyTorch
    bool measure_baselines = true;  // false: only those that are cached
    absl::Duration compile_limit = absl::Seconds(30);  // of one source
    // Null, or told from any of its threads what comes next; and how many seconds the oracle took
    // of the judge's time that is over. Must not block.
    std::function<void(Activity next, double oracle_seconds)> on_activity;
  };

  // `pool`, `judge` and `timer` outlive the evaluator, which alone uses the judge meanwhile.
  // `timer`: of exported calls; null: the device is no card.
  DeviceEvaluator(device::CompilePool& pool, judge::JudgeClient& judge, Settings settings,
                  call::CallTimer* timer = nullptr);
  ~DeviceEvaluator() override;

  absl::StatusOr<v1::JudgeOpened> Open(const v1::Problem& problem, uint64_t seed,
                                       const std::vector<v1::Plan>& op_by_op) override;
  std::future<Evaluated> Submit(Candidate candidate) override;
  void Abandon() override;
  absl::StatusOr<v1::JudgeFinal> Finalise() override;
  Exported TimeExport() override;

 private:
  using Compiled = absl::StatusOr<device::Binary>;
  // A candidate whose sources compile, or are compiled.
  struct Job {
    Candidate candidate;
    std::vector<std::future<Compiled>> binaries;  // one for each plan
    std::promise<Evaluated> answer;
    const std::future<Compiled>* Compiling() const;  // one that is not there yet; null: all are
  };

  std::vector<std::future<Compiled>> Compile(const std::vector<v1::Plan>& plans);
  Evaluated Judge(Job& job);
  // Of a candidate that hangs: runs it again with bounded waits, and adds to the verdict's reason
  // for which barrier it waited, if it was one of a pipeline's.
  void SayWhereItWaits(v1::JudgeEvaluate request, v1::JudgeVerdict& verdict);
  // Takes what is to be judged next; null: nothing that waits is compiled.
  std::shared_ptr<Job> TakeCompiled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(Activity next, double oracle_seconds = 0) {
    if (settings_.on_activity) settings_.on_activity(next, oracle_seconds);
  }
  // Runs `call`, which is `activity`, on the judge's thread and waits for it. It gives the seconds
  // that the oracle took of it.
  void OnJudgeThread(Activity activity, std::function<double()> call);
  void Loop();

  device::CompilePool& pool_;
  judge::JudgeClient& judge_;
  const Settings settings_;
  call::CallTimer* const timer_;
  // Of the incumbent. The judge's thread writes it, TimeExport reads it while that is idle.
  std::vector<v1::Plan> plans_;
  std::vector<std::string> cubins_;

  absl::Mutex mutex_;
  std::deque<std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> call_ ABSL_GUARDED_BY(mutex_);  // null: none is waiting
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::agent
