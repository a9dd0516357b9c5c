#pragma once

namespace warpsmith::planner::simulation {

// Chances; 0: never.
struct Faults {
  // a second
  double planner_crash = 0;
  double planner_pause = 0;  // for up to two minutes
  double disk_full = 0;      // for up to a minute
  double stranger = 0;       // a worker speaks of a lease that is another's
  // a second, of planners that share a store
  double planner_leave = 0;  // in good order, and it comes back
  double store_away = 0;     // for up to a minute, from one or from all
  double store_slow = 0;     // likewise
  double strand_stuck = 0;   // for up to a minute, while its counter could move
  // a second and worker
  double worker_death = 0;
  double worker_pause = 0;
  double drain = 0;      // it is told to leave, and comes back
  double sickness = 0;   // a sick worker dies at work, whatever the task
  double card = 0;       // its card fails for good, or for a moment
  double partition = 0;  // no message comes or goes, for up to two minutes
  // a death
  double power_loss = 0;  // of the worker's machine with it
  // a message
  double lost = 0;      // each way
  double late = 0;      // a request: delivered up to two minutes later
  double repeated = 0;  // likewise, beside itself
  // a commit
  double unanswered = 0;  // done or not; a part of it of whatever else is asked of a store
  // a write of an outbox
  double outbox_error = 0;

  // Whether everything that goes wrong is the planner's own: nobody may be blamed for anything.
  bool OfPlannerAlone() const {
    return stranger == 0 && worker_death == 0 && worker_pause == 0 && drain == 0 && sickness == 0 &&
           card == 0 && partition == 0 && lost == 0 && late == 0 && repeated == 0;
  }
};

}  // namespace warpsmith::planner::simulation
