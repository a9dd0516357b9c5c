#include "planner/board/file.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "planner/board/board.h"

namespace warpsmith::board {
namespace {

constexpr int kMostKept = 1'000;
constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

absl::Status Errno(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

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

BoardFile::BoardFile(std::string path) : path_(std::move(path)), next_(path_ + ".next") {
  // A process before this one may have ended between writing a page and looking at what it took
  // the place of.
  const absl::StatusOr<std::string> left = base::ReadFile(next_);
  if (!left.ok()) return;
  if (IsUntouched(*left)) {
    unlink(next_.c_str());
  } else if (std::optional<Edited> edited = Keep(next_)) {
    found_.push_back(*std::move(edited));
  }
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

std::vector<std::string> BoardFile::Kept() const {
  std::vector<std::string> kept;
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
    absl::StatusOr<std::string> page = base::ReadFile(edited.kept);
    if (page.ok()) {
      edited.page = *std::move(page);
    } else {
      spdlog::error("the board: {}", page.status().ToString());
    }
    const auto past = std::find_if(past_.begin(), past_.end(), [&](const std::string& one) {
      return EndOf(one) == EndOf(edited.page);
    });
    if (past != past_.end()) edited.base = *past;
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
  if (!stamp.has_value() || stamp == ours_) {
    seen_.reset();
    return std::nullopt;
  }
  if (stamp != seen_) {
    seen_ = stamp;
    seen_since_ = now;
    return std::nullopt;
  }
  const absl::StatusOr<std::string> page = base::ReadFile(path_);
  if (!page.ok()) return std::nullopt;  // so is whoever writes it told
  if (IsUntouched(*page)) {
    ours_ = stamp;
    return std::nullopt;
  }
  if (EndOf(*page).empty() && now - seen_since_ < kUnfinished) return std::nullopt;
  seen_.reset();
  return Keep(path_);
}

absl::Status BoardFile::Write(const std::string& page) {
  const std::optional<Stamp> stamp = StampOf(path_);
  if (stamp.has_value() && !stamp->file) {
    return absl::FailedPreconditionError(absl::StrCat("'", path_, "' is not a file"));
  }
  if (stamp.has_value() && stamp != ours_) {
    const absl::StatusOr<std::string> there = base::ReadFile(path_);
    if (there.ok() && !IsUntouched(*there)) return absl::AbortedError("somebody has changed it");
  }
  if (absl::Status made = base::WriteFileAtomically(next_, page); !made.ok()) return made;
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
  if (!exchanged) return absl::OkStatus();
  const absl::StatusOr<std::string> before = base::ReadFile(next_);
  if (!before.ok() || IsUntouched(*before)) {
    unlink(next_.c_str());
  } else if (std::optional<Edited> edited = Keep(next_)) {
    found_.push_back(*std::move(edited));
  }
  return absl::OkStatus();
}

void BoardFile::Discard(const Edited& edited) {
  const absl::StatusOr<std::string> there = base::ReadFile(edited.kept);
  if (there.ok() && *there != edited.page) {
    spdlog::warn("the board: '{}' was still being written, and stays", edited.kept);
    return;
  }
  unlink(edited.kept.c_str());
}

void BoardFile::Remember(const std::string& page) {
  past_.push_back(page);
  past_bytes_ += page.size();
  while (past_bytes_ > kPastBytes && past_.size() > 1) {
    past_bytes_ -= past_.front().size();
    past_.pop_front();
  }
}

}  // namespace warpsmith::board
