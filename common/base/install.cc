#include "common/base/install.h"

#include <filesystem>

namespace warpsmith::base {

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string PythonFolder(const std::string& program_folder) {
  for (const char* path : {"/../python", "/../../../python"}) {
    const std::filesystem::path folder = program_folder + path;
    std::error_code error;
    if (std::filesystem::exists(folder / "warpsmith_torch", error)) {
      return folder.lexically_normal().string();
    }
  }
  return "";
}

}  // namespace warpsmith::base
