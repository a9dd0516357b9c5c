// The planner's two gRPC services, callback API. A reactor converts, hands on to the Planner and
// returns; it never waits: two handlers that block stall a whole gRPC server. The guard has
// admitted each call before; who makes it is told to the Planner.
#pragma once

#include <grpcpp/grpcpp.h>

#include "common/security/guard.h"
#include "planner/service/planner.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::planner {

class GrpcWorkerService final : public v1::WorkerService::CallbackService {
 public:
  // `planner` and `guard` must outlive the server.
  GrpcWorkerService(Planner* planner, security::Guard* guard) : planner_(planner), guard_(guard) {}

  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* context,
                                        const v1::SynchronizeRequest* request,
                                        v1::SynchronizeReply* reply) override;

 private:
  Planner* const planner_;
  security::Guard* const guard_;
};

class GrpcPlannerService final : public v1::PlannerService::CallbackService {
 public:
  GrpcPlannerService(Planner* planner, security::Guard* guard) : planner_(planner), guard_(guard) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitReply* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request, v1::ListReply* reply) override;
  grpc::ServerUnaryReactor* GetTask(grpc::CallbackServerContext* context,
                                    const v1::GetTaskRequest* request,
                                    v1::GetTaskReply* reply) override;
  grpc::ServerUnaryReactor* GetBoard(grpc::CallbackServerContext* context,
                                     const v1::GetBoardRequest* request,
                                     v1::GetBoardReply* reply) override;
  grpc::ServerUnaryReactor* SetTask(grpc::CallbackServerContext* context,
                                    const v1::SetTaskRequest* request,
                                    v1::SetTaskReply* reply) override;
  grpc::ServerUnaryReactor* CancelRun(grpc::CallbackServerContext* context,
                                      const v1::CancelRunRequest* request,
                                      v1::CancelRunReply* reply) override;
  grpc::ServerUnaryReactor* SetPriority(grpc::CallbackServerContext* context,
                                        const v1::SetPriorityRequest* request,
                                        v1::SetPriorityReply* reply) override;
  grpc::ServerUnaryReactor* HoldWorker(grpc::CallbackServerContext* context,
                                       const v1::HoldWorkerRequest* request,
                                       v1::HoldWorkerReply* reply) override;
  grpc::ServerUnaryReactor* ReleaseWorker(grpc::CallbackServerContext* context,
                                          const v1::ReleaseWorkerRequest* request,
                                          v1::ReleaseWorkerReply* reply) override;

 private:
  Planner* const planner_;
  security::Guard* const guard_;
};

}  // namespace warpsmith::planner
