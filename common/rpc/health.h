// Asks a server's standard health service (grpc.health.v1.Health) whether it serves.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace warpsmith::rpc {

// Over a connection of its own, so that a listener that no longer accepts is noticed. OK: it
// serves. Unavailable: nobody answers, or it answers that it does not serve. DeadlineExceeded: no
// answer in time. Blocks; not from inside a gRPC callback.
absl::Status CheckHealth(const std::string& address, int64_t timeout_ms);
// Of one service: a planner that follows serves none, and is well. `service`: its full name.
absl::Status CheckService(const std::string& address, const std::string& service,
                          int64_t timeout_ms);
absl::Status CheckService(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                          int64_t timeout_ms);
// Over one that there is already.
absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, int64_t timeout_ms);

}  // namespace warpsmith::rpc
