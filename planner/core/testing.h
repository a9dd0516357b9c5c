// Short ways to say commands, for the core's tests.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
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

// A call that joins, of a process of worker w that says which it is.
inline Synchronize JoinOf(const std::string& instance, std::vector<std::string> follows = {}) {
  Synchronize join = SyncOf("w", "");
  join.instance = instance;
  join.follows = std::move(follows);
  return join;
}

// A core, a clock and the reply of each command.
class Bench {
 public:
  Core core{CoreOptions{}};
  int64_t now_ms = 0;

  template <typename Command>
  auto Try(const Command& command) {
    return core.Handle(command, {now_ms, now_ms}).reply;
  }
  // For what must succeed.
  template <typename Command>
  auto Do(const Command& command) {
    auto reply = Try(command);
    INFO(reply.status().ToString());
    REQUIRE(reply.ok());
    return *std::move(reply);
  }
  SynchronizeAnswer Sync(const Synchronize& command) { return Do(command); }
  // Joins, and calls once more.
  SynchronizeAnswer Join(const std::string& worker, int slots = 1,
                         const std::string& arch = "host") {
    const SynchronizeAnswer joined = Sync(SyncOf(worker, "", slots, arch));
    CHECK(joined.start.empty());
    CHECK(joined.next_sync_after_ms == 0);
    session[worker] = joined.session_id;
    return Sync(SyncOf(worker, joined.session_id, slots, arch));
  }
  // Joins and takes the first lease.
  Grant Take(const std::string& worker, const std::string& arch = "host") {
    const SynchronizeAnswer answer = Join(worker, 1, arch);
    REQUIRE(answer.start.size() == 1);
    return answer.start[0];
  }
  SynchronizeAnswer Report(const std::string& worker, std::vector<v1::LeaseStatus> leases,
                           std::vector<Result> results = {}, int slots = 0,
                           const std::string& arch = "host") {
    Synchronize sync = SyncOf(worker, session[worker], slots, arch);
    sync.leases = std::move(leases);
    sync.results = std::move(results);
    return Sync(sync);
  }
  const v1::Task& Task(const std::string& id) { return core.state().FindTask(id)->task(); }
  bool RunDone() { return core.state().FindRun("r1")->run().done(); }
  // As a restart does: state from the snapshot, nothing else.
  void Restart() {
    const v1::PlannerState snapshot = core.state().ToProto();
    core = Core(CoreOptions{});
    core.Restore(snapshot);
    core.Forgive({now_ms, now_ms});
  }

  std::map<std::string, std::string> session;
};

}  // namespace warpsmith::planner::testing
