// Watches a worker's card while it works.
//
//   CardWatch watch(*nvml, {.alone = true}, {.health = ..., .interrupt = ...}, metrics);
//   // until it is destroyed
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/telemetry/metrics.h"
#include "worker/card/condition.h"
#include "worker/daemon/session.h"
#include "worker/device/nvml.h"

namespace warpsmith::card {

class CardWatch {
 public:
  struct Options {
    bool alone = true;           // others on the card make the worker sick
    bool sees_processes = true;  // SeesProcesses()
    absl::Duration period = absl::Seconds(1);
    std::string note = {};  // what is told of the worker while it is healthy
  };

  // Told on the watch's own thread.
  struct Listener {
    std::function<void(const daemon::Health&)> health;  // it is another
    // Why what the card did just now is not to be believed; after `health`, where that is another.
    std::function<void(const std::string&)> interrupt;
  };

  // All outlive it. `metrics` have the table of the worker.
  CardWatch(device::Nvml& nvml, const Options& options, Listener listener,
            telemetry::Metrics& metrics);
  ~CardWatch();

 private:
  void Run();
  // Waits for the next Xid error, for a period.
  void AwaitXid();
  void Look();
  // Tells what is new; `doubt`: why what the card does is not to be believed.
  void Tell(const std::string& doubt);
  void Count(const device::CardReading& reading, size_t strangers);
  bool Stopped() {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }

  device::Nvml& nvml_;
  const Options options_;
  const Listener listener_;
  telemetry::Metrics& metrics_;
  Condition condition_;
  daemon::Health told_;
  device::Throttling counted_;
  bool tells_xids_ = true;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace warpsmith::card
