// A planner or several, their store, a network and a fleet of workers in one thread and in
// simulated time, driven by a seed. The planners' service and candidacy and the workers' sessions
// and outboxes are those of the real processes; clocks, disks, the network and what a search finds
// are simulated.
//
//   Simulation simulation(seed);                                  // of a few workers
//   Simulation simulation(seed, {.workers = 10'000, .tasks = 100'000});
//   std::vector<std::string> violations = simulation.Run();   // empty is good
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/route.h"
#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/planners.h"
#include "planner/simulation/store_host.h"
#include "planner/simulation/worker_host.h"
#include "planner/simulation/world.h"

namespace warpsmith::planner::simulation {

struct Scale {
  int workers = 0;              // 0: a few, with a few tasks
  int tasks = 0;                // at least so many, mostly
  int64_t faulty_ms = 400'000;  // then faults stop

  bool few() const { return workers == 0; }
};

class Simulation {
 public:
  // Of every third seed planners share a store.
  explicit Simulation(uint64_t seed, const Scale& scale = {}, bool trace = false);

  // Runs with faults, then without until all is at rest. Returns what does not hold.
  std::vector<std::string> Run();

  int64_t now_ms() const { return world_.now_ms(); }
  int64_t worker_ms() const { return now_ms() * static_cast<int64_t>(workers_.size()); }
  const Checker& checker() const { return checker_; }
  int64_t Digest() const { return store_.Digest(); }
  PlannerHost::Counts planners() const;
  // Of one store; 0: a planner that has its store alone.
  int sharing() const { return shared_ ? static_cast<int>(planners_.hosts().size()) : 0; }
  bool lost_history() const { return store_.history() != StoreHost::History::kWhole; }
  int64_t longest_without_ms() const { return longest_without_ms_; }
  int deaths() const;
  int refusals() const;

 private:
  void Tick();
  // Of planners that share a store.
  void TickShared();
  void LookForLeader();
  void Read();
  void TakeStaleCopy();
  void SubmitSet();
  void TrySubmit(std::shared_ptr<const v1::SubmitRequest> request);
  void Say(planner::Command command);
  void SpeakOfAnother(const State& state);
  void AddWorker(const std::string& id, const std::string& arch);
  Nature DrawNature();
  bool AllAtRest() const;
  void CheckFollowers();

  const Scale scale_;
  World world_;
  Faults faults_;
  bool planners_fault_ = false;  // whatever goes wrong
  bool nobody_is_lost_ = false;
  Checker checker_;
  Natures natures_;
  StoreHost store_;
  bool shared_ = false;
  Planners planners_;
  std::optional<rpc::Route> people_;
  int64_t led_ms_ = 0;  // when a planner was last seen to lead
  int64_t longest_without_ms_ = 0;
  int64_t stale_at_ms_ = -1;  // a copy is brought back then; -1: never
  bool led_again_ = false;
  std::vector<std::unique_ptr<WorkerHost>> workers_;
  int submits_left_ = 0;
  std::string stranger_session_;
};

}  // namespace warpsmith::planner::simulation
