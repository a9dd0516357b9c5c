// Calls to the planner, with errors that say what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "common/rpc/channel.h"
#include "common/rpc/route.h"
#include "common/security/dialer.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::cli {

class Client {
 public:
  // The planner at --planner (several: the one that leads), or the one that runs on --dir. Does not
  // connect yet; Unavailable if there is no address to connect to. A call takes at most `limit_ms`.
  static absl::StatusOr<Client> Of(const Context& context, int64_t limit_ms = rpc::kCallTimeoutMs);

  // Unavailable reads: no planner answers at ADDRESS, and what to do.
  absl::StatusOr<v1::SubmitReply> Submit(const v1::SubmitRequest& request);
  // All pages of it. Runs in the archive are listed by their id alone.
  absl::StatusOr<v1::ListReply> List(const std::string& run_id);
  // The runs in the archive that the planner remembers.
  absl::StatusOr<v1::ListReply> Archived();
  absl::StatusOr<v1::GetTaskReply> GetTask(const std::string& task_id, bool with_trials);
  absl::StatusOr<v1::GetBoardReply> GetBoard();
  // FailedPrecondition, too: it is to be cancelled, and had come to its end before.
  absl::StatusOr<v1::Task> SetTask(const v1::SetTaskRequest& request);
  absl::StatusOr<v1::CancelRunReply> CancelRun(const v1::CancelRunRequest& request);
  absl::StatusOr<v1::Run> SetPriority(const v1::SetPriorityRequest& request);
  absl::StatusOr<v1::WorkerInfo> HoldWorker(const v1::HoldWorkerRequest& request);
  absl::StatusOr<v1::WorkerInfo> ReleaseWorker(const v1::ReleaseWorkerRequest& request);

  // The run of that id, with its tasks; "" is the last one submitted. NotFound names the runs there
  // are.
  absl::StatusOr<v1::ListReply> Run(const std::string& run_id);
  // The tasks that `name` means: an id, or as much of RUN/PROBLEM:WORKLOAD@ARCH as is wanted. No
  // RUN means the last one that has such a problem, no WORKLOAD every one of the problem's. At
  // least one task.
  absl::StatusOr<std::vector<v1::Task>> FindTasks(const std::string& name);

 private:
  Client(const std::string& addresses, std::string dir, int64_t limit_ms,
         security::ClientFiles files);
  // To route_'s address.
  absl::Status Dial();
  // Of several planners one may stand still, with its host or by itself, and be followed by another
  // one: a call would wait for its whole limit. Unavailable: the one at hand is like that.
  absl::Status Probe();
  absl::Status Explain(const absl::Status& status) const;
  template <class Request, class Reply>
  absl::StatusOr<Reply> Call(grpc::Status (v1::PlannerService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Reply*),
                             const Request& request);

  rpc::Route route_;
  std::string address_;  // that was called last
  security::Dialer dialer_;
  std::shared_ptr<grpc::Channel> channel_;  // of stub_
  std::shared_ptr<grpc::Channel> probed_;
  int64_t limit_ms_;
  std::string dir_;  // that the planner runs on; empty: it was named by its address
  std::shared_ptr<v1::PlannerService::Stub> stub_;
};

// The tasks of `list` (of runs in order of submission) that `name` means; see Client::FindTasks.
// NotFound names those that may have been meant.
absl::StatusOr<std::vector<v1::Task>> MatchTasks(const v1::ListReply& list,
                                                 const std::string& name);

}  // namespace warpsmith::cli
