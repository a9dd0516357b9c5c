#include "planner/service/grpc_service.h"

#include <utility>

#include "common/rpc/status.h"
#include "common/security/tls.h"

namespace warpsmith::planner {
namespace {

// Finishes `reactor` with the planner's answer. The planner calls it once, from one of its threads;
// `reply` lives until then.
template <typename Reply, typename Reactor>
Planner::Done<Reply> Finish(Reactor* reactor, Reply* reply) {
  return [reactor, reply](absl::StatusOr<Reply> answer) {
    if (answer.ok()) *reply = *std::move(answer);
    reactor->Finish(rpc::ToGrpc(answer.status()));
  };
}

// Lives from the call's start until gRPC is through with it, after OnCancel and Finish.
class SynchronizeReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit SynchronizeReactor(Planner* planner) : planner_(planner), call_(planner->NewCall()) {}

  void Start(const absl::StatusOr<security::Caller>& caller, const v1::SynchronizeRequest& request,
             v1::SynchronizeReply* reply) {
    if (!caller.ok()) return Finish(rpc::ToGrpc(caller.status()));
    planner_->Synchronize(call_, *caller, request, planner::Finish(this, reply));
  }
  void OnCancel() override { planner_->Cancel(call_); }
  void OnDone() override { delete this; }

 private:
  Planner* const planner_;
  const int64_t call_;
};

}  // namespace

grpc::ServerUnaryReactor* GrpcWorkerService::Synchronize(grpc::CallbackServerContext* context,
                                                         const v1::SynchronizeRequest* request,
                                                         v1::SynchronizeReply* reply) {
  auto* reactor = new SynchronizeReactor(planner_);
  reactor->Start(security::CallerOf(*context, *guard_), *request, reply);
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::Submit(grpc::CallbackServerContext* context,
                                                     const v1::SubmitRequest* request,
                                                     v1::SubmitReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<security::Caller> caller = security::CallerOf(*context, *guard_);
  if (caller.ok()) {
    planner_->Submit(*caller, *request, Finish(reactor, reply));
  } else {
    reactor->Finish(rpc::ToGrpc(caller.status()));
  }
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::List(grpc::CallbackServerContext* context,
                                                   const v1::ListRequest* request,
                                                   v1::ListReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  planner_->List(*request, Finish(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::GetTask(grpc::CallbackServerContext* context,
                                                      const v1::GetTaskRequest* request,
                                                      v1::GetTaskReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  planner_->GetTask(*request, Finish(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::GetBoard(grpc::CallbackServerContext* context,
                                                       const v1::GetBoardRequest*,
                                                       v1::GetBoardReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  planner_->GetBoard(Finish(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::SetTask(grpc::CallbackServerContext* context,
                                                      const v1::SetTaskRequest* request,
                                                      v1::SetTaskReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<security::Caller> caller = security::CallerOf(*context, *guard_);
  if (caller.ok()) {
    planner_->SetTask(*caller, *request, Finish(reactor, reply));
  } else {
    reactor->Finish(rpc::ToGrpc(caller.status()));
  }
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::CancelRun(grpc::CallbackServerContext* context,
                                                        const v1::CancelRunRequest* request,
                                                        v1::CancelRunReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<security::Caller> caller = security::CallerOf(*context, *guard_);
  if (caller.ok()) {
    planner_->CancelRun(*caller, *request, Finish(reactor, reply));
  } else {
    reactor->Finish(rpc::ToGrpc(caller.status()));
  }
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::SetPriority(grpc::CallbackServerContext* context,
                                                          const v1::SetPriorityRequest* request,
                                                          v1::SetPriorityReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<security::Caller> caller = security::CallerOf(*context, *guard_);
  if (caller.ok()) {
    planner_->SetPriority(*caller, *request, Finish(reactor, reply));
  } else {
    reactor->Finish(rpc::ToGrpc(caller.status()));
  }
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::HoldWorker(grpc::CallbackServerContext* context,
                                                         const v1::HoldWorkerRequest* request,
                                                         v1::HoldWorkerReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  planner_->HoldWorker(*request, Finish(reactor, reply));
  return reactor;
}

grpc::ServerUnaryReactor* GrpcPlannerService::ReleaseWorker(grpc::CallbackServerContext* context,
                                                            const v1::ReleaseWorkerRequest* request,
                                                            v1::ReleaseWorkerReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  planner_->ReleaseWorker(*request, Finish(reactor, reply));
  return reactor;
}

}  // namespace warpsmith::planner
