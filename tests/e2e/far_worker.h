// A worker on the host device that reaches a fleet's planner over a network of its own, which a
// test makes bad for a while.
//
//   Fleet fleet(bin, 0);
//   REQUIRE(fleet.Ready());
//   FarWorker worker(fleet, bin, "w0", seed);
//   worker.Disturb({.cut = true}, absl::Seconds(3));
//   while (...) worker.Tend();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/process.h"
#include "tests/support/fault_proxy.h"

namespace warpsmith::e2e {

class FarWorker {
 public:
  // bin: folder of the programs. `fleet` outlives it.
  FarWorker(const Fleet& fleet, const std::string& bin, const std::string& name, uint64_t seed);

  // Its network is like this for so long; whatever it was before.
  void Disturb(const support::Network& network, absl::Duration duration);
  bool disturbed() const { return good_from_ != base::Instant::InfinitePast(); }
  // To be called now and then: the network is good again where it is time, and a worker that has
  // ended is started again, as by `up`.
  void Tend();
  // Ends it with SIGTERM, over a good network; its exit status.
  int End();
  // What it wrote to stderr, from its first start on.
  std::string Errors() const { return earlier_errors_ + process_->Errors(); }

 private:
  support::FaultProxy proxy_;
  const std::vector<std::string> command_;
  std::unique_ptr<Process> process_;
  std::string earlier_errors_;  // of processes that have ended
  base::Instant good_from_ = base::Instant::InfinitePast();
};

}  // namespace warpsmith::e2e
