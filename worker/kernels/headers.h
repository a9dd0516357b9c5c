// The text of worker/kernels/*.cuh, embedded in the binary.
#pragma once

#include <map>
#include <string>

namespace warpsmith::kernels {

// "warpsmith/base.cuh" -> its text. The same object for the life of the process.
const std::map<std::string, std::string>& Headers();

}  // namespace warpsmith::kernels
