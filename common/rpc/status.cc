#include "common/rpc/status.h"

#include <google/protobuf/duration.pb.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/text.h"

namespace warpsmith::rpc {

namespace {

// gRPC sends it as a header, of which clients take 8 KiB in all.
constexpr size_t kMaxMessage = 4'000;
constexpr char kRetryAfter[] = "warpsmith/retry-after";  // names a payload
constexpr char kLeader[] = "warpsmith/leader";
// No Duration begins like this: its first byte would be of field 13.
constexpr char kLeaderMark[] = "leader ";

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto leader = status.GetPayload(kLeader);
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      base::Shortened(std::string_view(status.message().data(), status.message().size()),
                      kMaxMessage),
      leader ? absl::StrCat(kLeaderMark, std::string(*leader))
             : std::string(status.GetPayload(kRetryAfter).value_or(absl::Cord())));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status from(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const std::string details = status.error_details();
  absl::string_view leader = details;
  if (absl::ConsumePrefix(&leader, kLeaderMark)) {
    from.SetPayload(kLeader, absl::Cord(leader));
  } else if (!details.empty()) {
    from.SetPayload(kRetryAfter, absl::Cord(details));
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

absl::Status WithLeader(absl::Status status, const std::string& address) {
  status.SetPayload(kLeader, absl::Cord(address));
  return status;
}

std::string LeaderOf(const absl::Status& status) {
  return std::string(status.GetPayload(kLeader).value_or(absl::Cord()));
}

}  // namespace warpsmith::rpc
