#include "tests/e2e/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/check.h"

namespace warpsmith::e2e {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Finished& finished) {
  return out << "exit status " << finished.code << "\n" << finished.out << finished.err;
}

Process::Process(const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const std::string out = folder_ / "out", err = folder_ / "err";
  pid_ = fork();
  WS_CHECK(pid_ >= 0, "cannot fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0644), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0644), STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
}

Process::~Process() {
  if (Running()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

bool Process::Running() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

void Process::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

Finished Process::Wait(absl::Duration limit) {
  Finished finished;
  if (Eventually(limit, [this] { return !Running(); })) {
    finished.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  } else {
    kill(pid_, SIGKILL);
  }
  finished.out = ReadAll(folder_ / "out");
  finished.err = ReadAll(folder_ / "err");
  return finished;
}

std::string Process::Errors() const { return ReadAll(folder_ / "err"); }

Finished RunToEnd(const std::vector<std::string>& argv, absl::Duration limit) {
  return Process(argv).Wait(limit);
}

std::vector<pid_t> Descendants(pid_t pid, const std::string& name) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::ifstream children(task.path() / "children");
    pid_t child;
    while (children >> child) {
      const auto program =
          std::filesystem::read_symlink("/proc/" + std::to_string(child) + "/exe", error);
      if (program.filename() == name) found.push_back(child);
      for (pid_t below : Descendants(child, name)) found.push_back(below);
    }
  }
  return found;
}

}  // namespace warpsmith::e2e
