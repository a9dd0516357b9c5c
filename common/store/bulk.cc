#include "common/store/bulk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace warpsmith::store {
namespace {

constexpr size_t kMostReaders = 64;

}  // namespace

absl::Status System(const std::string& what) {
  const int error = errno;
  const std::string message = absl::StrCat(what, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::UnavailableError(absl::StrCat(message, "; free some space on the disk"));
  }
  if (error == EMFILE || error == ENFILE) return absl::UnavailableError(message);  // for a while
  return absl::InternalError(message);
}

absl::Status SyncFolder(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return System(absl::StrCat("cannot open ", dir));
  const bool synced = fsync(fd) == 0;
  const absl::Status status = synced ? absl::OkStatus() : System(absl::StrCat("cannot sync ", dir));
  close(fd);
  return status;
}

BulkFiles::~BulkFiles() {
  if (writer_ >= 0) close(writer_);
  absl::MutexLock lock(&mutex_);
  CloseReaders();
}

std::string BulkFiles::PathOf(int64_t file) const {
  return absl::StrFormat("%s/%s-%06d", folder_, kind_, file);
}

int64_t BulkFiles::NumberOf(const std::string& name) const {
  absl::string_view rest = name;
  int64_t number = 0;
  if (!absl::ConsumePrefix(&rest, kind_) || !absl::ConsumePrefix(&rest, "-")) return 0;
  return absl::SimpleAtoi(rest, &number) && number > 0 ? number : 0;
}

absl::Status BulkFiles::OpenForWriting(int64_t file) {
  if (absl::Status synced = Sync(); !synced.ok()) return synced;
  if (writer_ >= 0) close(std::exchange(writer_, -1));
  written_ = 0;
  if (mkdir(folder_.c_str(), 0755) != 0 && errno != EEXIST) {
    return System(absl::StrCat("cannot make ", folder_));
  }
  const std::string path = PathOf(file);
  writer_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (writer_ < 0) return System(absl::StrCat("cannot write ", path));
  // The file's name, and the folder's, are as durable as what goes in.
  for (const std::string& dir : {folder_, std::filesystem::path(folder_).parent_path().string()}) {
    if (absl::Status synced = SyncFolder(dir); !synced.ok()) return synced;
  }
  written_ = file;
  return absl::OkStatus();
}

// The same each time it is asked for after the same file: a batch that failed is written again.
absl::StatusOr<int64_t> BulkFiles::FileAfter(int64_t file) {
  if (full_ == file) return next_;
  absl::StatusOr<End> fresh = Fresh();  // there may be files of a history that was left
  if (!fresh.ok()) return fresh.status();
  int64_t next = std::max(fresh->file, file + 1);
  while (new_number_ != nullptr) {
    absl::StatusOr<int64_t> number = new_number_();
    if (!number.ok()) return number.status();
    next = *number;
    if (next >= fresh->file) break;
  }
  full_ = file;
  next_ = next;
  return next_;
}

absl::StatusOr<Place> BulkFiles::Append(absl::string_view bytes, End& end) {
  End place = end;
  if (place.offset >= file_bytes_ || place.file == 0) {
    absl::StatusOr<int64_t> next = FileAfter(place.file);
    if (!next.ok()) return next.status();
    place = {*next, 0};
  }
  if (written_ != place.file) {
    if (absl::Status opened = OpenForWriting(place.file); !opened.ok()) return opened;
  }
  dirty_ = true;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = pwrite(writer_, bytes.data() + done, bytes.size() - done,
                                 place.offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;
    if (count <= 0) return System(absl::StrCat("cannot write ", PathOf(place.file)));
    done += static_cast<size_t>(count);
  }
  const auto size = static_cast<int64_t>(bytes.size());
  end = {place.file, place.offset + size};
  return Place{place.file, place.offset, size};
}

absl::Status BulkFiles::Sync() {
  if (!dirty_) return absl::OkStatus();
  if (fdatasync(writer_) != 0) {
    const absl::Status status = System(absl::StrCat("cannot sync ", PathOf(written_)));
    // Pages that could not be written may count as clean from here on: they are written again, to
    // a file opened anew.
    close(std::exchange(writer_, -1));
    written_ = 0;
    dirty_ = false;
    return status;
  }
  dirty_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::map<int64_t, std::string>> BulkFiles::List() const {
  std::map<int64_t, std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const int64_t number = NumberOf(entry->path().filename().string());
    if (number > 0) files.emplace(number, entry->path().string());
  }
  if (error == std::errc::no_such_file_or_directory) return files;
  if (!error) return files;
  return absl::InternalError(absl::StrCat("cannot read ", folder_, ": ", error.message()));
}

int64_t BulkFiles::Bytes() const {
  int64_t bytes = 0;
  const auto files = List();
  if (!files.ok()) return bytes;
  for (const auto& [file, path] : *files) {
    struct stat stats = {};
    if (stat(path.c_str(), &stats) == 0) bytes += stats.st_size;
  }
  return bytes;
}

absl::Status BulkFiles::RemoveBefore(int64_t file) {
  const auto files = List();
  if (!files.ok()) return files.status();
  for (auto old = files->begin(); old != files->lower_bound(file); ++old) {
    if (absl::Status removed = Remove(old->first); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

absl::Status BulkFiles::Remove(int64_t file) {
  absl::MutexLock lock(&mutex_);
  if (const auto open = readers_.extract(file); !open.empty()) close(open.mapped());
  const std::string path = PathOf(file);
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return System(absl::StrCat("cannot remove ", path));
}

void BulkFiles::CloseReaders() {
  for (const auto& [file, descriptor] : readers_) close(descriptor);
  readers_.clear();
}

absl::StatusOr<int> BulkFiles::OpenForReading(int64_t file) {
  const auto found = readers_.find(file);
  if (found != readers_.end()) return found->second;
  const std::string path = PathOf(file);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT) return absl::DataLossError(absl::StrCat(path, " is not there"));
    return System(absl::StrCat("cannot read ", path));
  }
  if (readers_.size() >= kMostReaders && !holds_) CloseReaders();
  readers_.emplace(file, descriptor);
  return descriptor;
}

absl::Status BulkFiles::Hold() {
  const auto files = List();
  if (!files.ok()) return files.status();
  absl::MutexLock lock(&mutex_);
  holds_ = true;
  for (const auto& [file, path] : *files) {
    const absl::Status opened = OpenForReading(file).status();
    if (!opened.ok() && !absl::IsDataLoss(opened)) return opened;  // it has gone since
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BulkFiles::Read(const Place& place) {
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<int> descriptor = OpenForReading(place.file);
  if (!descriptor.ok()) return descriptor.status();
  std::string bytes(static_cast<size_t>(place.size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(*descriptor, bytes.data() + done, bytes.size() - done,
                                place.offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return System(absl::StrCat("cannot read ", PathOf(place.file)));
    if (count == 0) {
      return absl::DataLossError(
          absl::StrCat(PathOf(place.file), " ends before byte ", place.offset + place.size));
    }
    done += static_cast<size_t>(count);
  }
  return bytes;
}

absl::Status BulkFiles::CheckReaches(const End& end) const {
  if (end.offset == 0) return absl::OkStatus();
  struct stat found = {};
  const std::string path = PathOf(end.file);
  if (stat(path.c_str(), &found) == 0 && found.st_size >= end.offset) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " ends at byte ", found.st_size, ", but ",
                                          end.offset, " were made durable: bring back the folder ",
                                          kBulkFolder, " with the database"));
}

absl::StatusOr<BulkFiles::End> BulkFiles::Fresh() const {
  const auto files = List();
  if (!files.ok()) return files.status();
  return End{files->empty() ? 1 : files->rbegin()->first + 1, 0};
}

}  // namespace warpsmith::store
