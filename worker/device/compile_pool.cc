#include "worker/device/compile_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/device/compile_wire.h"

namespace warpsmith::device {
namespace {

// A compiler that keeps the limit by itself gets so much longer to say so.
constexpr absl::Duration kGrace = absl::Milliseconds(500);
// Time for a new process to load its compiler.
constexpr absl::Duration kStartLimit = absl::Seconds(20);
[[maybe_unused]] constexpr rlim_t kMemoryBytes = rlim_t{16} << 30;
constexpr int kCannotStart = 127;
// Of units' binaries, which have 10 to 100 KB.
constexpr int64_t kRememberedBytes = int64_t{256} << 20;

// In the new process, between fork and exec: nothing here may allocate.
[[noreturn]] void Become(char* const* arguments, int socket, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit core = {0, 0};
  setrlimit(RLIMIT_CORE, &core);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows are larger
  const rlimit memory = {kMemoryBytes, kMemoryBytes};
  setrlimit(RLIMIT_AS, &memory);
#endif
  dup2(socket, STDIN_FILENO);
  const int null = open("/dev/null", O_WRONLY);
  if (null >= 0) dup2(null, STDOUT_FILENO);
  if (errors != STDERR_FILENO) dup2(errors, STDERR_FILENO);
  close_range(3, ~0u, 0);  // connections and cards are not for compilers
  execv(arguments[0], arguments);
  _exit(kCannotStart);
}

}  // namespace

// A process of the pool; used by one thread, except for Kill.
class CompilePool::Child {
 public:
  explicit Child(const Options* options) : options_(options) {}
  ~Child() { End(); }

  absl::StatusOr<Binary> Compile(const Job& job);

  // From any thread: whoever waits for the process sees it gone, and no other starts.
  void Kill() {
    const std::lock_guard<std::mutex> lock(mutex_);
    killed_ = true;
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

 private:
  absl::Status Start();
  void End();  // kills and reaps it
  // Notes that it ended while it had nothing to do: the next source is not to blame.
  void NoteEnd();
  // The wait status of a process that has closed its socket and so is about to end.
  int Reap();

  const Options* const options_;
  std::mutex mutex_;  // for the next two
  pid_t pid_ = 0;
  bool killed_ = false;
  int socket_ = -1;
  int sources_ = 0;
};

absl::Status CompilePool::Child::Start() {
  const std::vector<std::string> command = {
      options_->program,   "--arch",  options_->arch, "--cache",
      options_->cache_dir, "--nvrtc", options_->nvrtc};
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  const pid_t pid = fork();
  if (pid == 0) Become(argv.data(), sockets[1], options_->stderr_fd);
  const int error = errno;
  close(sockets[1]);
  if (pid < 0) {
    close(sockets[0]);
    return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(error)));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  pid_ = pid;
  socket_ = sockets[0];
  sources_ = 0;
  if (killed_) kill(pid_, SIGKILL);
  return absl::OkStatus();
}

void CompilePool::Child::End() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  close(socket_);
  // Reaped under the lock: its number may belong to somebody else afterwards.
  const std::lock_guard<std::mutex> lock(mutex_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

void CompilePool::Child::NoteEnd() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pid_ <= 0 || waitpid(pid_, nullptr, WNOHANG) != pid_) return;
  pid_ = 0;
  close(socket_);
}

int CompilePool::Child::Reap() {
  for (int i = 0; i < 100; ++i) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        close(socket_);
        return status;
      }
    }
    usleep(10'000);
  }
  End();  // it closed its socket and lives on
  return 0;
}

absl::StatusOr<Binary> CompilePool::Child::Compile(const Job& job) {
  NoteEnd();
  if (pid_ > 0 && sources_ >= options_->sources_per_process) End();
  if (pid_ <= 0) {
    if (absl::Status status = Start(); !status.ok()) return status;
    // It says that it is ready before the first limit begins.
    auto ready = ReadFrame(socket_, base::Now() + kStartLimit);
    if (!ready.ok()) {
      End();
      return absl::UnavailableError(
          absl::StrCat(options_->program, " does not start: ", ready.status().message()));
    }
  }
  ++sources_;
  CompileRequest request{job.source, job.limit};
  absl::Status sent = WriteFrame(socket_, Encode(request));
  auto reply = sent.ok() ? ReadFrame(socket_, base::Now() + job.limit + kGrace)
                         : absl::StatusOr<std::string>(sent);
  if (reply.ok()) return DecodeReply(*reply);
  if (absl::IsResourceExhausted(sent)) return sent;  // nothing was written
  if (!absl::IsUnavailable(reply.status())) End();
  if (absl::IsDeadlineExceeded(reply.status())) {
    return absl::DeadlineExceededError(
        absl::StrCat("compiling took longer than ", absl::FormatDuration(job.limit)));
  }
  if (!absl::IsUnavailable(reply.status())) return reply.status();
  const int status = Reap();
  return absl::InvalidArgumentError(
      WIFSIGNALED(status) ? absl::StrCat("the compiler died with signal ", WTERMSIG(status))
                          : absl::StrCat("the compiler ended with status ", WEXITSTATUS(status)));
}

CompilePool::CompilePool(Options options)
    : options_(std::move(options)),
      units_([this](std::string source, absl::Duration limit,
                    Callback done) { Enqueue(std::move(source), limit, std::move(done)); },
             kRememberedBytes) {}

absl::StatusOr<std::unique_ptr<CompilePool>> CompilePool::Start(const Options& options) {
  Options complete = options;
  std::error_code error;
  if (complete.program.empty()) {
    complete.program =
        (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "warpsmith-compile")
            .string();
  }
  if (access(complete.program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no program ", complete.program,
                                            ": it belongs beside Warpsmith's other programs"));
  }
  if (complete.processes < 1 || complete.processes > kMaxCompileProcesses) {
    return absl::InvalidArgumentError(
        absl::StrCat(complete.processes, " processes; it takes 1 to ", kMaxCompileProcesses));
  }
  auto pool = std::unique_ptr<CompilePool>(new CompilePool(std::move(complete)));
  for (int i = 0; i < pool->options_.processes; ++i) {
    pool->children_.push_back(std::make_unique<Child>(&pool->options_));
    pool->threads_.emplace_back(
        [pool = pool.get(), child = pool->children_.back().get()] { pool->Work(child); });
  }
  return pool;
}

CompilePool::~CompilePool() {
  std::deque<Job> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    left.swap(queue_);
  }
  changed_.notify_all();
  for (auto& child : children_) child->Kill();
  for (std::thread& thread : threads_) thread.join();
  for (Job& job : left) job.done(absl::CancelledError("the compile pool ended"));
}

void CompilePool::Work(Child* child) {
  for (;;) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    absl::StatusOr<Binary> result = child->Compile(job);
    bool stopping = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping = stopping_;
    }
    // What the pool killed itself says nothing of the source.
    if (stopping && !result.ok()) result = absl::CancelledError("the compile pool ended");
    job.done(std::move(result));
  }
}

void CompilePool::Submit(std::string source, absl::Duration limit, Callback done) {
  // The host's compiler remembers by itself, and its start takes longer than a kernel.
  if (options_.arch == "host") return Enqueue(std::move(source), limit, std::move(done));
  units_.Submit(source, limit, std::move(done));
}

void CompilePool::Enqueue(std::string source, absl::Duration limit, Callback done) {
  absl::Status refused;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queue_.size() >= kMaxQueuedCompilations) {
      refused = absl::ResourceExhaustedError(
          absl::StrCat(kMaxQueuedCompilations, " compilations wait already"));
    } else {
      queue_.push_back({std::move(source), limit, std::move(done)});
    }
  }
  if (!refused.ok()) return done(refused);
  changed_.notify_one();
}

std::future<absl::StatusOr<Binary>> CompilePool::Submit(std::string source, absl::Duration limit) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<Binary>>>();
  auto future = promise->get_future();
  Submit(std::move(source), limit,
         [promise](absl::StatusOr<Binary> result) { promise->set_value(std::move(result)); });
  return future;
}

absl::StatusOr<Binary> CompilePool::Compile(const std::string& source, absl::Duration limit) {
  return Submit(source, limit).get();
}

}  // namespace warpsmith::device
