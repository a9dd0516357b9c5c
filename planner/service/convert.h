// Between the wire and the core's commands. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/core/core.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Limits of one call; more is an InvalidArgument that names them.
inline constexpr int kMaxResults = 1'000;
inline constexpr int kMaxLeases = 64;
inline constexpr int kMaxTrialsInBatch = 10'000;
// Digests that a lease carries of what was judged before, newest kept.
inline constexpr int kMaxJudgedSources = 4'096;

// Bytes by digest: to be stored where an event comes to name them.
using Blobs = std::map<std::string, std::string>;

// Equal messages give equal bytes, whatever the order of their maps was.
std::string CanonicalBytes(const google::protobuf::Message& message);
// Adds `message` to `blobs` and returns its digest.
std::string AddBlob(const google::protobuf::Message& message, Blobs& blobs);

absl::StatusOr<Synchronize> ToCommand(const v1::SynchronizeRequest& request, Blobs& blobs);
// Every problem is validated.
absl::StatusOr<Submit> ToCommand(const v1::SubmitRequest& request, Blobs& blobs);

// The blobs that `events` name, moved out of `blobs`.
std::vector<std::string> TakeNamed(const std::vector<v1::Event>& events, Blobs& blobs);
std::vector<std::string> Serialize(const std::vector<v1::Event>& events);

}  // namespace warpsmith::planner
