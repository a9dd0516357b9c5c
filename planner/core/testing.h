// Short ways to say commands, for the core's tests.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/core/core.h"

namespace warpsmith::planner::testing {

inline Submit SubmitOf(const std::vector<std::string>& names, const std::string& arch = "host",
                       double seconds = 40) {
  Submit submit;
  submit.name = "set";
  for (const std::string& name : names) {
    submit.problems.push_back({name, "blob of " + name, {"default"}});
  }
  submit.arch = arch;
  submit.seconds_per_task = seconds;
  submit.policy = "rules";
  return submit;
}

inline Synchronize SyncOf(const std::string& worker, const std::string& session, int slots = 1,
                          const std::string& arch = "host") {
  Synchronize sync;
  sync.worker.set_id(worker);
  sync.worker.set_arch(arch);
  sync.worker.set_healthy(true);
  sync.session_id = session;
  sync.slots = slots;
  return sync;
}

inline v1::LeaseStatus StatusOf(const Grant& grant, double seconds, bool finished = false) {
  v1::LeaseStatus status;
  status.set_lease_id(grant.lease_id);
  status.set_task_id(grant.task_id);
  status.set_fence(grant.fence);
  status.set_seconds(seconds);
  status.set_finished(finished);
  status.set_specialist("memory");
  return status;
}

// A new incumbent; its blob's digest is made of its id and speedup.
inline Result ResultOf(const Grant& grant, const std::string& trial_id, double speedup) {
  Result result;
  result.lease_id = grant.lease_id;
  result.task_id = grant.task_id;
  result.fence = grant.fence;
  result.incumbent.set_trial_id(trial_id);
  result.incumbent.set_incumbent_blob(absl::StrCat(trial_id, "=", speedup));
  result.incumbent.set_speedup(speedup);
  result.incumbent.set_best_us(100 / speedup);
  result.incumbent.set_light_us(10);
  result.incumbent.set_specialist("memory");
  result.incumbent.set_action("vector_bytes 4 -> 16");
  return result;
}

}  // namespace warpsmith::planner::testing
