#include "planner/board/file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/problem/compressed.h"
#include "planner/board/board.h"

namespace warpsmith::board {
namespace {

constexpr int kMostKept = 1'000;
constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

absl::Status Errno(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

// Does not wait for a pipe's other end, nor for what is not a file.
absl::StatusOr<std::string> ReadPage(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return Errno(absl::StrCat("cannot open '", path, "'"));
  const absl::Cleanup close_it = [file] { close(file); };
  struct stat status = {};
  if (fstat(file, &status) != 0) return Errno(absl::StrCat("cannot inspect '", path, "'"));
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("'", path, "' is not a file"));
  }
  std::string page(std::min<size_t>(status.st_size, kMaxPageBytes) + 1, '\0');
  size_t filled = 0;
  while (filled < page.size()) {
    const ssize_t got = read(file, page.data() + filled, page.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Errno(absl::StrCat("cannot read '", path, "'"));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  if (filled > kMaxPageBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("'", path, "' has more than ", kMaxPageBytes, " bytes"));
  }
  page.resize(filled);
  return page;
}

// What takes a file's place is its owner's, and as open to others.
void TakeOwner(const std::string& from, const std::string& to) {
  struct stat before = {};
  if (stat(from.c_str(), &before) != 0) return;
  const bool given = geteuid() != 0 || chown(to.c_str(), before.st_uid, before.st_gid) == 0;
  if (!given || chmod(to.c_str(), before.st_mode & 07777) != 0) {
    spdlog::warn("the board: {}", Errno(to).ToString());
  }
}

// False, with errno: it was not done, EEXIST where something is there.
bool MoveAside(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL) return false;
  // A file system that cannot: nobody else makes names like these.
  if (access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return false;
  }
  return std::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

BoardFile::BoardFile(std::string path) : path_(std::move(path)), next_(path_ + ".next") {}

void BoardFile::Begin() {
  if (!path_.empty() && StampOf(next_).has_value()) KeepNext();
}

std::optional<BoardFile::Stamp> BoardFile::StampOf(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{S_ISREG(status.st_mode), status.st_ino, status.st_size,
               status.st_mtim.tv_sec * kNanosecondsPerSecond + status.st_mtim.tv_nsec};
}

std::string BoardFile::KeptName(int number) const {
  return absl::StrCat(absl::StripSuffix(path_, ".md"), ".edited-", number, ".md");
}

std::string BoardFile::BaseOf(absl::string_view page) const {
  const auto past = std::find_if(past_.begin(), past_.end(),
                                 [&](const Past& one) { return one.end == EndOf(page); });
  if (past == past_.end()) return "";
  return problem::Uncompressed(past->compressed, "a page").value_or("");
}

std::vector<std::string> BoardFile::Kept() const {
  std::vector<std::string> kept;
  if (path_.empty()) return kept;
  for (int i = 1; i <= kMostKept; ++i) {
    if (access(KeptName(i).c_str(), F_OK) == 0) kept.push_back(KeptName(i));
  }
  return kept;
}

std::optional<Edited> BoardFile::Keep(const std::string& from) {
  for (int i = 1; i <= kMostKept; ++i) {
    Edited edited;
    edited.kept = KeptName(i);
    if (!MoveAside(from, edited.kept)) {
      if (errno == EEXIST) continue;
      spdlog::error("the board: {}", Errno(edited.kept).ToString());
      return std::nullopt;
    }
    edited.page = ReadPage(edited.kept);
    if (edited.page.ok()) edited.base = BaseOf(*edited.page);
    return edited;
  }
  spdlog::error("the board: '{}' and all before it are there: move them away", KeptName(kMostKept));
  return std::nullopt;
}

std::optional<Edited> BoardFile::Take(base::Instant now) {
  if (!found_.empty()) {
    Edited edited = std::move(found_.front());
    found_.pop_front();
    return edited;
  }
  const std::optional<Stamp> stamp = StampOf(path_);
  if (!stamp.has_value() || !stamp->file || stamp == ours_) {
    seen_.reset();
    return std::nullopt;
  }
  if (stamp != seen_) {
    seen_ = stamp;
    seen_since_ = now;
    return std::nullopt;
  }
  const absl::Duration quiet = now - seen_since_;
  if (quiet < kQuiet) return std::nullopt;
  const absl::StatusOr<std::string> page = ReadPage(path_);
  if (page.ok() && IsUntouched(*page)) {
    ours_ = stamp;
    return std::nullopt;
  }
  const bool whole = page.ok() && !EndOf(*page).empty();
  if (!whole && quiet < kUnfinished) return std::nullopt;
  seen_.reset();
  return Keep(path_);
}

absl::Status BoardFile::Write(const std::string& page) {
  const std::optional<Stamp> stamp = StampOf(path_);
  if (stamp.has_value() && !stamp->file) {
    return absl::FailedPreconditionError(absl::StrCat("'", path_, "' is not a file"));
  }
  if (stamp.has_value() && stamp != ours_) {
    const absl::StatusOr<std::string> there = ReadPage(path_);
    if (!there.ok() || !IsUntouched(*there)) return absl::AbortedError("somebody has changed it");
  }
  // One that could not be kept the last time is somebody's.
  if (StampOf(next_).has_value() && !KeepNext()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", next_, "' has a page of somebody's, and cannot be moved aside"));
  }
  if (absl::Status made = base::WriteFileAtomically(next_, page); !made.ok()) return made;
  TakeOwner(path_, next_);
  const std::optional<Stamp> made = StampOf(next_);
  // What is there takes the other's name, so that nothing is lost that was saved in this moment.
  // Some file systems cannot do it, and without a file there is nothing to lose.
  const bool exchanged =
      renameat2(AT_FDCWD, next_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
  if (!exchanged && std::rename(next_.c_str(), path_.c_str()) != 0) {
    const absl::Status status = Errno(absl::StrCat("cannot rename '", next_, "' to '", path_, "'"));
    unlink(next_.c_str());
    return status;
  }
  ours_ = made;
  Remember(page);
  if (exchanged) KeepNext();
  return absl::OkStatus();
}

// A page that nobody has changed is removed.
bool BoardFile::KeepNext() {
  const absl::StatusOr<std::string> there = ReadPage(next_);
  if (there.ok() && IsUntouched(*there)) return unlink(next_.c_str()) == 0;
  std::optional<Edited> edited = Keep(next_);
  if (!edited.has_value()) return false;
  found_.push_back(*std::move(edited));
  return true;
}

void BoardFile::Discard(const Edited& edited) {
  const absl::StatusOr<std::string> there = ReadPage(edited.kept);
  if (!there.ok() || !edited.page.ok() || *there != *edited.page) {
    spdlog::warn("the board: '{}' was still being written, and stays", edited.kept);
    return;
  }
  unlink(edited.kept.c_str());
}

void BoardFile::Remember(const std::string& page) {
  past_.push_back({std::string(EndOf(page)), problem::Compressed(page)});
  past_bytes_ += past_.back().compressed.size();
  while (past_bytes_ > kPastBytes && past_.size() > 1) {
    past_bytes_ -= past_.front().compressed.size();
    past_.pop_front();
  }
}

}  // namespace warpsmith::board
