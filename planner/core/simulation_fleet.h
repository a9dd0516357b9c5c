// A planner, its log, its network and a fleet of workers in one thread and in simulated time,
// driven by a seed: the planner crashes and comes back from its log, commits are slow, messages are
// late, lost and repeated, workers pause, die and start anew, tasks kill their workers.
//
// Workers follow the protocol as planner.proto tells it, with one thing left out on purpose: they
// do not stop a lease when they were paused beyond its end, so that fences have to do their work.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "planner/core/core.h"
#include "planner/core/simulation_checker.h"

namespace warpsmith::planner::simulation {

struct Faults {
  double planner_crash = 0;  // chance a second
  double worker_death = 0;   // chance a second and worker
  double worker_pause = 0;   // likewise
  double lost_message = 0;   // chance a message, each way
  double late_message = 0;   // chance a request: delivered up to two minutes later
  double repeated_message = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed);

  // Runs with faults, then without until all is at rest. Returns the violations; empty is good.
  std::vector<std::string> Run();

  int64_t now_ms() const { return now_ms_; }
  int crashes() const { return crashes_; }
  int deaths() const { return deaths_; }
  int refusals() const { return refusals_; }
  const Checker& checker() const { return checker_; }
  // Prints what happens, to stderr.
  void set_trace(bool trace) { trace_ = trace; }

 private:
  // What a task is like; the planner does not know it.
  struct Nature {
    double light_us = 0;
    double best_speedup = 0;  // to be found
    double find_rate = 0;     // finds a second
    double kills = 0;         // chance a second that it kills its worker
    double fails = 0;         // chance a lease that it cannot be worked on
    bool permanent = false;
  };
  struct Held {
    Grant grant;
    double spent = 0;
    double speedup = 0;
    bool over = false;
    v1::LeaseStatus end;
    std::vector<Result> unsent;
  };
  struct Worker {
    std::string id;
    std::string arch;
    bool alive = true;
    int64_t asleep_until = 0;
    std::string session_id;
    std::map<std::string, Held> held;  // by lease id
    int64_t next_call_ms = 0;
    int64_t call = 0;  // the one awaited; 0: none
    int64_t call_deadline_ms = 0;
    int incarnation = 0;
  };
  struct Call {
    int64_t id = 0;
    std::string worker_id;
    int incarnation = 0;
    Synchronize request;
  };
  struct Parked {
    Call call;
    int64_t until_ms = 0;
  };
  // Waits for the commit.
  struct Pending {
    std::vector<v1::Event> events;
    std::function<void()> answer;
  };

  void At(int64_t at_ms, std::function<void()> action);
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  void Trace(const std::string& what);

  // planner
  void Crash();
  void Recover();
  void ScheduleCommit();
  template <typename Reply>
  absl::StatusOr<Reply> Take(Outcome<Reply> outcome, std::function<void()> answer);
  void Receive(Call call);
  void Answer(const Call& call, absl::StatusOr<SynchronizeAnswer> reply,
              std::vector<v1::Event> events);
  void WakeParked();
  void TickPlanner();
  void SubmitSet();
  Nature DrawNature();
  bool AllAtRest() const;

  // workers
  void TickWorker(Worker& worker);
  void Work(Worker& worker, Held& held);
  void Die(Worker& worker);
  void Send(Worker& worker);
  void Deliver(const Call& call, const absl::StatusOr<SynchronizeAnswer>& reply);
  void Learn(Worker& worker, const Call& call, const SynchronizeAnswer& answer);

  std::mt19937_64 random_;
  Faults faults_;
  Checker checker_;
  bool trace_ = false;
  int64_t now_ms_ = 0;
  int64_t order_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::function<void()>> agenda_;

  // planner
  CoreOptions options_;
  std::unique_ptr<Core> core_;   // null: down
  int64_t clock_offset_ms_ = 0;  // a new process has a new monotonic clock
  int64_t generation_ = 0;
  std::vector<v1::Event> log_;
  v1::PlannerState snapshot_;
  std::deque<Pending> pending_;
  std::map<int64_t, Parked> parked_;
  bool commit_scheduled_ = false;
  int submits_left_ = 0;

  std::vector<Worker> workers_;
  std::map<std::string, Nature> natures_;  // by problem and workload
  int64_t calls_ = 0;
  int64_t trials_ = 0;
  int crashes_ = 0;
  int deaths_ = 0;
  int refusals_ = 0;
};

}  // namespace warpsmith::planner::simulation
