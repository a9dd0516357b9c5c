// The worker's way to the planner.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/route.h"
#include "common/security/dialer.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::daemon {

class PlannerLink {
 public:
  virtual ~PlannerLink() = default;
  // Blocks for at most `timeout`, which includes waiting for a planner that is away.
  virtual absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request,
                                                           absl::Duration timeout) = 0;
  // Ends the call that is under way on another thread, or else the next one, with Cancelled: so
  // that a call that is just about to be made is not missed. Any thread.
  virtual void Cancel() = 0;
};

// Where the planner is now, or several of which one leads (common/rpc/route.h): fixed addresses, or
// what DIR/planner.address says, which a planner that was started again may have changed.
using AddressSource = std::function<absl::StatusOr<std::string>()>;

class GrpcPlannerLink : public PlannerLink {
 public:
  explicit GrpcPlannerLink(AddressSource address, security::Dialer dialer = {})
      : address_of_(std::move(address)), dialer_(std::move(dialer)) {}
  absl::StatusOr<v1::SynchronizeReply> Synchronize(const v1::SynchronizeRequest& request,
                                                   absl::Duration timeout) override;
  void Cancel() override;

 private:
  absl::StatusOr<v1::SynchronizeReply> Try(const v1::SynchronizeRequest& request,
                                           gpr_timespec deadline);

  const AddressSource address_of_;
  std::string addresses_;  // as told
  std::optional<rpc::Route> route_;
  bool answered_ = false;  // the last call was
  security::Dialer dialer_;
  std::shared_ptr<grpc::Channel> channel_;  // of stub_
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  absl::Mutex mutex_;
  grpc::ClientContext* under_way_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancel_next_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace warpsmith::daemon
