#include "common/problem/sealed_trials.h"

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/text.h"
#include "common/problem/canonical.h"
#include "common/problem/compressed.h"
#include "common/problem/verdict.h"

namespace warpsmith::problem {
namespace {

constexpr size_t kMaxSpecialistBytes = 200;
constexpr size_t kMaxReasonBytes = 2'000;

bool IsCount(int64_t value, int64_t most) { return value >= 0 && value <= most; }
bool IsTime(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

absl::Status Refused(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("a batch of trials ", what));
}

void Count(const v1::Trial& trial, v1::TrialSummary& summary) {
  const std::string specialist = base::Shortened(trial.specialist(), kMaxSpecialistBytes);
  v1::SpecialistCount& count = CountOf(specialist, *summary.mutable_counts());
  const bool judged = IsJudged(trial.verdict());
  const double seconds = IsTime(trial.seconds()) ? trial.seconds() : 0;
  count.set_trials(count.trials() + 1);
  count.set_judged(count.judged() + judged);
  count.set_accepted(count.accepted() + (trial.verdict() == v1::ACCEPTED));
  count.set_seconds(count.seconds() + seconds);
  summary.set_trials(summary.trials() + 1);
  summary.set_judged(summary.judged() + judged);
  summary.set_seconds(summary.seconds() + seconds);
  summary.set_specialist(specialist);
  if (trial.verdict() == v1::IMPLAUSIBLE) {
    summary.set_implausible(
        base::Shortened(absl::StrCat("trial ", trial.id(), ": ", trial.reason()), kMaxReasonBytes));
  }
  const std::string digest = absl::HexStringToBytes(
      trial.source_digest().size() == 2 * kSourceDigestBytes ? trial.source_digest() : "");
  if (!digest.empty() && IsKnown(trial.verdict())) {
    summary.mutable_judged_sources()->append(digest);
  }
}

}  // namespace

v1::SpecialistCount& CountOf(const std::string& specialist, SpecialistCounts& counts) {
  for (v1::SpecialistCount& count : counts) {
    if (count.specialist() == specialist) return count;
  }
  if (counts.size() >= kMaxSpecialists - 1 && specialist != kOtherSpecialists) {
    return CountOf(kOtherSpecialists, counts);
  }
  v1::SpecialistCount& count = *counts.Add();
  count.set_specialist(specialist);
  return count;
}

v1::TrialSummary SummaryOf(const v1::TrialBatch& batch) {
  v1::TrialSummary summary;
  for (const v1::Trial& trial : batch.trials()) Count(trial, summary);
  return summary;
}

v1::SealedTrials Seal(const std::string& batch, v1::TrialSummary summary, int64_t first) {
  v1::SealedTrials sealed;
  sealed.set_first(first);
  *sealed.mutable_summary() = std::move(summary);
  sealed.set_sealed(Compressed(batch));
  return sealed;
}

v1::SealedTrials Seal(const v1::TrialBatch& batch, int64_t first) {
  return Seal(CanonicalBytes(batch), SummaryOf(batch), first);
}

absl::StatusOr<v1::TrialBatch> Open(const v1::SealedTrials& sealed) {
  absl::StatusOr<std::string> bytes = Uncompressed(sealed.sealed(), "a batch of trials");
  if (!bytes.ok()) return bytes.status();
  v1::TrialBatch batch;
  if (!batch.ParseFromString(*bytes)) return absl::DataLossError("a batch of trials is none");
  if (batch.trials_size() != sealed.summary().trials()) {
    return absl::DataLossError(absl::StrCat("a batch of ", batch.trials_size(),
                                            " trials, that are ", sealed.summary().trials(),
                                            " by its summary"));
  }
  return batch;
}

absl::Status CheckSummary(const v1::SealedTrials& sealed) {
  const v1::TrialSummary& summary = sealed.summary();
  const size_t digests = summary.judged_sources().size();
  if (sealed.sealed().empty() || sealed.sealed().size() > kMaxSealedBytes) {
    return Refused(
        absl::StrCat("of ", sealed.sealed().size(), " bytes: it has 1 to ", kMaxSealedBytes));
  }
  if (summary.ByteSizeLong() > kMaxSummaryBytes) {
    return Refused(absl::StrCat("whose summary has ", summary.ByteSizeLong(), " bytes: at most ",
                                kMaxSummaryBytes));
  }
  if (summary.trials() < 1 || !IsCount(summary.trials(), kMaxTrialsInBatch)) {
    return Refused(
        absl::StrCat("with ", summary.trials(), " trials: it has 1 to ", kMaxTrialsInBatch));
  }
  if (!IsCount(sealed.first(), INT64_MAX - kMaxTrialsInBatch)) {
    return Refused(absl::StrCat("that begins with number ", sealed.first()));
  }
  if (!IsCount(summary.judged(), summary.trials()) || !IsTime(summary.seconds()) ||
      digests % kSourceDigestBytes != 0 ||
      digests / kSourceDigestBytes > static_cast<size_t>(summary.trials())) {
    return Refused(absl::StrCat("of ", summary.trials(), " trials: ", summary.judged(), " judged, ",
                                summary.seconds(), " s, ", digests, " bytes of digests"));
  }
  if (summary.counts_size() > kMaxSpecialists) {
    return Refused(
        absl::StrCat("by ", summary.counts_size(), " specialists: at most ", kMaxSpecialists));
  }
  int64_t trials = 0;
  for (const v1::SpecialistCount& count : summary.counts()) {
    if (!IsCount(count.trials(), summary.trials()) || !IsCount(count.judged(), count.trials()) ||
        !IsCount(count.accepted(), count.trials()) || !IsTime(count.seconds())) {
      return Refused(absl::StrCat("whose specialist '", count.specialist(), "' has ",
                                  count.trials(), " trials, ", count.judged(), " judged, ",
                                  count.accepted(), " accepted, ", count.seconds(), " s"));
    }
    trials += count.trials();
  }
  if (trials != summary.trials()) {
    return Refused(
        absl::StrCat("of ", summary.trials(), " trials, ", trials, " by its specialists"));
  }
  return absl::OkStatus();
}

void AddJudgedSources(const std::string& judged_sources, size_t limit,
                      std::set<std::string>& known) {
  for (size_t at = 0; at + kSourceDigestBytes <= judged_sources.size() && known.size() < limit;
       at += kSourceDigestBytes) {
    known.insert(absl::BytesToHexString(judged_sources.substr(at, kSourceDigestBytes)));
  }
}

}  // namespace warpsmith::problem
