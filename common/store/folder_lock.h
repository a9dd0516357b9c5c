// One process at a time has a store's folder.
//
//   absl::StatusOr<FolderLock> lock = FolderLock::Take(dir);   // DIR/planner.lock, until it goes
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace warpsmith::store {

class FolderLock {
 public:
  // Unavailable names the process that has it.
  static absl::StatusOr<FolderLock> Take(const std::string& dir);

  FolderLock() = default;  // has none
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  int fd_ = -1;
};

}  // namespace warpsmith::store
