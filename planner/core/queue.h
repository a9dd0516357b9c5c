// Tasks that wait for a worker.
//
//   WorkQueue queue;                                      // of one architecture
//   queue.Put(task, {.needs = needs, .submitter = "ann", .standing = standing, .priority = 1});
//   queue.Move("ann", higher);                            // it has used more
//   queue.Prioritize("r1/a@host", 5);                     // a person says so
//   const std::string* id = queue.Best(worker, warm_task, [](const std::string& id) { return false;
//   });
//
// Whose turn it is comes first: the submitter's that has used least for its weight (standing.h).
// Among its tasks those of the highest priority come first, and among these the one that promises
// most (allocator.h). A worker is given only what it meets the needs of.
//
// Put, Prioritize, Remove and Best take logarithmic time in the number of tasks, and linear time in
// that of different needs; Best beside that looks at each task that it skips. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planner/core/needs.h"
#include "planner/core/standing.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

// The best first, of one submitter and equal needs.
class TaskQueue {
 public:
  // Adds the task, or moves it to where it now belongs. False: it has no slice left, and is not
  // kept.
  bool Put(const v1::Task& task, int priority = 0);
  // Nothing if it is not there.
  void Prioritize(const std::string& id, int priority);
  void Remove(const std::string& id);

  // Minus the priority, minus the gain, id: the first is the best.
  using Rank = std::tuple<int, double, std::string>;
  // For a worker that last worked on `warm_task` ("": on none): the task of the highest priority
  // and then the highest expected gain, the warm one's counted kMoveMargin times, the lowest id of
  // equal ones. Those that `skip` is true of are not for that worker. Null: none is there. `rank`,
  // if not null, is what it was chosen by. Valid until the next change.
  const std::string* Best(const std::string& warm_task,
                          absl::FunctionRef<bool(const std::string& id)> skip,
                          Rank* rank = nullptr) const;

  bool empty() const { return known_.empty(); }
  bool operator==(const TaskQueue&) const = default;

 private:
  struct Known {
    int priority = 0;
    double gain = 0;
    bool operator==(const Known&) const = default;
  };
  static Rank RankOf(const std::string& id, const Known& known, double times = 1) {
    return {-known.priority, -known.gain * times, id};
  }

  std::map<std::string, Known> known_;  // by id
  std::set<Rank> ranks_;
};

class WorkQueue {
 public:
  // How a task waits.
  struct Terms {
    Needs needs;
    std::string submitter;
    Standing standing;  // the submitter's, the same for all its tasks
    int priority = 0;
  };

  void Put(const v1::Task& task, const Terms& terms);
  // Nothing if it is not there.
  void Prioritize(const std::string& id, int priority);
  void Remove(const std::string& id);
  // The submitter, if it has tasks here, now stands there.
  void Move(const std::string& submitter, const Standing& standing);

  // As TaskQueue's, of the submitter whose turn it is.
  const std::string* Best(const v1::WorkerInfo& worker, const std::string& warm_task,
                          absl::FunctionRef<bool(const std::string& id)> skip) const;
  // Whether there is a task whose needs the worker meets.
  bool HasFor(const v1::WorkerInfo& worker) const;

  bool empty() const { return places_.empty(); }
  bool operator==(const WorkQueue&) const = default;

 private:
  using Turn = std::pair<Standing, std::string>;
  // Tasks of equal needs.
  struct Class {
    std::map<std::string, TaskQueue> by_submitter;  // none is empty
    std::set<Turn> turns;                           // of the same submitters
    bool operator==(const Class&) const = default;
  };
  struct Place {
    Needs needs;
    std::string submitter;
    bool operator==(const Place&) const = default;
  };
  struct Submitter {
    Standing standing;
    int classes = 0;  // that it has tasks in
    bool operator==(const Submitter&) const = default;
  };

  // The submitter has no more tasks of these needs.
  void Leave(const Place& place);

  std::map<Needs, Class> classes_;               // none is empty
  std::map<std::string, Submitter> submitters_;  // with tasks here
  std::map<std::string, Place> places_;          // by task
};

}  // namespace warpsmith::planner
