#include "bench/planner/history.h"

#include "absl/strings/str_cat.h"
#include "planner/core/allocator.h"

namespace warpsmith::bench {

std::vector<v1::Event> FirstSlice(const v1::Task& task, const std::string& incumbent_blob,
                                  const std::string& batch, int trials, double speedup,
                                  int64_t at_unix_ms) {
  std::vector<v1::Event> events(4);
  const int64_t fence = task.fence() + 1;
  const std::string lease_id = absl::StrCat(task.id(), "#", fence);
  const double seconds = planner::NextSlice(task);
  for (v1::Event& event : events) event.set_at_unix_ms(at_unix_ms);
  v1::LeaseGranted& granted = *events[0].mutable_lease_granted();
  granted.set_task_id(task.id());
  granted.set_lease_id(lease_id);
  granted.set_worker_id("earlier");
  granted.set_fence(fence);
  granted.set_seconds(seconds);
  v1::TrialsRecorded& recorded = *events[1].mutable_trials_recorded();
  recorded.set_task_id(task.id());
  recorded.set_fence(fence);
  recorded.set_batch(batch);
  recorded.set_first(1);
  recorded.set_trials(trials);
  recorded.set_judged(trials);
  recorded.set_specialist("memory");
  v1::ResultAccepted& accepted = *events[2].mutable_result_accepted();
  accepted.set_task_id(task.id());
  accepted.set_fence(fence);
  accepted.set_trial_id(absl::StrCat(lease_id, "/1"));
  accepted.set_incumbent_blob(incumbent_blob);
  accepted.set_speedup(speedup);
  accepted.set_best_us(1000 / speedup);
  accepted.set_light_us(10);
  accepted.set_worker_id("earlier");
  accepted.set_specialist("memory");
  accepted.set_action("vector_bytes 4 -> 16");
  v1::LeaseEnded& ended = *events[3].mutable_lease_ended();
  ended.set_task_id(task.id());
  ended.set_lease_id(lease_id);
  ended.set_fence(fence);
  ended.set_seconds(seconds);
  ended.set_specialist("memory");
  return events;
}

}  // namespace warpsmith::bench
