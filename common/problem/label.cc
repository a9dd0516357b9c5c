#include "common/problem/label.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace warpsmith::problem {

bool IsLabel(const std::string& text) {
  const size_t equal = text.find('=');
  if (text.size() > kMaxLabelBytes || equal == 0 || equal == std::string::npos ||
      equal + 1 == text.size()) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [&](const char& c) {
    return &c == &text[equal] || absl::ascii_isalnum(c) ||
           std::string_view("._-/:+").find(c) != std::string_view::npos;
  });
}

absl::Status CheckLabels(const std::string& whose, const std::vector<std::string>& labels) {
  if (labels.size() > kMaxLabels) {
    return absl::InvalidArgumentError(
        absl::StrCat(whose, " has ", labels.size(), " labels: at most ", kMaxLabels));
  }
  for (const std::string& label : labels) {
    if (IsLabel(label)) continue;
    return absl::InvalidArgumentError(absl::StrCat(whose, ": the label '", label,
                                                   "' is not key=value, of at most ",
                                                   kMaxLabelBytes, " letters, digits and ._-/:+"));
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::problem
