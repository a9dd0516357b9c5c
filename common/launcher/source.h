// The text of python/warpsmith_torch/launcher.py, embedded in the binary.
#pragma once

#include <map>
#include <string>

namespace warpsmith::launcher {

// "launcher.py" -> its text. The same object for the life of the process.
const std::map<std::string, std::string>& Files();

}  // namespace warpsmith::launcher
