// board.md: the planner writes it, people edit it, and neither loses what is theirs.
//
//   BoardFile file(path);
//   if (std::optional<Edited> edited = file.Take(base::Now())) ...   // about once a second
//   absl::Status status = file.Write(page);
//
// A page that somebody changed is never written over: it is moved to a file of its own beside the
// board (board.edited-1.md, -2, ...), where it stays until Discard, also when this process ends
// before. An editor that replaces the file and one that writes into it are alike.
//
// What is no file (a folder, a pipe) is left alone, and nothing is written in its place. A page
// that cannot be read, or is too large, is kept like any other.
//
// Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace warpsmith::board {

// A page that does not end as pages do is waited for so long: it may be half written.
inline constexpr absl::Duration kUnfinished = absl::Seconds(10);
// One that stays the same so long is finished.
inline constexpr absl::Duration kQuiet = absl::Milliseconds(900);
inline constexpr size_t kMaxPageBytes = size_t{16} << 20;
// Of pages that were written, compressed, so that what was changed on them is seen later.
inline constexpr size_t kPastBytes = size_t{32} << 20;

struct Edited {
  absl::StatusOr<std::string> page;  // or why it cannot be read
  std::string base;                  // the page that it was made from; "": it is not known any more
  std::string kept;                  // the file that has the page now
};

class BoardFile {
 public:
  // "": none, and nothing is ever there.
  explicit BoardFile(std::string path);

  // Before all others: finds what a process before this one did not come to look at.
  void Begin();

  // What somebody wrote since the last Write, once it has stayed the same from one call to the
  // next.
  std::optional<Edited> Take(base::Instant now);

  // As base::WriteFileAtomically. Aborted: somebody has changed the page, and Take comes first.
  absl::Status Write(const std::string& page);

  // The pages that are kept, by number.
  std::vector<std::string> Kept() const;

  // Nothing of it is wanted any more; but for what was written into it meanwhile.
  void Discard(const Edited& edited);

 private:
  struct Stamp {
    bool file = false;
    ino_t inode = 0;
    off_t bytes = 0;
    int64_t modified_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  static std::optional<Stamp> StampOf(const std::string& path);
  std::string BaseOf(absl::string_view page) const;
  std::string KeptName(int number) const;  // from 1
  // What is in `from` is kept under a name of its own.
  std::optional<Edited> Keep(const std::string& from);
  // What is under next_'s name is kept; false: it cannot be.
  bool KeepNext();
  void Remember(const std::string& page);

  const std::string path_;
  const std::string next_;     // where pages are made
  std::optional<Stamp> ours_;  // of a page that nobody has changed
  std::optional<Stamp> seen_;  // of another one, since seen_since_
  base::Instant seen_since_;
  std::deque<Edited> found_;  // while a page was written, or before this process
  struct Past {
    std::string end;         // EndOf
    std::string compressed;  // the page
  };
  std::deque<Past> past_;  // newest last
  size_t past_bytes_ = 0;
};

}  // namespace warpsmith::board
