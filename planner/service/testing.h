// A client of the planner and messages for it, for the service's tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "tests/support/temporary_folder.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::planner::testing {

using Folder = support::TemporaryFolder;

inline v1::ProblemSet SetOf(int problems) {
  v1::ProblemSet set;
  set.set_name("set");
  for (int i = 0; i < problems; ++i) {
    v1::Problem& problem = *set.add_problems();
    problem.set_name(absl::StrCat("p", i));
    problem.set_description("doubles");
    for (const char* line : {"input x: f32[N] ~ normal", "y: f32[n: N] = x[n] * 2", "output y"}) {
      problem.add_graph(line);
    }
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name("default");
    (*workload.mutable_dims())["N"] = 64;
  }
  return set;
}

inline v1::SynchronizeRequest SyncOf(const std::string& worker, const std::string& session,
                                     int slots = 1) {
  v1::SynchronizeRequest request;
  request.mutable_worker()->set_id(worker);
  request.mutable_worker()->set_arch("host");
  request.mutable_worker()->set_healthy(true);
  request.set_session_id(session);
  request.set_slots(slots);
  return request;
}

inline void AddStatus(const v1::Lease& lease, double seconds, bool finished,
                      v1::SynchronizeRequest& request) {
  v1::LeaseStatus& status = *request.add_leases();
  status.set_lease_id(lease.id());
  status.set_task_id(lease.task_id());
  status.set_fence(lease.fence());
  status.set_seconds(seconds);
  status.set_finished(finished);
}

// An incumbent with one trial beside it.
inline void AddResult(const v1::Lease& lease, const std::string& trial_id, double speedup,
                      v1::SynchronizeRequest& request) {
  v1::LeaseResult& result = *request.add_results();
  result.set_lease_id(lease.id());
  result.set_task_id(lease.task_id());
  result.set_fence(lease.fence());
  v1::Incumbent& incumbent = *result.mutable_incumbent();
  incumbent.set_speedup(speedup);
  incumbent.set_light_us(1);
  v1::Baseline& baseline = *incumbent.mutable_baselines()->add_baselines();
  baseline.set_name("op_by_op");
  baseline.mutable_times()->set_graph_us(100);
  baseline.set_accurate(true);
  v1::Trial& trial = *incumbent.mutable_trial();
  trial.set_id(trial_id);
  trial.set_specialist("memory");
  trial.set_action("vector_bytes 4 -> 16");
  trial.set_verdict(v1::ACCEPTED);
  trial.set_source_digest(base::Sha256Hex("source of " + trial_id));
  trial.mutable_timing()->set_median_us(100 / speedup);
  (*trial.mutable_state())["a"] = 1;
  (*trial.mutable_state())["b"] = 2;
  *result.mutable_trials()->add_trials() = trial;
}

// Blocking calls.
class Client {
 public:
  explicit Client(const std::string& address)
      : channel_(rpc::Dial(address)),
        worker_(v1::WorkerService::NewStub(channel_)),
        planner_(v1::PlannerService::NewStub(channel_)) {}

  absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request,
                                                   int64_t timeout_ms = rpc::kCallTimeoutMs) {
    return Call(worker_.get(), &v1::WorkerService::Stub::Synchronize, request, timeout_ms);
  }
  absl::StatusOr<v1::SubmitReply> Submit(int problems, const std::string& request_id = "",
                                         double seconds = 40) {
    v1::SubmitRequest request;
    *request.mutable_problems() = SetOf(problems);
    request.set_arch("host");
    request.set_seconds_per_task(seconds);
    request.set_request_id(request_id);
    return Submit(request);
  }
  absl::StatusOr<v1::SubmitReply> Submit(const v1::SubmitRequest& request) {
    return Call(planner_.get(), &v1::PlannerService::Stub::Submit, request);
  }
  absl::StatusOr<v1::ListReply> List(const std::string& run_id = "") {
    v1::ListRequest request;
    request.set_run_id(run_id);
    return Call(planner_.get(), &v1::PlannerService::Stub::List, request);
  }
  absl::StatusOr<v1::ListReply> List(const v1::ListRequest& request) {
    return Call(planner_.get(), &v1::PlannerService::Stub::List, request);
  }
  absl::StatusOr<v1::CancelRunReply> CancelRun(const std::string& run_id) {
    v1::CancelRunRequest request;
    request.set_run_id(run_id);
    return Call(planner_.get(), &v1::PlannerService::Stub::CancelRun, request);
  }
  absl::StatusOr<v1::SetPriorityReply> SetPriority(const v1::SetPriorityRequest& request) {
    return Call(planner_.get(), &v1::PlannerService::Stub::SetPriority, request);
  }
  absl::StatusOr<v1::SetPriorityReply> SetPriority(const std::string& run_id, int priority) {
    v1::SetPriorityRequest request;
    request.set_run_id(run_id);
    request.set_priority(priority);
    return SetPriority(request);
  }
  absl::StatusOr<v1::GetTaskReply> GetTask(const std::string& task_id) {
    v1::GetTaskRequest request;
    request.set_task_id(task_id);
    request.set_with_trials(true);
    return Call(planner_.get(), &v1::PlannerService::Stub::GetTask, request);
  }
  absl::StatusOr<v1::GetBoardReply> GetBoard() {
    return Call(planner_.get(), &v1::PlannerService::Stub::GetBoard, v1::GetBoardRequest());
  }
  absl::StatusOr<v1::SetTaskReply> SetTask(const std::string& task_id, v1::TaskState state) {
    v1::SetTaskRequest request;
    request.set_task_id(task_id);
    request.set_state(state);
    return SetTask(request);
  }
  absl::StatusOr<v1::SetTaskReply> SetTask(const v1::SetTaskRequest& request) {
    return Call(planner_.get(), &v1::PlannerService::Stub::SetTask, request);
  }
  absl::StatusOr<v1::ReleaseWorkerReply> ReleaseWorker(const v1::ReleaseWorkerRequest& request) {
    return Call(planner_.get(), &v1::PlannerService::Stub::ReleaseWorker, request);
  }
  v1::WorkerService::Stub& worker() { return *worker_; }
  v1::PlannerService::Stub& planner() { return *planner_; }

 private:
  template <typename Stub, typename Request, typename Reply>
  absl::StatusOr<Reply> Call(Stub* stub,
                             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Reply*),
                             const Request& request, int64_t timeout_ms = rpc::kCallTimeoutMs) {
    grpc::ClientContext context;
    rpc::SetDeadline(context, timeout_ms);
    Reply reply;
    const grpc::Status status = (stub->*method)(&context, request, &reply);
    if (!status.ok()) return rpc::FromGrpc(status);
    return reply;
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::WorkerService::Stub> worker_;
  std::unique_ptr<v1::PlannerService::Stub> planner_;
};

}  // namespace warpsmith::planner::testing
