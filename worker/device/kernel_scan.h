// Which kernels a source defines.
#pragma once

#include <string>
#include <vector>

namespace warpsmith::device {

// Names of the `extern "C" __global__` functions of device code, in order, without repetition.
// Comments and string literals are skipped; the preprocessor is not run, and kernels inside an
// `extern "C" { }` block are not found.
std::vector<std::string> KernelNames(const std::string& source);

}  // namespace warpsmith::device
