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
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/ascii.h"
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

int64_t SizeOf(const std::string& log) {
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Without what the log puts before each message, "2024-05-01T10:00:00.000Z error planner: ", or
// around it, where it is JSON.
std::string Message(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("message") && json["message"].is_string()) {
    return json["message"].get<std::string>();
  }
  static const std::regex* const kHead = new std::regex(R"(^\d{4}-\d\d-\d\dT\S+ \w+ [^:]*: )");
  return std::regex_replace(line, *kHead, "");
}

// The last message behind `start`.
std::string LastMessage(const std::string& log, int64_t start) {
  std::ifstream file(log, std::ios::binary);
  const int64_t size = SizeOf(log);
  if (start > size) start = 0;  // it was cut meanwhile
  file.seekg(std::max(start, size - kLastBytes));
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "no word in its log" : Message(last);
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

std::optional<std::string> Troubles::Ended(const std::string& reason, base::Instant now) {
  if (ends_++ == 0) first_ = now;
  std::string kind = reason;
  kind.erase(std::remove_if(kind.begin(), kind.end(), absl::ascii_isdigit), kind.end());
  const bool news = told_.size() < kMaxReasons && told_.insert(kind).second;
  if (!news && now < silent_until_) return std::nullopt;
  if (!news) silence_ = std::min(2 * silence_, kSilenceMax);
  silent_until_ = now + silence_;
  if (ends_ == 1) return absl::StrCat(reason, "; starting it again");
  return absl::StrCat(reason, "; that was end ", ends_, " within ",
                      absl::FormatDuration(absl::Trunc(now - first_, absl::Seconds(1))),
                      ", and it is started again until it stays");
}

std::optional<std::string> Troubles::Well() {
  const int ends = ends_;
  *this = Troubles();
  if (ends < 2) return std::nullopt;
  return absl::StrCat("runs again, after ", ends, " ends");
}

Supervisor::~Supervisor() { Stop("", absl::Seconds(5)); }

void Supervisor::Start(ChildSpec spec) {
  children_.push_back(std::make_unique<Child>(
      Child{std::move(spec), base::Backoff(kRestartMin, kRestartMax, seed_++)}));
  LaunchOrWait(*children_.back());
}

void Supervisor::LaunchOrWait(Child& child) {
  if (absl::Status launched = Launch(child); !launched.ok()) {
    Trouble(child, absl::StrCat(child.spec.name, ": ", std::string(launched.message())));
  }
}

absl::Status Supervisor::Launch(Child& child) {
  int log = open(child.spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) {
    return absl::InternalError(
        absl::StrCat("cannot write ", child.spec.log, ": ", std::strerror(errno)));
  }
  child.log_start = SizeOf(child.spec.log);
  std::vector<char*> argv;
  for (std::string& argument : child.spec.argv) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  // A signal that comes before exec() is the child's, and not for a handler of this process.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) {
    // Only what is safe after fork() in a process with threads.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    setpgid(0, 0);  // Ctrl-C is for the supervisor, which then ends its children in order
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) signal(number, SIG_DFL);
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
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(log);
  if (pid < 0) return absl::InternalError(absl::StrCat("cannot fork: ", std::strerror(error)));
  child.pid = pid;
  child.started = base::Now();
  return absl::OkStatus();
}

void Supervisor::Ended(Child& child, int wait_status) {
  child.pid = -1;
  const std::string end = absl::StrCat(child.spec.name, " ", DescribeEnd(wait_status), " (",
                                       LastMessage(child.spec.log, child.log_start), ")");
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != kUsage) return Trouble(child, end);
  child.given_up = true;
  child.given_up_for = end;
  say_(absl::StrCat(end, "; giving it up: see ", child.spec.log));
}

void Supervisor::Trouble(Child& child, const std::string& reason) {
  const base::Instant now = base::Now();
  child.restart_at = now + child.pauses.Next();
  if (const auto words = child.troubles.Ended(reason, now)) say_(*words);
}

void Supervisor::Tend() {
  for (const auto& each : children_) {
    Child& child = *each;
    KeepSmall(child.spec.log);
    if (child.pid > 0 && child.troubles.ends() > 0 && base::Now() - child.started >= kWellAfter) {
      child.pauses.Reset();
      if (const auto words = child.troubles.Well()) {
        say_(absl::StrCat(child.spec.name, " ", *words));
      }
    }
    int status;
    if (child.pid > 0 && waitpid(child.pid, &status, WNOHANG) == child.pid) Ended(child, status);
    if (child.pid < 0 && !child.given_up && base::Now() >= child.restart_at) LaunchOrWait(child);
  }
}

int Supervisor::alive() const {
  return static_cast<int>(std::count_if(children_.begin(), children_.end(),
                                        [](const auto& child) { return !child->given_up; }));
}

std::optional<std::string> Supervisor::GaveUp(const std::string& prefix) const {
  for (const auto& child : children_) {
    if (child->given_up && absl::StartsWith(child->spec.name, prefix)) return child->given_up_for;
  }
  return std::nullopt;
}

void Supervisor::Stop(const std::string& prefix, absl::Duration limit) {
  auto chosen = [&](const Child& child) { return absl::StartsWith(child.spec.name, prefix); };
  for (const auto& child : children_) {
    if (chosen(*child) && child->pid > 0) kill(child->pid, SIGTERM);
  }
  const base::Instant deadline = base::Now() + limit;
  for (const auto& each : children_) {
    Child& child = *each;
    if (!chosen(child)) continue;
    while (child.pid > 0) {
      if (waitpid(child.pid, nullptr, WNOHANG) == child.pid) {
        child.pid = -1;
      } else if (base::Now() >= deadline) {
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
