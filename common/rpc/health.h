// Asks a server's standard health service (grpc.health.v1.Health) whether it serves.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace warpsmith::rpc {

// Over a connection of its own, so that a listener that no longer accepts is noticed. OK: it
// serves. Unavailable: nobody answers, or it answers that it does not serve. DeadlineExceeded: no
// answer in time. Blocks; not from inside a gRPC callback.
absl::Status CheckHealth(const std::string& address, int64_t timeout_ms);

}  // namespace warpsmith::rpc
