// Trials as they travel from worker to planner and are kept there: a batch compressed, with a
// summary beside it that says all that a planner needs to know. Nobody opens a batch but who reads
// its trials.
//
//   v1::SealedTrials sealed = Seal(batch, first);      // the worker
//   absl::Status status = CheckSummary(sealed);         // whoever takes it in
//   absl::StatusOr<v1::TrialBatch> batch = Open(sealed);
//
// Any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::problem {

// Limits of one batch.
inline constexpr int kMaxTrialsInBatch = 10'000;
inline constexpr size_t kMaxSealedBytes = size_t{8} << 20;
inline constexpr size_t kMaxSummaryBytes = size_t{1} << 20;
// Different specialists of a batch, or a task; the trials of more are counted under this name.
inline constexpr int kMaxSpecialists = 64;
inline constexpr char kOtherSpecialists[] = "others";
// Of a source's digest: SHA-256.
inline constexpr size_t kSourceDigestBytes = 32;

// The count of that specialist, a new one if there is none, or that of all others beyond
// kMaxSpecialists.
using SpecialistCounts = google::protobuf::RepeatedPtrField<v1::SpecialistCount>;
v1::SpecialistCount& CountOf(const std::string& specialist, SpecialistCounts& counts);

v1::TrialSummary SummaryOf(const v1::TrialBatch& batch);

// `first`: SealedTrials.first. Equal batches give equal bytes.
v1::SealedTrials Seal(const v1::TrialBatch& batch, int64_t first);

// The same of a serialised TrialBatch, whose summary is known.
v1::SealedTrials Seal(const std::string& batch, v1::TrialSummary summary, int64_t first);

// DataLoss: it is damaged, or not what its summary says.
absl::StatusOr<v1::TrialBatch> Open(const v1::SealedTrials& sealed);

// InvalidArgument: larger than the limits, or numbers that cannot be. Whether it is what is sealed
// only Open tells.
absl::Status CheckSummary(const v1::SealedTrials& sealed);

// The digests of TrialSummary.judged_sources, as text (hex), added to `known` while that has fewer
// than `limit`.
void AddJudgedSources(const std::string& judged_sources, size_t limit,
                      std::set<std::string>& known);

}  // namespace warpsmith::problem
