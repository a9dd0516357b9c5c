// The machine of a worker: the real session and the real outbox on a simulated disk, and a search
// whose finds are drawn. It dies and starts anew, alone or with its disk's unwritten part; it
// stands still and goes on, at times beyond the end of its lease.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/route.h"
#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/planners.h"
#include "planner/simulation/world.h"
#include "worker/daemon/lineage.h"
#include "worker/daemon/memory_file.h"
#include "worker/daemon/outbox.h"
#include "worker/daemon/session.h"

namespace warpsmith::planner::simulation {

// What a task is like; the planner does not know it.
struct Nature {
  double light_us = 0;
  double best_speedup = 0;  // to be found
  double find_rate = 0;     // finds a second
  double kills = 0;         // chance a second that it kills its worker
  double fails = 0;         // chance a lease that it cannot be worked on
  bool permanent = false;
};
// By problem and workload: "p1:w0".
using Natures = std::map<std::string, Nature>;

class WorkerHost {
 public:
  // All outlive this.
  // Several may have one `id`: of different machines, which know nothing of each other.
  WorkerHost(std::string machine, std::string id, std::string arch, bool sick, World* world,
             const Faults* faults, const Planners* planners, Checker* checker,
             const Natures* natures);

  int deaths() const { return deaths_; }
  int refusals() const { return refusals_; }

 private:
  struct Search {
    v1::Lease lease;
    const Nature* nature = nullptr;
    bool heeds = true;  // whether it stops when it is told, or no answer comes
    double seconds = 0;
    double speedup = 0;
    std::string best;  // the trial of it, as the planner knows it
    std::string beaten;
    bool improved = false;
    int trials = 0;
    int64_t started_ms = 0;
  };

  // What of a request its answer is held against.
  struct Told {
    bool draining = false;
    std::vector<v1::LeaseStatus> finished;
    std::vector<v1::LeaseResult> results;  // without trials
  };

  struct OneCall {
    int64_t number = 0;
    v1::SynchronizeRequest request;
    Told told;
    base::Instant sent;
  };

  std::string Process() const { return lineage_->instance(); }
  bool Parted() const { return world_->now_ms() < parted_until_ms_; }
  base::Instant Now() const {
    return base::Instant(absl::Milliseconds(world_->now_ms() + clock_offset_ms_));
  }
  void Start();
  void Die();
  void Drain();
  void BreakCard();
  void Vanish();  // the process
  void Tick();
  void Work();
  void Find();
  void Tell(double speedup);
  void End(daemon::Ended ended);
  void Call();
  // At the planner that it takes for the leader.
  void Try(std::shared_ptr<const OneCall> call);
  Told ToldBy(const v1::SynchronizeRequest& request) const;
  void Answered(const Told& told, base::Instant sent,
                const absl::StatusOr<v1::SynchronizeReply>& reply);
  void Check(const Told& told, const v1::SynchronizeReply& reply);

  const std::string machine_;
  const std::string id_;
  const std::string arch_;
  const bool sick_;
  World* const world_;
  const Faults* const faults_;
  const Planners* const planners_;
  Checker* const checker_;
  const Natures* const natures_;
  daemon::MemoryFile disk_;       // the outbox
  daemon::MemoryFile instances_;  // beside it

  // Of one process.
  int64_t generation_ = 0;
  int64_t instances_drawn_ = 0;
  int64_t clock_offset_ms_ = 0;
  std::unique_ptr<daemon::Lineage> lineage_;
  std::unique_ptr<daemon::Outbox> outbox_;
  std::unique_ptr<daemon::Session> session_;
  std::optional<rpc::Route> route_;
  std::optional<Search> search_;
  std::set<std::string> ended_;  // leases
  bool stop_ = false;
  bool card_failed_ = false;  // in this lease
  bool card_broken_ = false;  // until it is started anew
  int64_t drain_by_ms_ = 0;   // 0: it stays
  bool told_draining_ = false;
  int64_t asleep_until_ms_ = 0;
  int64_t parted_until_ms_ = 0;  // from the planner
  int64_t next_call_ms_ = 0;
  bool calling_ = false;
  int64_t call_number_ = 0;  // of ours
  int64_t call_ = 0;         // of the planner's
  PlannerHost* called_ = nullptr;
  int64_t call_until_ms_ = 0;

  int deaths_ = 0;
  int refusals_ = 0;
};

}  // namespace warpsmith::planner::simulation
