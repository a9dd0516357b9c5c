// Tasks that wait for a worker, best first (allocator.h says what is best).
//
//   TaskQueue queue;
//   queue.Put(task);                         // again after whatever its expected gain follows from
//   const std::string* id = queue.Best(warm_task, [](const std::string& id) { return false; });
//
// Put, Remove and Best take logarithmic time in the number of tasks; Best beside that looks at each
// that it skips. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

class TaskQueue {
 public:
  // Adds the task, or moves it to where it now belongs. One without a slice left is not kept.
  void Put(const v1::Task& task);
  // Nothing if it is not there.
  void Remove(const std::string& id);

  // For a worker that last worked on `warm_task` ("": on none): the task of the highest expected
  // gain, the warm one's counted kMoveMargin times, the lowest id of equal ones. Null: none is
  // there. Those that `skip` is true of are not for that worker. Valid until the next change.
  const std::string* Best(const std::string& warm_task,
                          absl::FunctionRef<bool(const std::string& id)> skip) const;

  bool empty() const { return gains_.empty(); }
  bool operator==(const TaskQueue&) const = default;

 private:
  using Rank = std::pair<double, std::string>;  // minus the gain, id: the first is the best

  std::map<std::string, double> gains_;  // by id
  std::set<Rank> ranks_;
};

}  // namespace warpsmith::planner
