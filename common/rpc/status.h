// absl::Status and grpc::Status, one into the other: same codes, same message, and one of: the time
// to retry (the details are a google.protobuf.Duration), who leads ("leader " and an address).
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpsmith::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// A refusal that may be over after so long. Whoever is told so comes again then, each a little
// later, not at the same moment.
// `after`: above zero; of zero nothing is said.
absl::Status WithRetryAfter(absl::Status status, absl::Duration after);
// Nothing: the status does not say.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// A refusal by a planner that does not lead: another one does, at `address`.
absl::Status WithLeader(absl::Status status, const std::string& address);
// "": the status names none.
std::string LeaderOf(const absl::Status& status);

}  // namespace warpsmith::rpc
