#include "common/store/store.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::store {
namespace {

constexpr char kStalePayload[] = "warpsmith/stale-epoch";

}  // namespace

std::string TokenOf(const Identity& identity) {
  return absl::StrCat(identity.id, ".", identity.generation);
}

absl::Status StaleEpoch(int64_t epoch, int64_t current) {
  absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      "epoch ", epoch, " is not the current one (", current, "): another planner has taken over"));
  status.SetPayload(kStalePayload, absl::Cord());
  return status;
}

Fate FateOf(const Sweep& sweep, const std::string& digest, const Mark* mark) {
  if (sweep.named(digest)) return Fate::kNamed;
  if (mark == nullptr) return Fate::kMark;
  if (mark->revision > sweep.revision) return Fate::kKeep;  // it may have been named since
  const bool confirmed = mark->revision == 0;
  if (!confirmed || mark->since_s > sweep.now_s) return Fate::kConfirm;
  return sweep.now_s - mark->since_s >= sweep.keep_s ? Fate::kRemove : Fate::kKeep;
}

absl::Status CheckKnown(const Sweep& sweep, int64_t last) {
  if (sweep.revision <= last) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the log ends at revision ", last,
                                                    ", and a walk goes by one up to ",
                                                    sweep.revision, ": it has lost its end"));
}

Swept& Swept::operator+=(const Swept& other) {
  named += other.named;
  named_bytes += other.named_bytes;
  unnamed += other.unnamed;
  unnamed_bytes += other.unnamed_bytes;
  removed += other.removed;
  removed_bytes += other.removed_bytes;
  return *this;
}

void Count(Fate fate, int64_t bytes, Swept& swept) {
  const bool named = fate == Fate::kNamed, removed = fate == Fate::kRemove;
  int64_t& count = named ? swept.named : removed ? swept.removed : swept.unnamed;
  int64_t& total = named ? swept.named_bytes : removed ? swept.removed_bytes : swept.unnamed_bytes;
  ++count;
  total += bytes;
}

bool IsStaleEpoch(const absl::Status& status) {
  return status.GetPayload(kStalePayload).has_value();
}

}  // namespace warpsmith::store
