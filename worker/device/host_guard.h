// Runs kernels built for the host under protection: a fault or a spin inside one comes back as a
// Status instead of ending the process or holding it for ever.
//
//   KernelGuard guard;
//   absl::Status status = guard.Run(absl::Seconds(1), [&] {
//     guard.EnterKernel();  kernel(...);  guard.LeaveKernel();   // only in between is code
//     protected return guard.expired() ? absl::DeadlineExceededError(...) : absl::OkStatus();
//   });
//
// Faults and the timer jump out of kernel code with siglongjmp, which is sound because generated
// code owns nothing: no locks, no heap. Outside of it a fault is our own bug and ends the process
// as usual, and the timer only sets expired().
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpsmith::device {

class KernelGuard {
 public:
  KernelGuard();
  ~KernelGuard();
  KernelGuard(const KernelGuard&) = delete;
  KernelGuard& operator=(const KernelGuard&) = delete;

  // One at a time in a process: others wait. `body` runs on this thread. `limit` is of processor
  // time, so that a busy machine makes no hang of what is right. DeadlineExceeded: kernel code ran
  // past the limit. OutOfRange: it touched memory that is not mapped (fault_address()).
  // Aborted: another fatal signal. After these the destructors of `body`'s objects have not run.
  absl::Status Run(absl::Duration limit, absl::FunctionRef<absl::Status()> body);

  void EnterKernel() { in_kernel_ = 1; }
  void LeaveKernel() { in_kernel_ = 0; }
  bool expired() const { return expired_ != 0; }
  uint64_t fault_address() const { return fault_address_; }

 private:
  static void OnSignal(int signal, siginfo_t* info, void* context);

  volatile sig_atomic_t in_kernel_ = 0;
  volatile sig_atomic_t expired_ = 0;
  volatile sig_atomic_t signal_ = 0;
  volatile uint64_t fault_address_ = 0;
  int64_t end_ns_ = 0;  // by host_clock.h
  sigjmp_buf out_;
  char* signal_stack_ = nullptr;  // a kernel that overruns its stack leaves none to handle that on
};

}  // namespace warpsmith::device
