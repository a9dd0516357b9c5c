// Judges the built-in cheats through judge processes of this very program and prints a table.
#pragma once

#include <string>

namespace warpsmith::judge {

// 0: each was caught and each honest plan accepted; 1 otherwise. cache_dir: for host kernels;
// nvrtc: as MakeCompiler takes it.
int SelfCheck(const std::string& device, const std::string& cache_dir,
              const std::string& nvrtc = "");

}  // namespace warpsmith::judge
