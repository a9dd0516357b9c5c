#include "planner/core/queue.h"

#include <cmath>

#include "planner/core/allocator.h"

namespace warpsmith::planner {

void TaskQueue::Put(const v1::Task& task) {
  const double gain = ExpectedGain(task);
  if (NextSlice(task) <= 0 || std::isnan(gain)) return Remove(task.id());
  const auto [known, fresh] = gains_.try_emplace(task.id(), gain);
  if (!fresh) {
    if (known->second == gain) return;
    ranks_.erase({-known->second, task.id()});
    known->second = gain;
  }
  ranks_.emplace(-gain, task.id());
}

void TaskQueue::Remove(const std::string& id) {
  const auto found = gains_.find(id);
  if (found == gains_.end()) return;
  ranks_.erase({-found->second, id});
  gains_.erase(found);
}

const std::string* TaskQueue::Best(const std::string& warm_task,
                                   absl::FunctionRef<bool(const std::string& id)> skip) const {
  auto other = ranks_.begin();
  while (other != ranks_.end() && (other->second == warm_task || skip(other->second))) ++other;
  const auto warm = gains_.find(warm_task);
  if (warm == gains_.end() || skip(warm_task)) {
    return other == ranks_.end() ? nullptr : &other->second;
  }
  // Compared as ranks are: by gain, then by id.
  const bool warm_is_best =
      other == ranks_.end() || Rank(-warm->second * kMoveMargin, warm->first) < *other;
  return warm_is_best ? &warm->first : &other->second;
}

}  // namespace warpsmith::planner
