// A planner, its disk, a network and a fleet of workers in one thread and in simulated time, driven
// by a seed. The planner's service and the workers' sessions and outboxes are those of the real
// processes; clocks, disks, the network and what a search finds are simulated.
//
//   Simulation simulation(seed);                                  // of a few workers
//   Simulation simulation(seed, {.workers = 10'000, .tasks = 100'000});
//   std::vector<std::string> violations = simulation.Run();   // empty is good
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/planner_host.h"
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
  explicit Simulation(uint64_t seed, const Scale& scale = {}, bool trace = false);

  // Runs with faults, then without until all is at rest. Returns what does not hold.
  std::vector<std::string> Run();

  int64_t now_ms() const { return world_.now_ms(); }
  int64_t worker_ms() const { return now_ms() * static_cast<int64_t>(workers_.size()); }
  const PlannerHost& planner() const { return *planner_; }
  const Checker& checker() const { return checker_; }
  int deaths() const;
  int refusals() const;

 private:
  void Tick();
  void SubmitSet();
  void SpeakOfAnother();
  void AddWorker(const std::string& id, const std::string& arch);
  Nature DrawNature();
  bool AllAtRest() const;

  const Scale scale_;
  World world_;
  Faults faults_;
  bool planners_fault_ = false;  // whatever goes wrong
  Checker checker_;
  Natures natures_;
  std::unique_ptr<PlannerHost> planner_;
  std::vector<std::unique_ptr<WorkerHost>> workers_;
  int submits_left_ = 0;
  std::string stranger_session_;
};

}  // namespace warpsmith::planner::simulation
