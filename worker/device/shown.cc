#include "worker/device/shown.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpsmith::device {

ShownCard ShowAlone(const std::string& name, const std::vector<VisibleCard>& cards) {
  const auto card = std::find_if(cards.begin(), cards.end(),
                                 [&](const VisibleCard& each) { return each.name == name; });
  if (cards.size() < 2 || card == cards.end()) return {name, {}};
  return {"cuda:0", {{"CUDA_VISIBLE_DEVICES", absl::StrCat("GPU-", card->uuid)}}};
}

ShownCard ShowAlone(const std::string& name) {
  if (!absl::StartsWith(name, "cuda:")) return {name, {}};  // asks no driver
  const auto cards = ListCards();
  return ShowAlone(name, cards.ok() ? *cards : std::vector<VisibleCard>());
}

}  // namespace warpsmith::device
