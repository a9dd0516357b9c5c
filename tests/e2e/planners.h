// Several planners on one Redis, and what may happen to each and between any two.
//
//   Planners planners(bin, 3, seed);
//   REQUIRE(planners.Ready());
//   int leader = planners.Leader();
//   planners.Signal(leader, SIGKILL);
//   planners.Tend();                     // starts it again, as a supervisor does
//
// Workers and clients reach a planner through a proxy, and each planner Redis through one of its
// own.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/e2e/answers.h"
#include "tests/e2e/process.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {

class Planners : public Answers {
 public:
  // bin: folder of the programs.
  Planners(std::string bin, int count, uint64_t seed);

  // One of them leads and answers.
  bool Ready() const;
  // By what they say in Redis; -1: nobody does.
  int Leader() const;
  // The proxies', of all of them.
  absl::StatusOr<std::string> Addresses() const override;
  int count() const { return static_cast<int>(nodes_.size()); }

  void Signal(int planner, int signal);
  // What is between the planner and who calls it, or Redis.
  support::FaultProxy& front(int planner) { return *nodes_[planner]->front; }
  support::FaultProxy& back(int planner) { return *nodes_[planner]->back; }
  support::RedisServer& redis() { return redis_; }
  // Whoever looks for Redis finds the one at 127.0.0.1:PORT from here on, as after a failover;
  // connections that there are end.
  void PointRedisAt(const std::string& tcp_address);
  std::string shared() const { return folder_ / "shared"; }
  std::string dir(int planner) const { return nodes_[planner]->dir; }

  // Starts those that have ended.
  void Tend();
  Finished Warpsmith(std::vector<std::string> arguments,
                     absl::Duration limit = absl::Seconds(60)) const;
  // Each is told to end; the exit statuses.
  std::vector<int> Down();
  // All that it wrote.
  std::string Errors(int planner) const;
  // What they wrote, its last lines.
  std::string Logs() const;

 private:
  struct Node {
    std::string dir;
    std::unique_ptr<support::FaultProxy> back, front;
    std::unique_ptr<Process> process;
    std::string earlier_errors;
  };

  void Start(Node& node) const;

  const std::string bin_;
  support::TemporaryFolder folder_;
  support::RedisServer redis_;
  mutable absl::Mutex mutex_;
  std::string redis_address_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace warpsmith::e2e
