// What a compile pool and its processes say to each other, over a socket: frames of a 4-byte
// little-endian length and so many bytes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/device/device.h"

namespace warpsmith::device {

inline constexpr uint32_t kMaxCompileFrame = 64 << 20;

struct CompileRequest {
  std::string source;
  absl::Duration limit;
};

std::string Encode(const CompileRequest& request);
absl::StatusOr<CompileRequest> DecodeRequest(const std::string& frame);
std::string Encode(const absl::StatusOr<Binary>& reply);
// The reply itself, or DataLoss: not one.
absl::StatusOr<Binary> DecodeReply(const std::string& frame);

// Unavailable: the other side is gone. ResourceExhausted: a frame of more than kMaxCompileFrame.
absl::Status WriteFrame(int socket, const std::string& frame);
// Also DeadlineExceeded.
absl::StatusOr<std::string> ReadFrame(int socket, base::Instant deadline);

}  // namespace warpsmith::device
