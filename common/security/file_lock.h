// A file that is locked while others beside it are changed, by one process at a time. Internal to
// common/security.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace warpsmith::security {

class FileLock {
 public:
  // Waits for whoever has it. The file is made if there is none, and stays; a link is not followed.
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace warpsmith::security
