#include "worker/card/condition.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/card/xid.h"

namespace warpsmith::card {
namespace {

constexpr char kLost[] = "the driver does not reach the card any more; restart the machine";
constexpr char kRemapFailed[] = "a row of its memory could not be replaced; the card has to go";
constexpr char kRemapPending[] =
    "a row of its memory is to be replaced: reset the card when it is free";

}  // namespace

std::string Condition::Take(const device::CardReading& reading, const std::vector<int>& strangers) {
  if (reading.lost) {
    Fail(kLost);
    return kLost;
  }
  if (reading.remap_failed) Fail(kRemapFailed);
  remap_pending_ = reading.remap_pending;
  // Who comes and goes between two readings may be a tool that looked at the card.
  strangers_.clear();
  std::copy_if(strangers.begin(), strangers.end(), std::back_inserter(strangers_),
               [&](int pid) { return std::find(seen_.begin(), seen_.end(), pid) != seen_.end(); });
  seen_ = strangers;
  const std::optional<int64_t> before = std::exchange(errors_, reading.uncorrectable_errors);
  if (before.has_value() && errors_.has_value() && *errors_ > *before) {
    return Doubt(
        absl::StrCat("the card counts ", *errors_ - *before, " uncorrectable errors more"));
  }
  return "";
}

std::string Condition::TakeXid(int xid) {
  switch (KindOf(xid)) {
    case XidKind::kFault:
      Fail(TextOf(xid));
      return TextOf(xid);
    case XidKind::kMemory:
      return Doubt(TextOf(xid));
    case XidKind::kCandidate:
    case XidKind::kNotice:
      return "";
  }
  return "";
}

std::string Condition::Doubt(const std::string& why) {
  if (++doubts_ >= kMaxDoubts) {
    Fail(absl::StrCat("its memory gave way ", doubts_, " times; reset the card (", why, ")"));
  }
  return why;
}

void Condition::Fail(const std::string& fault) {
  if (fault_.empty()) fault_ = fault;
}

daemon::Health Condition::health() const {
  if (!fault_.empty()) return {.healthy = false, .reason = fault_, .fault = fault_};
  if (alone_ && !strangers_.empty()) {
    return {.healthy = false,
            .reason = absl::StrCat("others use the card, too: process ",
                                   absl::StrJoin(strangers_, ", "))};
  }
  if (!remap_pending_) return {.reason = note_};
  return {.reason = absl::StrCat(kRemapPending, note_.empty() ? "" : "; ", note_)};
}

}  // namespace warpsmith::card
