#include "cli/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command.h"

namespace warpsmith::cli {

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

namespace {

constexpr int64_t kLastBytes = 4096;  // of a log, in which its last line is looked for

std::string LastLine(const std::string& log) {
  std::ifstream file(log, std::ios::ate | std::ios::binary);
  if (!file) return "no log";
  const int64_t size = file.tellg();
  file.seekg(std::max<int64_t>(0, size - kLastBytes));
  std::string line, last = "no word in its log";
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

// The child appends to the file that it has open, so that is emptied, and a copy is kept.
void KeepSmall(const std::string& log) {
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  if (error || size <= kMaxLogBytes) return;
  std::filesystem::copy_file(log, log + ".old", std::filesystem::copy_options::overwrite_existing,
                             error);
  std::filesystem::resize_file(log, 0, error);
}

}  // namespace

Supervisor::~Supervisor() { Stop("", absl::Seconds(5)); }

absl::Status Supervisor::Start(ChildSpec spec) {
  Child child;
  child.spec = std::move(spec);
  absl::Status launched = Launch(child);
  if (launched.ok()) children_.push_back(std::move(child));
  return launched;
}

absl::Status Supervisor::Launch(Child& child) {
  int log = open(child.spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) {
    return absl::InternalError(
        absl::StrCat("cannot write ", child.spec.log, ": ", std::strerror(errno)));
  }
  std::vector<char*> argv;
  for (std::string& argument : child.spec.argv) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only what is safe after fork() in a process with threads.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    setpgid(0, 0);  // Ctrl-C is for the supervisor, which then ends its children in order
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    static constexpr char kNoExec[] = "cannot execute the program\n";
    (void)!write(STDERR_FILENO, kNoExec, sizeof kNoExec - 1);
    _exit(127);
  }
  close(log);
  if (pid < 0) return absl::InternalError(absl::StrCat("cannot fork: ", std::strerror(errno)));
  child.pid = pid;
  child.started = absl::Now();
  child.restart_at = absl::InfiniteFuture();
  return absl::OkStatus();
}

void Supervisor::Ended(Child& child, int wait_status) {
  const absl::Time now = absl::Now();
  child.pid = -1;
  if (now - child.started >= kWellAfter) {
    child.quick_ends = 0;
    child.pause = kRestartMin;
  }
  ++child.quick_ends;
  const std::string end = absl::StrCat(child.spec.name, " ", DescribeEnd(wait_status), " (",
                                       LastLine(child.spec.log), ")");
  child.last_end = End{wait_status, end};
  const bool usage = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kUsage;
  if (usage || child.quick_ends >= kMaxQuickEnds) {
    child.given_up = true;
    say_(absl::StrCat(end, usage ? "" : absl::StrCat(", ", child.quick_ends, " times in a row"),
                      "; giving it up: see ", child.spec.log));
    return;
  }
  say_(absl::StrCat(end, "; starting it again"));
  child.restart_at = now + child.pause;
  child.pause = std::min(child.pause * 2, kRestartMax);
}

void Supervisor::Tend() {
  for (Child& child : children_) {
    KeepSmall(child.spec.log);
    int status;
    if (child.pid > 0 && waitpid(child.pid, &status, WNOHANG) == child.pid) Ended(child, status);
    if (child.pid < 0 && !child.given_up && absl::Now() >= child.restart_at) {
      if (absl::Status launched = Launch(child); !launched.ok()) {
        say_(std::string(launched.message()));
        child.restart_at = absl::Now() + child.pause;
      }
    }
  }
}

int Supervisor::alive() const {
  return static_cast<int>(std::count_if(children_.begin(), children_.end(),
                                        [](const Child& child) { return !child.given_up; }));
}

bool Supervisor::GaveUp(const std::string& name) const {
  return std::any_of(children_.begin(), children_.end(),
                     [&](const Child& child) { return child.spec.name == name && child.given_up; });
}

std::optional<Supervisor::End> Supervisor::LastEnd(const std::string& name) const {
  for (const Child& child : children_) {
    if (child.last_end && (name.empty() || child.spec.name == name)) return child.last_end;
  }
  return std::nullopt;
}

void Supervisor::Stop(const std::string& prefix, absl::Duration limit) {
  auto chosen = [&](const Child& child) { return absl::StartsWith(child.spec.name, prefix); };
  for (Child& child : children_) {
    if (chosen(child) && child.pid > 0) kill(child.pid, SIGTERM);
  }
  const absl::Time deadline = absl::Now() + limit;
  for (Child& child : children_) {
    if (!chosen(child)) continue;
    while (child.pid > 0) {
      if (waitpid(child.pid, nullptr, WNOHANG) == child.pid) {
        child.pid = -1;
      } else if (absl::Now() >= deadline) {
        say_(child.spec.name + " does not end; killing it");
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
        child.pid = -1;
      } else {
        absl::SleepFor(absl::Milliseconds(20));
      }
    }
    child.given_up = true;
  }
}

}  // namespace warpsmith::cli
