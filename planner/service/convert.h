// Between the wire and the core's commands. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/problem/canonical.h"
#include "common/problem/sealed_trials.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Limits of one call; more is an InvalidArgument that names them.
inline constexpr int kMaxResults = 1'000;
inline constexpr int kMaxLeases = 64;
// Digests that a lease carries of what was judged before, newest kept.
inline constexpr int kMaxJudgedSources = 4'096;

using problem::CanonicalBytes;
using problem::kMaxTrialsInBatch;

// What a call brings, to be stored where an event comes to name it.
struct Contents {
  std::map<std::string, std::string> blobs;    // by digest
  std::map<std::string, store::Facts> trials;  // sealed, by TrialsRecorded.batch
};

// Adds `message` to the blobs and returns its digest.
std::string AddBlob(const google::protobuf::Message& message, Contents& contents);

// The facts of a batch, and back: the head is its summary, the body what is sealed.
store::Facts FactsOf(const std::string& task_id, const std::string& batch, v1::SealedTrials trials);
absl::StatusOr<v1::SealedTrials> TrialsOf(store::Facts facts);  // `first` is not kept

absl::StatusOr<Synchronize> ToCommand(v1::SynchronizeRequest request, Contents& contents);
// Every problem is validated.
absl::StatusOr<Submit> ToCommand(const v1::SubmitRequest& request, Contents& contents);

// What `events` name, moved out of `contents`.
void TakeNamed(const std::vector<v1::Event>& events, Contents& contents,
               std::vector<std::string>& blobs, std::vector<store::Facts>& facts);
std::vector<std::string> Serialize(const std::vector<v1::Event>& events);

}  // namespace warpsmith::planner
