// Lines on their way to a file descriptor, by a thread of their own: whoever logs never waits for
// who reads. Where that is too slow for what there is to say, lines are dropped and counted.
//
//   LogWriter writer(STDERR_FILENO, [] { return std::string(); });
//   writer.Put("a line\n");
//   writer.Flush();           // before the process ends in a hurry
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace warpsmith::telemetry {

// Of lines that wait.
inline constexpr size_t kMaxWaitingBytes = size_t{4} << 20;
// That a flush, or the end, waits for a reader who does not read.
inline constexpr absl::Duration kMaxFlush = absl::Seconds(2);
// Between two times that `more` is asked.
inline constexpr absl::Duration kBetweenTurns = absl::Seconds(1);

class LogWriter {
 public:
  // `more` is asked about once a second for lines to be written, on the writer's thread. The
  // thread has all signals blocked. `fd` outlives this.
  LogWriter(int fd, std::function<std::string()> more);
  // Writes what waits, for at most kMaxFlush.
  ~LogWriter();

  // With its newline. False: there is no room for it.
  bool Put(std::string line);
  // Until what was put is written, for at most kMaxFlush.
  void Flush();
  // Ever, for want of room or of somebody who reads.
  int64_t dropped() const;

 private:
  void Run();
  // False: nobody reads, until the end or for ever.
  bool Write(std::string_view bytes);
  bool AwaitReader();
  bool OutOfTime() const;
  bool Wakes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !lines_.empty(); }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return lines_.empty() && !writing_; }

  const int fd_;
  const std::function<std::string()> more_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of lines_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::Instant stop_by_ ABSL_GUARDED_BY(mutex_) = base::Instant::InfiniteFuture();
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace warpsmith::telemetry
