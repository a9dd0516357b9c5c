#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/private_file.h"

namespace warpsmith::base {
namespace {

absl::Status Error(int error, const char* action, const std::string& path) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", action, " '", path, "'"));
}

// Closes on the way out; Close() tells of an error, which is where a full disk may show.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  bool Close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

absl::Status WriteAll(int fd, std::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t n = ::write(fd, contents.data(), contents.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return Error(errno, "write", path);
    }
    contents.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(Descriptor& file, std::string_view contents, mode_t mode,
                          const std::string& path) {
  if (auto status = WriteAll(file.get(), contents, path); !status.ok()) return status;
  // mkstemp makes files that only the owner may read.
  if (::fchmod(file.get(), mode) != 0) return Error(errno, "set the mode of", path);
  if (::fsync(file.get()) != 0) return Error(errno, "sync", path);
  if (!file.Close()) return Error(errno, "close", path);
  return absl::OkStatus();
}

absl::Status WriteAtomically(const std::string& path, std::string_view contents, mode_t mode) {
  const std::filesystem::path target(path);
  const std::string folder =
      target.has_parent_path() ? target.parent_path().string() : std::string(".");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error(error.value(), "make the folder", folder);

  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.ok()) return Error(errno, "create a temporary file beside", path);
  absl::Status status = WriteAndSync(file, contents, mode, temporary);
  // What root replaces stays its owner's, who is to read it.
  struct stat before {};
  if (status.ok() && ::geteuid() == 0 && ::stat(path.c_str(), &before) == 0 && before.st_uid != 0 &&
      ::lchown(temporary.c_str(), before.st_uid, before.st_gid) != 0) {
    status = Error(errno, "give its owner", temporary);
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Error(errno, "rename a temporary file onto", path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  // The rename itself is durable only when the folder is.
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.ok()) return Error(errno, "open the folder", folder);
  if (::fsync(directory.get()) != 0) return Error(errno, "sync the folder", folder);
  return absl::OkStatus();
}

// What root keeps for a group of ours, as Kubernetes does with secrets and Debian with `ssl-cert`,
// is as private as its group.
bool IsForOurGroup(const struct stat& info) {
  return info.st_uid == 0 && ::geteuid() != 0 && (info.st_mode & 0037) == 0;
}

absl::Status CheckPrivate(const struct stat& info, const std::string& path) {
  if ((info.st_mode & 0077) != 0 && !IsForOurGroup(info)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("'%s' is a secret that others can read or write (mode %04o): "
                        "`chmod 600 %s`, and replace what was in it if others may have seen it",
                        path, info.st_mode & 07777, path));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("'%s' is a secret that belongs to another user (%d): `chown` it to the "
                        "one who runs this",
                        path, info.st_uid));
  }
  return absl::OkStatus();
}

// What is checked is what is read: the path may name another file a moment later.
absl::StatusOr<std::string> Read(const std::string& path, bool is_private) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return Error(errno, "open", path);
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return Error(errno, "inspect", path);
  if (is_private) {
    if (absl::Status status = CheckPrivate(info, path); !status.ok()) return status;
  }
  if (S_ISDIR(info.st_mode)) return Error(EISDIR, "read", path);
  if (info.st_size > kMaxFileBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' has ", info.st_size, " bytes; the limit is ", kMaxFileBytes));
  }
  // The size is a hint only: files under /proc say 0.
  std::string contents;
  size_t filled = 0;
  while (true) {
    contents.resize(filled + (info.st_size > static_cast<int64_t>(filled)
                                  ? static_cast<size_t>(info.st_size) - filled + 1
                                  : 65536));
    const ssize_t n = ::read(file.get(), contents.data() + filled, contents.size() - filled);
    if (n < 0) {
      if (errno == EINTR) continue;
      return Error(errno, "read", path);
    }
    if (n == 0) break;
    filled += static_cast<size_t>(n);
    if (static_cast<int64_t>(filled) > kMaxFileBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("'", path, "' has more than ", kMaxFileBytes, " bytes"));
    }
  }
  contents.resize(filled);
  return contents;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  return Read(path, /*is_private=*/false);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  return WriteAtomically(path, contents, 0644);
}

absl::Status WritePrivateFile(const std::string& path, std::string_view contents) {
  return WriteAtomically(path, contents, kPrivateMode);
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  return Read(path, /*is_private=*/true);
}

}  // namespace warpsmith::base
