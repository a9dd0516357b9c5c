// An empty folder that goes away with the object.
//
//   support::TemporaryFolder folder;
//   auto store = *SqliteStore::Open(folder.path());
//   WriteFile(folder / "set.json", text);
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/check.h"

namespace warpsmith::support {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = std::filesystem::temp_directory_path() / "warpsmith_test_XXXXXX";
    WS_CHECK(mkdtemp(path_.data()) != nullptr, "cannot make a temporary folder");
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace warpsmith::support
