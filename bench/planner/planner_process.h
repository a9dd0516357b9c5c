// The planner under load: a process of its own, and what it takes.
//
//   PlannerProcess planner(program, dir, {}, [](const std::string& a) { return rpc::DialFresh(a);
//   }); absl::Status ready = planner.Start(); Usage before = UsageOf(planner.pid());
//   planner.Kill();
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
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
  using Dialer = std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;
  // more: further flags; dial: to it.
  PlannerProcess(std::string program, std::string dir, std::vector<std::string> more, Dialer dial)
      : program_(std::move(program)),
        dir_(std::move(dir)),
        more_(std::move(more)),
        dial_(std::move(dial)) {}

  // Until it leads and serves, by its health service, or only until it is there and follows another
  // one. An error has what it wrote.
  absl::Status Start(bool leads = true);
  std::shared_ptr<grpc::Channel> Dial() const { return dial_(address_); }
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
  const Dialer dial_;
  std::string address_;
  std::unique_ptr<e2e::Process> process_;
};

}  // namespace warpsmith::bench
