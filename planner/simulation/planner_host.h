// The machine of a planner: the real service and the real writer on a simulated disk, in simulated
// time. It crashes, also in the middle of a commit, and comes back from its disk; it stands still
// for a while and goes on; its disk answers late, wrongly or takes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/store/checksum.h"
#include "common/store/faulty_store.h"
#include "common/store/memory_store.h"
#include "planner/service/service.h"
#include "planner/simulation/checker.h"
#include "planner/simulation/faults.h"
#include "planner/simulation/world.h"

namespace warpsmith::planner::simulation {

class PlannerHost {
 public:
  template <typename R>
  using Done = std::function<void(absl::StatusOr<R>)>;

  // `faults` may change while it runs. All outlive this.
  PlannerHost(World* world, const Faults* faults, Checker* checker);

  // As over a connection: Unavailable where nobody listens.
  // Gives the call's number, for Cancel: the caller is gone.
  int64_t Synchronize(v1::SynchronizeRequest request, Done<v1::SynchronizeReply> done);
  void Cancel(int64_t call);
  void Submit(const v1::SubmitRequest& request, Done<v1::Run> done);
  void SetTask(const planner::SetTask& command);
  void CancelRun(const planner::CancelRun& command);
  void HoldWorker(const planner::HoldWorker& command);
  void ReleaseWorker(const planner::ReleaseWorker& command);

  // Null: down.
  const Core* core() const { return service_ == nullptr ? nullptr : &service_->core(); }
  // Nothing that was handed out waits to be durable.
  bool Settled() const { return service_ != nullptr && writes_.empty() && batch_.empty(); }
  // Tasks in the archive on the disk.
  std::vector<v1::Task> Archived();
  // What the log on the disk makes, applied to nothing.
  std::string StateOfLog();
  // A checksum of all that was made durable and answered, in order.
  int64_t Digest() const { return digest_; }

  int crashes() const { return crashes_; }
  int pauses() const { return pauses_; }

 private:
  using Finish = std::function<void(absl::StatusOr<Reply>, int64_t handled_ms)>;
  struct Waiting {
    Finish finish;
    std::string worker;  // "": of a person
    int64_t handled_ms = 0;
  };

  // Runs now, or when the planner runs again; not at all if it has died by then.
  void InPlanner(std::function<void()> action);
  Now PlannersNow() const { return {world_->now_ms() + clock_offset_ms_, world_->now_ms()}; }
  void Recover();
  void Crash();
  void Tick();
  int64_t Call(const std::string& worker, Command command, Contents contents, Finish finish);
  void HandOut();
  void ScheduleCommit(int64_t pause_ms);
  void TakeBatch();
  void Commit();
  void TellChecker();
  void Note(const std::string& bytes) { digest_ = store::Checksum(bytes, digest_); }

  World* const world_;
  const Faults* const faults_;
  Checker* const checker_;
  const int64_t keep_over_tasks_;
  const std::shared_ptr<store::MemoryStore::Disk> disk_ =
      std::make_shared<store::MemoryStore::Disk>();
  int64_t disk_full_until_ms_ = 0;
  int64_t checked_ = 0;  // the last revision that the checker knows
  int64_t batches_ = 0;  // of trials, that are recorded up to there

  // Of one process.
  int64_t generation_ = 0;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<store::FaultyStore> faulty_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Service> service_;
  int64_t clock_offset_ms_ = 0;  // a new process has a new monotonic clock
  int64_t asleep_until_ms_ = 0;
  int64_t calls_ = 0;
  std::map<int64_t, Waiting> waiting_;  // by call
  std::deque<Write> writes_;
  bool commit_scheduled_ = false;
  std::vector<Write> batch_;  // of the commit under way, and no longer in writes_
  int commit_failures_ = 0;

  int64_t digest_ = 0;
  int crashes_ = 0;
  int pauses_ = 0;
};

}  // namespace warpsmith::planner::simulation
