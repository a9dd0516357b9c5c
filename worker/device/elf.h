// What the judge has to know of an ELF image, cubin or shared object.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpsmith::device {

// Names of the variables at module scope that code may write: they outlive a launch, so that a
// kernel could carry an answer from one run to the next. CUDA's __constant__ does not count; what
// is merely const does, since it lies in the same memory. InvalidArgument: not a 64-bit
// little-endian ELF image, or a broken one.
absl::StatusOr<std::vector<std::string>> WritableGlobals(const std::string& image);

// Names of the functions that the image calls and does not have: whoever loads it finds them.
absl::StatusOr<std::vector<std::string>> UndefinedFunctions(const std::string& image);

}  // namespace warpsmith::device
