// Labels: what operators say of a worker, and what a run may want of one. "key=value".
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace warpsmith::problem {

inline constexpr int kMaxLabels = 32;
inline constexpr size_t kMaxLabelBytes = 200;

// At most kMaxLabelBytes letters, digits and "._-/:+" around one '='.
bool IsLabel(const std::string& text);

// InvalidArgument: not labels, or more than kMaxLabels; it says whose.
absl::Status CheckLabels(const std::string& whose, const std::vector<std::string>& labels);

}  // namespace warpsmith::problem
