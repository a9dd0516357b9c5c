#include "worker/device/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace warpsmith::device {
namespace {

constexpr int kNoSuchProgram = 127;
constexpr useconds_t kEndPollUs = 200;

// In the child, between fork and exec: nothing here may allocate.
[[noreturn]] void Become(char* const* arguments, int output, rlim_t cpu_seconds,
                         int64_t memory_bytes) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit cpu = {cpu_seconds, cpu_seconds};
  setrlimit(RLIMIT_CPU, &cpu);
  const rlimit memory = {static_cast<rlim_t>(memory_bytes), static_cast<rlim_t>(memory_bytes)};
  if (memory_bytes > 0) setrlimit(RLIMIT_AS, &memory);
  const rlimit core = {0, 0};
  setrlimit(RLIMIT_CORE, &core);
  const int input = open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(arguments[0], arguments);
  _exit(kNoSuchProgram);
}

// Reads until every writer has closed the pipe; false: the deadline came first.
bool ReadUntil(int fd, base::Instant deadline, std::string* output) {
  for (;;) {
    if (base::Now() >= deadline) return false;
    pollfd poll_fd = {fd, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, base::PollMs(deadline));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    char buffer[4096];
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    output->append(buffer, std::min<size_t>(got, kMaxProcessOutput - output->size()));
  }
}

// Waits for a process that has closed its output, which does not mean that it ends.
bool EndsUntil(pid_t child, base::Instant deadline, int* status) {
  for (;;) {
    const pid_t done = waitpid(child, status, WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) return true;
    if (base::Now() > deadline) return false;
    usleep(kEndPollUs);
  }
}

}  // namespace

absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& arguments,
                                         absl::Duration limit, int64_t memory_bytes) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const base::Instant deadline = base::Now() + limit;
  const auto cpu_seconds =
      static_cast<rlim_t>(std::clamp(std::ceil(absl::ToDoubleSeconds(limit)) + 1, 1.0, 86400.0));
  const pid_t child = fork();
  if (child == 0) Become(argv.data(), pipe_fds[1], cpu_seconds, memory_bytes);
  close(pipe_fds[1]);
  if (child < 0) {
    close(pipe_fds[0]);
    return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  setpgid(child, child);  // also here: whoever comes first
  ProcessResult result;
  const bool ended = ReadUntil(pipe_fds[0], deadline, &result.output);
  close(pipe_fds[0]);
  int status = 0;
  const bool in_time = ended && EndsUntil(child, deadline, &status);
  if (!in_time) {
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return absl::DeadlineExceededError(
        absl::StrCat(arguments[0], " took longer than ", absl::FormatDuration(limit)));
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_code == kNoSuchProgram && result.output.empty()) {
    return absl::NotFoundError(absl::StrCat("no program '", arguments[0], "' in PATH"));
  }
  return result;
}

}  // namespace warpsmith::device
