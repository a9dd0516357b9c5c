#include "worker/daemon/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpsmith::daemon {
namespace {

absl::Status FileError(const char* what, const std::string& path) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// Whether `path` still names the file that is open.
bool IsAt(int file, const std::string& path) {
  struct stat open_one, named;
  return fstat(file, &open_one) == 0 && stat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

absl::Status WriteAll(int file, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("write", path);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;

class DiskFile final : public LogFile {
 public:
  // Takes `file`, which is open at `path` and locked.
  DiskFile(int file, std::string path) : file_(file), path_(std::move(path)) {}
  ~DiskFile() override { close(file_); }

  absl::StatusOr<std::string> Read() override {
    struct stat stat;
    if (fstat(file_, &stat) != 0) return FileError("stat", path_);
    std::string bytes(stat.st_size, '\0');
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = pread(file_, &bytes[at], bytes.size() - at, at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return FileError("read", path_);
      at += n;
    }
    return bytes;
  }

  absl::Status Append(absl::string_view bytes) override { return WriteAll(file_, path_, bytes); }

  absl::Status Sync() override {
    if (fdatasync(file_) != 0) return FileError("flush", path_);
    return renamed_ ? SyncFolder() : absl::OkStatus();
  }

  absl::Status Truncate(int64_t size) override {
    return ftruncate(file_, size) == 0 ? absl::OkStatus() : FileError("truncate", path_);
  }

  // A new file, held before it gets the name.
  absl::Status Replace(absl::string_view bytes) override {
    const std::string path = path_ + ".new";
    const int file = open(path.c_str(), kFlags | O_TRUNC, 0644);
    if (file < 0) return FileError("open", path);
    absl::Status status =
        flock(file, LOCK_EX | LOCK_NB) == 0 ? absl::OkStatus() : FileError("lock", path);
    if (status.ok()) status = WriteAll(file, path, bytes);
    if (status.ok() && fdatasync(file) != 0) status = FileError("flush", path);
    if (status.ok() && rename(path.c_str(), path_.c_str()) != 0) {
      status = FileError("rename", path);
    }
    if (!status.ok()) {
      close(file);
      unlink(path.c_str());
      return status;
    }
    close(std::exchange(file_, file));
    renamed_ = true;
    return absl::OkStatus();
  }

 private:
  // The new name survives a power loss.
  absl::Status SyncFolder() {
    const std::string folder = std::filesystem::absolute(path_).parent_path();
    const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) return FileError("open the folder", folder);
    absl::Status status =
        fsync(opened) == 0 ? absl::OkStatus() : FileError("flush the folder", folder);
    close(opened);
    renamed_ = renamed_ && !status.ok();
    return status;
  }

  int file_;
  const std::string path_;
  bool renamed_ = true;  // since the folder was flushed
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogFile>> OpenLogFile(const std::string& path) {
  const int file = open(path.c_str(), kFlags, 0644);
  if (file < 0) return FileError("open", path);
  auto held = std::make_unique<DiskFile>(file, path);
  // Another process may have renamed a new file here since it was opened.
  if (flock(file, LOCK_EX | LOCK_NB) != 0 || !IsAt(file, path)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is in use by another process"));
  }
  return held;
}

}  // namespace warpsmith::daemon
