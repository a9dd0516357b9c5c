// What must hold of every history of the planner, checked from the outside: from the durable log
// and from what workers were told. It keeps a model of its own and shares no code with the core.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "warpsmith/v1/events.pb.h"

namespace warpsmith::planner::simulation {

class Checker {
 public:
  // An event became durable.
  void Committed(const v1::Event& event);

  // A reply reached a worker (after its events became durable).
  void ToldRecorded(const std::string& task_id, const std::string& blob, double speedup);
  void ToldBatchRecorded(const std::string& task_id, const std::string& batch_blob);
  void ToldFinished(const std::string& task_id, int64_t fence);
  void ToldStart(const std::string& task_id, int64_t fence, const std::string& worker_id);
  void ToldSubmitted(const std::string& run_id);

  // Everything came to rest; `finals` is the planner's own view.
  struct Final {
    std::string state;
    double speedup = 0;
    int64_t fence = 0;
    double seconds_spent = 0;
  };
  void Ended(const std::map<std::string, Final>& finals);

  // What does not hold, in the order found.
  const std::vector<std::string>& violations() const { return violations_; }
  int64_t accepted() const { return accepted_count_; }

 private:
  struct Task {
    std::string arch;
    std::string run_id;
    double budget = 0;
    double spent = 0;
    int64_t fence = 0;
    bool live = false;  // a lease is
    bool rest = false;
    std::map<int64_t, std::string> granted;  // fence -> worker
    std::set<int64_t> ended;
    std::set<std::string> batches;
    std::set<std::string> accepted;  // blobs
    std::string trial_id;
    double speedup = -1;  // of the incumbent; -1: none
    double highest = -1;  // that it ever was
  };
  struct Worker {
    std::string arch;
    bool live = false;
  };

  void On(const v1::RunSubmitted& event);
  void On(const v1::RunBound& event);
  void On(const v1::WorkerJoined& event);
  void On(const v1::WorkerLost& event);
  void On(const v1::LeaseGranted& event);
  void On(const v1::LeaseEnded& event);
  void On(const v1::ResultAccepted& event);
  void On(const v1::TrialsRecorded& event);
  void On(const v1::TaskMoved& event);

  void Fail(const std::string& what);
  Task* Find(const std::string& task_id, const char* where);

  std::map<std::string, Task> tasks_;
  std::map<std::string, Worker> workers_;
  std::set<std::string> runs_;
  std::vector<std::string> violations_;
  int64_t accepted_count_ = 0;
};

}  // namespace warpsmith::planner::simulation
