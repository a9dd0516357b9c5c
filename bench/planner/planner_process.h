// The planner under load: a process of its own, and what it takes.
//
//   PlannerProcess planner(program, dir);
//   absl::Status ready = planner.Start();
//   Usage before = UsageOf(planner.pid());
//   planner.Kill();
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/e2e/process.h"

namespace warpsmith::bench {

struct Usage {
  double cpu_seconds = 0;  // user and system, since its start
  int64_t rss_bytes = 0;
  int64_t peak_bytes = 0;
};
// Of a process of this machine; zeros: it is gone.
Usage UsageOf(pid_t pid);

class PlannerProcess {
 public:
  // more: further flags.
  PlannerProcess(std::string program, std::string dir, std::vector<std::string> more = {})
      : program_(std::move(program)), dir_(std::move(dir)), more_(std::move(more)) {}

  // Until it leads and serves, by its health service. An error has what it wrote.
  absl::Status Start();
  // SIGKILL; SIGTERM, and until it has ended.
  void Kill();
  absl::Status Stop();
  // How it ended, if it did so by itself: its exit status and the end of its log. "": it runs.
  std::string Ending();

  const std::string& address() const { return address_; }
  pid_t pid() const { return process_->pid(); }

 private:
  const std::string program_;
  const std::string dir_;
  const std::vector<std::string> more_;
  std::string address_;
  std::unique_ptr<e2e::Process> process_;
};

}  // namespace warpsmith::bench
