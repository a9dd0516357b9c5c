#include "tests/e2e/far_worker.h"

#include <signal.h>

#include "common/rpc/address.h"

namespace warpsmith::e2e {

FarWorker::FarWorker(const Fleet& fleet, const std::string& bin, const std::string& name,
                     uint64_t seed)
    : proxy_([dir = fleet.dir()] { return rpc::ReadAddress(dir).value_or(""); }, seed),
      command_({bin + "/warpsmith-worker", "--dir", fleet.dir(), "--planner", proxy_.address(),
                "--device", "host", "--name", name, "--compile-jobs", "1"}),
      process_(std::make_unique<Process>(command_)) {}

void FarWorker::Disturb(const support::Network& network, absl::Duration duration) {
  proxy_.Set(network);
  good_from_ = base::Now() + duration;
}

void FarWorker::Tend() {
  if (disturbed() && base::Now() >= good_from_) {
    proxy_.Set({});
    good_from_ = base::Instant::InfinitePast();
  }
  if (process_->Running()) return;
  earlier_errors_ = Errors();
  process_ = std::make_unique<Process>(command_);
}

int FarWorker::End() {
  proxy_.Set({});
  good_from_ = base::Instant::InfinitePast();
  process_->Signal(SIGTERM);
  return process_->Wait(absl::Seconds(60)).code;
}

}  // namespace warpsmith::e2e
