#include "common/rpc/status.h"

#include <google/protobuf/duration.pb.h>

#include <string>

#include "absl/strings/cord.h"
#include "common/base/text.h"

namespace warpsmith::rpc {

namespace {

// gRPC sends it as a header, of which clients take 8 KiB in all.
constexpr size_t kMaxMessage = 4'000;
constexpr char kRetryAfter[] = "warpsmith/retry-after";  // names the payload

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      base::Shortened(std::string_view(status.message().data(), status.message().size()),
                      kMaxMessage),
      std::string(status.GetPayload(kRetryAfter).value_or(absl::Cord())));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status from(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (!status.error_details().empty()) {
    from.SetPayload(kRetryAfter, absl::Cord(status.error_details()));
  }
  return from;
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration after) {
  google::protobuf::Duration duration;
  duration.set_seconds(absl::IDivDuration(after, absl::Seconds(1), &after));
  duration.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(after)));
  status.SetPayload(kRetryAfter, absl::Cord(duration.SerializeAsString()));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfter);
  google::protobuf::Duration duration;
  if (!payload || !duration.ParseFromString(std::string(*payload))) return std::nullopt;
  const absl::Duration after =
      absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  return std::max(after, absl::ZeroDuration());
}

}  // namespace warpsmith::rpc
