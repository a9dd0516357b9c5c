#include "worker/device/compile_wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpsmith::device {
namespace {

void AppendNumber(uint64_t value, int bytes, std::string* to) {
  for (int i = 0; i < bytes; ++i) to->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendText(const std::string& text, std::string* to) {
  AppendNumber(text.size(), 4, to);
  to->append(text);
}

// Reads what the functions above wrote; `ok` turns false at the first thing that is not there.
class Parser {
 public:
  explicit Parser(const std::string& bytes) : bytes_(bytes) {}
  uint64_t Number(int bytes) {
    uint64_t value = 0;
    if (bytes_.size() - at_ < static_cast<size_t>(bytes)) {
      ok = false;
      return 0;
    }
    for (int i = 0; i < bytes; ++i) {
      value |= uint64_t{static_cast<uint8_t>(bytes_[at_++])} << (8 * i);
    }
    return value;
  }
  std::string Text() {
    const uint64_t size = Number(4);
    if (!ok || bytes_.size() - at_ < size) {
      ok = false;
      return "";
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  bool ok = true;

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

absl::Status Gone() { return absl::UnavailableError("the other side is gone"); }

}  // namespace

std::string Encode(const CompileRequest& request) {
  std::string frame;
  AppendNumber(static_cast<uint64_t>(absl::ToInt64Microseconds(request.limit)), 8, &frame);
  AppendText(request.source, &frame);
  return frame;
}

absl::StatusOr<CompileRequest> DecodeRequest(const std::string& frame) {
  Parser parser(frame);
  CompileRequest request;
  request.limit = absl::Microseconds(static_cast<int64_t>(parser.Number(8)));
  request.source = parser.Text();
  if (!parser.ok) return absl::DataLossError("not a compile request");
  return request;
}

std::string Encode(const absl::StatusOr<Binary>& reply) {
  std::string frame;
  AppendNumber(static_cast<uint64_t>(reply.status().code()), 4, &frame);
  AppendText(std::string(reply.status().message()), &frame);
  AppendText(reply.ok() ? reply->bytes : "", &frame);
  AppendText(reply.ok() ? reply->report.SerializeAsString() : "", &frame);
  return frame;
}

absl::StatusOr<Binary> DecodeReply(const std::string& frame) {
  Parser parser(frame);
  const auto code = static_cast<absl::StatusCode>(parser.Number(4));
  const std::string message = parser.Text();
  Binary binary;
  binary.bytes = parser.Text();
  const std::string report = parser.Text();
  if (!parser.ok) return absl::DataLossError("not a compile reply");
  if (code != absl::StatusCode::kOk) return absl::Status(code, message);
  if (!binary.report.ParseFromString(report)) return absl::DataLossError("not a compile reply");
  return binary;
}

absl::Status WriteFrame(int socket, const std::string& frame) {
  if (frame.size() > kMaxCompileFrame) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a frame of ", frame.size(), " bytes; the limit is ", kMaxCompileFrame));
  }
  std::string bytes;
  AppendText(frame, &bytes);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Gone();
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFrame(int socket, base::Instant deadline) {
  std::string bytes;
  size_t wanted = 4;
  bool has_length = false;
  while (bytes.size() < wanted || !has_length) {
    if (bytes.size() == wanted) {
      has_length = true;
      const uint64_t length = Parser(bytes).Number(4);
      if (length > kMaxCompileFrame) {
        return absl::ResourceExhaustedError(absl::StrCat("a frame of ", length, " bytes"));
      }
      wanted += length;
      continue;
    }
    if (base::Now() >= deadline) return absl::DeadlineExceededError("no answer in time");
    pollfd poll_fd = {socket, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, base::PollMs(deadline));
    if (ready < 0 && errno != EINTR) return Gone();
    if (ready <= 0) continue;
    char buffer[65536];
    const ssize_t n = recv(socket, buffer, std::min(sizeof(buffer), wanted - bytes.size()), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Gone();
    bytes.append(buffer, static_cast<size_t>(n));
  }
  return bytes.substr(4);
}

}  // namespace warpsmith::device
