#include "common/base/line_tap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace warpsmith::base {

LineTap::LineTap(std::function<void(const std::string&)> on_line)
    : on_line_(std::move(on_line)), write_(STDERR_FILENO) {
  // A pair of sockets, which can be shut down whoever still has it open.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  read_ = ends[0];
  write_ = ends[1];
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineTap::~LineTap() {
  if (read_ < 0) return;
  shutdown(write_, SHUT_WR);
  thread_.join();
  close(read_);
  close(write_);
}

void LineTap::Run() {
  std::string text;
  char bytes[kMaxTapLine];
  while (true) {
    const ssize_t count = read(read_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) text.append(bytes, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      if (end > begin) on_line_(text.substr(begin, end - begin));
      begin = end + 1;
    }
    text.erase(0, begin);
    if (!text.empty() && (count <= 0 || text.size() >= kMaxTapLine)) {
      on_line_(std::exchange(text, ""));
    }
    if (count <= 0) return;
  }
}

}  // namespace warpsmith::base
