#include "common/base/shared_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpsmith::base {

absl::StatusOr<SharedObject> SharedObject::Open(const std::string& name) {
  const auto failed = [&] {
    return absl::StrCat("shared-memory object '", name, "': ", std::strerror(errno));
  };
  const int fd = shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return absl::NotFoundError(failed());
  SharedObject object;
  object.name_ = name;
  struct stat stat = {};
  absl::Status status;
  if (fstat(fd, &stat) != 0) {
    status = absl::NotFoundError(failed());
  } else if (stat.st_size > 0) {
    void* const start = mmap(nullptr, stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED) {
      status = absl::ResourceExhaustedError(failed());
    } else {
      object.start_ = static_cast<char*>(start);
      object.size_ = stat.st_size;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return object;
}

SharedObject::~SharedObject() {
  if (start_ != nullptr) munmap(start_, size_);
}

absl::StatusOr<absl::Span<const char>> SharedObject::Bytes(int64_t offset, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > size_ || bytes > size_ - offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes at ", offset, " of shared-memory object '", name_, "', which has ", size_));
  }
  return absl::Span<const char>(start_ + offset, bytes);
}

}  // namespace warpsmith::base
