// Plans and binaries as launcher.py takes them. The text is JSON and Python at once: numbers,
// strings, lists and dictionaries, no true, false or null.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "warpsmith/v1/solution.pb.h"

namespace warpsmith::launcher {

// The graph writes `_0.weight` for a module's parameter or buffer `0.weight`: its name in the
// module's state dict.
std::string StateName(const std::string& tensor);

// Of an output, by its buffer: the caller's tensor has its axes in another order (v1::AxisOrder).
using Orders = std::map<int, std::vector<int>>;

// A plan's buffers and steps, without its source. InvalidArgument: a launch whose sizes are not
// three numbers, an argument without a value, a buffer that the plan does not have or of no kind,
// or lanes that are none (common/problem/lanes.h).
absl::StatusOr<std::string> PlanText(const v1::Plan& plan, const Orders& orders = {});

// A cubin, compressed and in base64, in lines of 100 characters. Empty for an empty one.
std::string BinaryText(const std::string& cubin);

}  // namespace warpsmith::launcher
