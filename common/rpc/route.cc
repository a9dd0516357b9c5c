#include "common/rpc/route.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/rpc/status.h"

namespace warpsmith::rpc {
namespace {

std::vector<std::string> ListOf(const std::string& addresses) {
  std::vector<std::string> list;
  for (const auto part : absl::StrSplit(addresses, ',', absl::SkipWhitespace())) {
    list.emplace_back(absl::StripAsciiWhitespace(part));
  }
  if (list.empty()) list.push_back(addresses);
  return list;
}

}  // namespace

Route::Route(const std::string& addresses) : list_(ListOf(addresses)), address_(list_.front()) {}

void Route::Begin() {
  tried_ = 0;
  hops_ = 0;
}

bool Route::Next(const absl::Status& status) {
  const std::string leader = LeaderOf(status);
  if (!leader.empty() && leader != address_ && hops_ < kMaxHops) {
    ++hops_;
    address_ = leader;
    return true;
  }
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return false;
  // Also where one was named that is not there: whoever named it may know no better, and the next
  // of the list may.
  at_ = (at_ + 1) % list_.size();
  if (address_ == list_[at_]) at_ = (at_ + 1) % list_.size();
  address_ = list_[at_];
  return absl::IsUnavailable(status) && ++tried_ < list_.size();
}

}  // namespace warpsmith::rpc
