// Messages over a socket: a 4-byte little-endian length, then that many bytes of one protobuf.
//
// Not thread-safe. After an error the stream is in no known state: close it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "google/protobuf/message_lite.h"

namespace warpsmith::judge {

inline constexpr uint32_t kMaxMessageBytes = 256u << 20;

class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}  // takes it over
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const { return fd_; }
  // Unavailable: the other side is gone. ResourceExhausted: larger than kMaxMessageBytes.
  // DeadlineExceeded: the other side does not read.
  absl::Status Send(const google::protobuf::MessageLite& message,
                    base::Instant deadline = base::Instant::InfiniteFuture());
  // Also DeadlineExceeded, and DataLoss: what came is not such a message.
  absl::Status Receive(google::protobuf::MessageLite* message, base::Instant deadline);

 private:
  // Waits until one of the poll events comes.
  absl::Status Await(short events, base::Instant deadline);
  absl::Status ReadAll(char* to, size_t bytes, base::Instant deadline);

  const int fd_;
};

}  // namespace warpsmith::judge
