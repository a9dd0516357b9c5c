#include "cli/export/files.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace warpsmith::exporter {

absl::StatusOr<std::string> WriteOut(OutFolder& folder, const std::string& path,
                                     const std::string& text) {
  const std::filesystem::path full = std::filesystem::path(folder.path) / path;
  if (!folder.written.insert(path).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("another problem of this run is in ", full.string(), ": rename one of them"));
  }
  if (auto status = base::WriteFileAtomically(full.string(), text); !status.ok()) return status;
  return full.string();
}

}  // namespace warpsmith::exporter
