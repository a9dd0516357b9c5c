#include "worker/judge/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpsmith::judge {
namespace {

absl::Status Gone(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("the other side of the judge's socket is gone (", what, ")"));
}

}  // namespace

Channel::~Channel() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Channel::Await(short events, base::Instant deadline) {
  for (;;) {
    if (base::Now() >= deadline) {
      return absl::DeadlineExceededError("the judge did not answer in time");
    }
    pollfd poller{fd_, events, 0};
    int ready = poll(&poller, 1, base::PollMs(deadline));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Gone(std::strerror(errno));
  }
}

absl::Status Channel::Send(const google::protobuf::MessageLite& message, base::Instant deadline) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > kMaxMessageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a message of ", bytes, " bytes to or from the judge; the limit is ", kMaxMessageBytes));
  }
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = static_cast<char>(bytes >> (8 * i));
  if (!message.AppendToString(&frame)) return absl::InternalError("a message does not serialise");
  for (size_t sent = 0; sent < frame.size();) {
    if (absl::Status s = Await(POLLOUT, deadline); !s.ok()) return s;
    ssize_t n = send(fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return Gone("writing");
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status Channel::ReadAll(char* to, size_t bytes, base::Instant deadline) {
  for (size_t have = 0; have < bytes;) {
    if (absl::Status s = Await(POLLIN, deadline); !s.ok()) return s;
    ssize_t n = recv(fd_, to + have, bytes - have, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Gone("reading");
    have += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status Channel::Receive(google::protobuf::MessageLite* message, base::Instant deadline) {
  unsigned char length[4];
  absl::Status s = ReadAll(reinterpret_cast<char*>(length), sizeof(length), deadline);
  if (!s.ok()) return s;
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) bytes |= static_cast<uint32_t>(length[i]) << (8 * i);
  if (bytes > kMaxMessageBytes) {
    return absl::DataLossError(
        absl::StrCat("a message of ", bytes, " bytes; the limit is ", kMaxMessageBytes));
  }
  std::string body(bytes, '\0');
  s = ReadAll(body.data(), body.size(), deadline);
  if (!s.ok()) return s;
  if (!message->ParseFromString(body)) {
    return absl::DataLossError("what came over the judge's socket is not the message expected");
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::judge
