#include "common/telemetry/notify.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace warpsmith::telemetry {
namespace {

constexpr timeval kSendLimit = {1, 0};

std::string OneLine(const std::string& text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

Notifier::Notifier(const char* socket, const char* watchdog_usec, const char* watchdog_pid) {
  if (socket == nullptr || *socket == '\0') return;
  address_ = socket;
  if (address_[0] == '@') address_[0] = '\0';
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  int64_t usec = 0, pid = getpid();
  if (watchdog_pid != nullptr && !absl::SimpleAtoi(watchdog_pid, &pid)) return;
  if (pid != getpid() || watchdog_usec == nullptr) return;
  if (absl::SimpleAtoi(watchdog_usec, &usec) && usec > 0) watchdog_ = absl::Microseconds(usec);
}

Notifier::~Notifier() {
  if (socket_ >= 0) close(socket_);
}

void Notifier::Ready(const std::string& status) const {
  Send(absl::StrCat("READY=1\nSTATUS=", OneLine(status)));
}

void Notifier::Status(const std::string& status) const {
  Send(absl::StrCat("STATUS=", OneLine(status)));
}

void Notifier::Stopping() const { Send("STOPPING=1"); }

void Notifier::Watchdog() const { Send("WATCHDOG=1"); }

void Notifier::Send(const std::string& message) const {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  if (socket_ < 0 || address_.size() >= sizeof to.sun_path) return;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  // An abstract name is as long as it says; a path ends with a zero byte, which is there.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  (void)sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&to), size);
}

}  // namespace warpsmith::telemetry
