#include "worker/device/host_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/device/host_clock.h"

namespace warpsmith::device {
namespace {

constexpr size_t kSignalStackBytes = 64 << 10;
// The timer comes again: it may hit between two kernels, where it only leaves a note, and while
// other processes have the processor.
constexpr int64_t kRepeatNs = 20'000'000;
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kSignals = 5;

int TimerSignal() { return SIGRTMIN + 4; }

thread_local KernelGuard* running = nullptr;

timespec ToTimespec(int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000}; }

int64_t LimitNs(absl::Duration limit) {
  return std::clamp<int64_t>(absl::ToInt64Nanoseconds(limit), 1, int64_t{1} << 60);
}

// Signal handlers and the alternate stack, for as long as it lives.
class Handlers {
 public:
  Handlers(void (*handler)(int, siginfo_t*, void*), char* stack) {
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = kSignalStackBytes;
    WS_CHECK(sigaltstack(&alternate, &old_stack_) == 0, "sigaltstack");
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    std::copy(std::begin(kFaults), std::end(kFaults), numbers_);
    numbers_[kSignals - 1] = TimerSignal();
    for (int i = 0; i < kSignals; ++i) {
      WS_CHECK(sigaction(numbers_[i], &action, &old_[i]) == 0, "sigaction");
    }
  }
  ~Handlers() {
    for (int i = 0; i < kSignals; ++i) sigaction(numbers_[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  int numbers_[kSignals];
  struct sigaction old_[kSignals];
  stack_t old_stack_;
};

// Signals this thread from the limit on. By the wall clock: a timer of processor time goes by the
// kernel's ticks.
class Timer {
 public:
  explicit Timer(absl::Duration limit) {
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = TimerSignal();
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    WS_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0, "timer_create");
    const itimerspec when = {ToTimespec(kRepeatNs), ToTimespec(LimitNs(limit))};
    WS_CHECK(timer_settime(timer_, 0, &when, nullptr) == 0, "timer_settime");
  }
  ~Timer() {
    timer_delete(timer_);
    // One that was sent and not yet taken would find the default action: to end the process.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, TimerSignal());
    const timespec now = {0, 0};
    sigprocmask(SIG_BLOCK, &set, nullptr);
    while (sigtimedwait(&set, nullptr, &now) > 0) {
    }
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
  }

 private:
  timer_t timer_;
};

}  // namespace

KernelGuard::KernelGuard() {
  void* stack =
      mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WS_CHECK(stack != MAP_FAILED, "no memory for a signal stack");
  signal_stack_ = static_cast<char*>(stack);
}

KernelGuard::~KernelGuard() { munmap(signal_stack_, kSignalStackBytes); }

void KernelGuard::OnSignal(int signal, siginfo_t* info, void*) {
  KernelGuard* guard = running;
  const bool timer = signal == TimerSignal();
  if (timer && (guard == nullptr || HostNanoseconds() < guard->end_ns_)) return;
  if (timer) guard->expired_ = 1;
  if (guard != nullptr && guard->in_kernel_ != 0) {
    guard->in_kernel_ = 0;
    guard->signal_ = signal;
    if (!timer) guard->fault_address_ = reinterpret_cast<uint64_t>(info->si_addr);
    siglongjmp(guard->out_, 1);
  }
  // A fault of our own: the default action when the instruction is tried again.
  if (!timer) ::signal(signal, SIG_DFL);
}

absl::Status KernelGuard::Run(absl::Duration limit, absl::FunctionRef<absl::Status()> body) {
  static std::mutex* const one_at_a_time = new std::mutex;  // signal handlers are the process's
  const std::lock_guard<std::mutex> lock(*one_at_a_time);
  in_kernel_ = 0;
  expired_ = 0;
  signal_ = 0;
  fault_address_ = 0;
  end_ns_ = HostNanoseconds() + LimitNs(limit);
  const Handlers handlers(&OnSignal, signal_stack_);
  running = this;
  const Timer timer(limit);
  if (sigsetjmp(out_, 1) == 0) {
    absl::Status status = body();
    running = nullptr;
    return status;
  }
  running = nullptr;
  const int signal = signal_;
  if (signal == TimerSignal()) {
    return absl::DeadlineExceededError(
        absl::StrCat("a kernel ran longer than ", absl::FormatDuration(limit)));
  }
  if (signal == SIGSEGV || signal == SIGBUS) {
    return absl::OutOfRangeError("a kernel touched memory that is not its own");
  }
  return absl::AbortedError(absl::StrCat("a kernel raised ", strsignal(signal)));
}

}  // namespace warpsmith::device
