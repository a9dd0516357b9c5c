// A child process that is talked to in lines, over its standard input and output.
//
//   auto child = Child::Start({"python3", "-m", "warpsmith_torch.oracle"}, {{"PYTHONPATH", path}});
//   status = (*child)->WriteLine("{...}", deadline);
//   auto reply = (*child)->ReadLine(deadline);
//
// It is killed with everything it started when the object goes, and dies with the thread that
// started it. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace warpsmith::base {

class Child {
 public:
  static constexpr size_t kMaxLine = size_t{256} << 20;
  static constexpr size_t kKeptErrors = 4096;  // of what it wrote to standard error, the last bytes

  // `arguments[0]` is looked up in PATH; `environment` is added to this process's. NotFound: there
  // is no such program.
  static absl::StatusOr<std::unique_ptr<Child>> Start(
      const std::vector<std::string>& arguments,
      const std::vector<std::pair<std::string, std::string>>& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // DeadlineExceeded: it does not read. Unavailable: it has ended or closed its input.
  absl::Status WriteLine(const std::string& line, Instant deadline);
  void CloseInput();
  // Without its newline. OutOfRange: it has closed its output. DeadlineExceeded: nothing came.
  // ResourceExhausted: a line longer than kMaxLine.
  absl::StatusOr<std::string> ReadLine(Instant deadline);

  // How it has ended, as waitpid says it; absent: it has not until then.
  std::optional<int> End(Instant deadline);

  // The last of what it wrote to standard error.
  const std::string& errors() const { return errors_; }

 private:
  Child(pid_t pid, int line_fd, int error_fd);
  // Waits until the line socket is ready for `events`, keeping what comes on standard error.
  absl::Status Wait(short events, Instant deadline);
  void DrainErrors();

  const pid_t pid_;
  const int line_fd_, error_fd_;
  bool errors_open_ = true;
  std::string buffer_, errors_;
  size_t searched_ = 0;  // bytes of buffer_ known to have no newline
};

}  // namespace warpsmith::base
