#include "tests/support/notify_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace warpsmith::support {

NotifySocket::NotifySocket(const std::string& name)
    : name_(name.empty() ? folder_ / "notify" : name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  WS_CHECK(name_.size() < sizeof address.sun_path, "the socket's name is too long");
  std::memcpy(address.sun_path, name_.data(), name_.size());
  if (name_[0] == '@') address.sun_path[0] = '\0';
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
  WS_CHECK(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0, "cannot bind");
}

NotifySocket::~NotifySocket() { close(socket_); }

std::string NotifySocket::Next(absl::Duration limit) {
  pollfd readable = {socket_, POLLIN, 0};
  char message[4096];
  if (poll(&readable, 1, base::PollMs(base::Now() + limit)) <= 0) return "";
  const ssize_t got = recv(socket_, message, sizeof message, 0);
  return std::string(message, std::max<ssize_t>(got, 0));
}

std::string NotifySocket::Await(const std::string& line, absl::Duration limit) {
  const base::Instant deadline = base::Now() + limit;
  for (absl::Duration left = limit; left > absl::ZeroDuration(); left = deadline - base::Now()) {
    const std::string message = Next(left);
    const std::vector<std::string> lines = absl::StrSplit(message, '\n');
    if (std::find(lines.begin(), lines.end(), line) != lines.end()) return message;
  }
  return "";
}

int NotifySocket::Count(const std::string& line, absl::Duration time) {
  const base::Instant deadline = base::Now() + time;
  int count = 0;
  for (absl::Duration left = time; left > absl::ZeroDuration(); left = deadline - base::Now()) {
    count += Next(left) == line ? 1 : 0;
  }
  return count;
}

void NotifySocket::Forget() {
  while (!Next(absl::ZeroDuration()).empty()) {
  }
}

}  // namespace warpsmith::support
