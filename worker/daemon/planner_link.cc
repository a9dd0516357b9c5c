#include "worker/daemon/planner_link.h"

#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace warpsmith::daemon {

absl::StatusOr<v1::SynchronizeReply> GrpcPlannerLink::Synchronize(
    const v1::SynchronizeRequest& request, absl::Duration timeout) {
  absl::StatusOr<std::string> address = address_of_();
  if (!address.ok()) return absl::UnavailableError(address.status().message());
  if (*address != address_) {
    address_ = *address;
    stub_ = v1::WorkerService::NewStub(rpc::Dial(address_));
  }
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::ToInt64Milliseconds(timeout));
  {
    absl::MutexLock lock(&mutex_);
    if (cancel_next_) {
      cancel_next_ = false;
      return absl::CancelledError("cancelled before it was made");
    }
    under_way_ = &context;
  }
  v1::SynchronizeReply reply;
  grpc::Status status = stub_->Synchronize(&context, request, &reply);
  absl::MutexLock lock(&mutex_);
  under_way_ = nullptr;
  if (!status.ok()) return rpc::FromGrpc(status);
  return reply;
}

void GrpcPlannerLink::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (under_way_ != nullptr) {
    under_way_->TryCancel();
  } else {
    cancel_next_ = true;
  }
}

}  // namespace warpsmith::daemon
