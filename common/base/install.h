// Where the parts of an installation lie: programs in one folder, the Python part beside it, or,
// for programs that were just built, in their source tree.
#pragma once

#include <string>

namespace warpsmith::base {

// The folder of the program that runs; its siblings are there.
std::string ProgramFolder();

// The folder that holds warpsmith_torch/, for PYTHONPATH; empty if it is not there.
std::string PythonFolder(const std::string& program_folder);

}  // namespace warpsmith::base
