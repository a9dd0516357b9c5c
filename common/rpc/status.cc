#include "common/rpc/status.h"

#include <string>

#include "common/base/text.h"

namespace warpsmith::rpc {

namespace {

// gRPC sends it as a header, of which clients take 8 KiB in all.
constexpr size_t kMaxMessage = 4'000;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      base::Shortened(std::string_view(status.message().data(), status.message().size()),
                      kMaxMessage));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace warpsmith::rpc
