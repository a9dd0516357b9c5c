#include "tests/e2e/answers.h"

#include "common/rpc/channel.h"
#include "common/rpc/route.h"
#include "common/rpc/status.h"

namespace warpsmith::e2e {
namespace {

template <class Request, class Reply>
absl::StatusOr<Reply> Call(const Answers& answers,
                           grpc::Status (v1::PlannerService::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&, Reply*),
                           const Request& request) {
  const auto addresses = answers.Addresses();
  if (!addresses.ok()) return addresses.status();
  rpc::Route route(*addresses);
  route.Begin();
  while (true) {
    auto stub = v1::PlannerService::NewStub(rpc::DialFresh(route.address()));
    grpc::ClientContext context;
    rpc::SetDeadline(context, rpc::kCallTimeoutMs);
    Reply reply;
    const absl::Status status = rpc::FromGrpc((stub.get()->*method)(&context, request, &reply));
    if (status.ok()) return reply;
    if (!route.Next(status)) return status;
  }
}

}  // namespace

absl::StatusOr<v1::ListReply> Answers::List(const std::string& run_id) const {
  v1::ListRequest request;
  request.set_run_id(run_id);
  return Call(*this, &v1::PlannerService::Stub::List, request);
}

absl::StatusOr<v1::GetTaskReply> Answers::GetTask(const std::string& task_id) const {
  v1::GetTaskRequest request;
  request.set_task_id(task_id);
  request.set_with_trials(true);
  return Call(*this, &v1::PlannerService::Stub::GetTask, request);
}

}  // namespace warpsmith::e2e
