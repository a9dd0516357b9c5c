#include "common/base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpsmith::base {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Milliseconds(5);

// The environment with additions, as execvpe takes it.
std::vector<std::string> Environment(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(additions.begin(), additions.end(),
                                      [&](const auto& addition) { return addition.first == name; });
    if (!replaced) all.push_back(text);
  }
  for (const auto& [name, value] : additions) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: nothing here may allocate. Tells `report` why it failed.
[[noreturn]] void Become(char* const* arguments, char* const* environment, int lines, int errors,
                         int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(lines, STDIN_FILENO);
  dup2(lines, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execvpe(arguments[0], arguments, environment);
  const int why = errno;
  const ssize_t written = write(report, &why, sizeof(why));
  _exit(written == sizeof(why) ? 127 : 126);
}

void Close(std::initializer_list<int> fds) {
  for (int fd : fds) {
    if (fd >= 0) close(fd);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Child>> Child::Start(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  int lines[2] = {-1, -1}, errors[2] = {-1, -1}, report[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lines) != 0 ||
      pipe2(errors, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
    const std::string why = std::strerror(errno);
    Close({lines[0], lines[1], errors[0], errors[1], report[0], report[1]});
    return absl::ResourceExhaustedError(absl::StrCat("pipes for '", arguments[0], "': ", why));
  }
  const std::vector<std::string> whole_environment = Environment(environment);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(whole_environment);
  const pid_t pid = fork();
  if (pid == 0) Become(argv.data(), envp.data(), lines[1], errors[1], report[1]);
  Close({lines[1], errors[1], report[1]});
  int why = pid < 0 ? errno : 0;
  if (pid > 0) {
    // Closed by exec, so that this returns at once; or holds the reason.
    ssize_t got;
    do {
      got = read(report[0], &why, sizeof(why));
    } while (got < 0 && errno == EINTR);
    if (got != sizeof(why)) why = 0;
  }
  Close({report[0]});
  if (why != 0) {
    Close({lines[0], errors[0]});
    if (pid > 0) waitpid(pid, nullptr, 0);
    const std::string message = absl::StrCat("'", arguments[0], "': ", std::strerror(why));
    return why == ENOENT ? absl::NotFoundError(message) : absl::ResourceExhaustedError(message);
  }
  setpgid(pid, pid);  // also here: whoever comes first
  fcntl(lines[0], F_SETFL, O_NONBLOCK);
  fcntl(errors[0], F_SETFL, O_NONBLOCK);
  return std::unique_ptr<Child>(new Child(pid, lines[0], errors[0]));
}

Child::Child(pid_t pid, int line_fd, int error_fd)
    : pid_(pid), line_fd_(line_fd), error_fd_(error_fd) {}

Child::~Child() {
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  Close({line_fd_, error_fd_});
}

void Child::CloseInput() { shutdown(line_fd_, SHUT_WR); }

void Child::DrainErrors() {
  char chunk[4096];
  for (;;) {
    const ssize_t got = read(error_fd_, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errors_open_ = false;
    if (got <= 0) return;
    errors_.append(chunk, got);
    if (errors_.size() > kKeptErrors) errors_.erase(0, errors_.size() - kKeptErrors);
  }
}

absl::Status Child::Wait(short events, Instant deadline) {
  for (;;) {
    if (Now() >= deadline) return absl::DeadlineExceededError("no answer in time");
    pollfd fds[2] = {{line_fd_, events, 0}, {errors_open_ ? error_fd_ : -1, POLLIN, 0}};
    const int ready = poll(fds, 2, PollMs(deadline));
    if (ready < 0 && errno != EINTR) return absl::InternalError(std::strerror(errno));
    if (ready <= 0) continue;
    if (fds[1].revents != 0) DrainErrors();
    if (fds[0].revents != 0) return absl::OkStatus();
  }
}

absl::Status Child::WriteLine(const std::string& line, Instant deadline) {
  const std::string text = line + "\n";
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t got = send(line_fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (got > 0) {
      sent += got;
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      DrainErrors();
      return absl::UnavailableError("the process has ended");
    }
    const absl::Status status = Wait(POLLOUT, deadline);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Child::ReadLine(Instant deadline) {
  for (;;) {
    const size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() > kMaxLine) return absl::ResourceExhaustedError("a line without an end");
    char chunk[64 << 10];
    const ssize_t got = read(line_fd_, chunk, sizeof(chunk));
    if (got > 0) {
      buffer_.append(chunk, got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) {
      // What it had to say may still be on its way: a dying process closes both at once.
      DrainErrors();
      return absl::OutOfRangeError("the process has closed its output");
    }
    const absl::Status status = Wait(POLLIN, deadline);
    if (!status.ok()) return status;
  }
}

std::optional<int> Child::End(Instant deadline) {
  for (;;) {
    siginfo_t end = {};
    // It stays to be waited for: the destructor's group is this one's so long.
    if (waitid(P_PID, pid_, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid_) {
      DrainErrors();
      return end.si_code == CLD_EXITED ? W_EXITCODE(end.si_status, 0) : end.si_status;
    }
    if (Now() >= deadline) return std::nullopt;
    absl::SleepFor(kBetweenLooks);
  }
}

}  // namespace warpsmith::base
