#include "common/telemetry/log_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace warpsmith::telemetry {
namespace {

// So that the end is noticed while nobody reads.
constexpr int kPollMs = 100;

}  // namespace

LogWriter::LogWriter(int fd, std::function<std::string()> more) : fd_(fd), more_(std::move(more)) {
  // Signals are for the threads that the program means them for.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "log");
}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_by_ = base::Now() + kMaxFlush;
  }
  thread_.join();
}

bool LogWriter::Put(std::string line) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ + line.size() > kMaxWaitingBytes) {
    ++dropped_;
    return false;
  }
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  return true;
}

void LogWriter::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &LogWriter::Idle), kMaxFlush);
}

int64_t LogWriter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

bool LogWriter::OutOfTime() const {
  absl::MutexLock lock(&mutex_);
  return base::Now() >= stop_by_;
}

// A pipe that poll says is ready takes as much as PIPE_BUF without a wait, and nothing more is
// sure.
bool LogWriter::AwaitReader() {
  while (!OutOfTime()) {
    pollfd ready{fd_, POLLOUT, 0};
    const int count = poll(&ready, 1, kPollMs);
    if (count > 0) return (ready.revents & POLLOUT) != 0;
    if (count < 0 && errno != EINTR) return false;
  }
  return false;
}

bool LogWriter::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!AwaitReader()) return false;
    // Whole lines, where they fit: other processes may write there, too.
    std::string_view part = bytes.substr(0, PIPE_BUF);
    if (part.size() < bytes.size()) part = part.substr(0, part.rfind('\n') + 1);
    if (part.empty()) part = bytes.substr(0, PIPE_BUF);
    const ssize_t written = write(fd_, part.data(), part.size());
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
  }
  return true;
}

void LogWriter::Run() {
  while (true) {
    std::deque<std::string> lines;
    bool last = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &LogWriter::Wakes), kBetweenTurns);
      last = stopping_ && lines_.empty();
      lines = std::exchange(lines_, {});
      bytes_ = 0;
      writing_ = true;
    }
    std::string bytes;
    for (const std::string& line : lines) bytes += line;
    bytes += more_();
    const bool written = Write(bytes);
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!written) dropped_ += static_cast<int64_t>(lines.size());
    if (last || (!written && stopping_)) return;
  }
}

}  // namespace warpsmith::telemetry
