#include "common/store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace warpsmith::store {

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/planner.lock");
  FolderLock lock;
  lock.fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  const bool locked = flock(lock.fd_, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) {
    return absl::InternalError(absl::StrCat("cannot lock ", path, ": ", strerror(errno)));
  }
  if (!locked) {
    char pid[32] = {};
    const ssize_t size = pread(lock.fd_, pid, sizeof(pid) - 1, 0);
    return absl::UnavailableError(
        absl::StrCat("the folder ", dir, " is in use by process ", size > 0 ? pid : "(unknown)",
                     ": two planners cannot share a store; stop that one or use another --dir"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(lock.fd_, 0) != 0 ||
      pwrite(lock.fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::InternalError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return lock;
}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace warpsmith::store
