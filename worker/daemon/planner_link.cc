#include "worker/daemon/planner_link.h"

#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace warpsmith::daemon {

absl::StatusOr<v1::SynchronizeReply> GrpcPlannerLink::Synchronize(
    const v1::SynchronizeRequest& request, absl::Duration timeout) {
  const absl::StatusOr<std::string> addresses = address_of_();
  if (!addresses.ok()) return absl::UnavailableError(addresses.status().message());
  if (*addresses != addresses_) {
    addresses_ = *addresses;
    route_.emplace(addresses_);
  }
  const gpr_timespec deadline = rpc::In(absl::ToInt64Milliseconds(timeout));
  route_->Begin();
  while (true) {
    absl::StatusOr<v1::SynchronizeReply> reply = Try(request, deadline);
    // Whoever has just lost its planner waits before it calls the next one, as all others do that
    // have lost it; one that names the next one is there.
    const bool lost = !reply.ok() && answered_ && rpc::LeaderOf(reply.status()).empty();
    answered_ = reply.ok();
    if (!route_->Next(reply.status()) || lost) return reply;
  }
}

absl::StatusOr<v1::SynchronizeReply> GrpcPlannerLink::Try(const v1::SynchronizeRequest& request,
                                                          gpr_timespec deadline) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_.Dial(route_->address());
  // What is wrong with this worker's certificate may be put right while it waits.
  if (!channel.ok()) return absl::UnavailableError(channel.status().message());
  if (*channel != channel_) {
    channel_ = *std::move(channel);
    stub_ = v1::WorkerService::NewStub(channel_);
  }
  grpc::ClientContext context;
  context.set_deadline(deadline);
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
