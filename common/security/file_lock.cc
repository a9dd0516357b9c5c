#include "common/security/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace warpsmith::security {

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 || flock(fd, LOCK_EX) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot lock '", path, "'"));
  }
  return std::unique_ptr<FileLock>(new FileLock(fd));
}

FileLock::~FileLock() { close(fd_); }

}  // namespace warpsmith::security
