// absl::Status and grpc::Status, one into the other: same codes, same message.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace warpsmith::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace warpsmith::rpc
