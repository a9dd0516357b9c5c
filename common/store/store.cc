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

bool IsStaleEpoch(const absl::Status& status) {
  return status.GetPayload(kStalePayload).has_value();
}

}  // namespace warpsmith::store
