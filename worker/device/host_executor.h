// Runs the threads of one kernel launch on this thread of the processor.
//
// Blocks that must be resident together (a cluster; all of a cooperative launch; else a block
// alone) form a gang, and gangs run one after another. A gang's threads are fibers, but one is made
// only where it is needed: a fiber goes on with the next thread as long as threads end without
// waiting, so that a kernel that never synchronises is a plain loop. A thread that waits keeps its
// fiber, and the next ready thread goes on.
//
// In permuted order (a seed other than 0) threads and gangs start, and ready threads go on, in an
// order that the seed decides, shared memory begins as NaN, and that of a block of a cluster is out
// of reach once the block has ended. What is copied asynchronously is NaN until its group has been
// waited for, and it is read as late as that. What works only in one order fails sooner or later. In
// natural order, for timing, nothing is added.
//
// A gang in which every thread waits is a deadlock and reported at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/host_guard.h"
#include "worker/kernels/host_abi.cuh"

namespace warpsmith::device {

inline constexpr int kMaxGangThreads = 16384;  // waiting at once: each keeps a stack
// Of address space; pages come as they are touched. A map of eight elements a thread that computes
// sums again, each in a loop of its own, was seen to take more than a quarter of it.
inline constexpr int kFiberStackBytes = 1 << 20;

struct HostLaunch {
  const ws::host::KernelInfo* kernel = nullptr;
  ws::host::Context* context = nullptr;  // of the kernel's shared object
  void** arguments = nullptr;
  ws::host::Index3 grid = {1, 1, 1}, block = {1, 1, 1}, cluster = {1, 1, 1};
  unsigned shared_bytes = 0;
  bool cooperative = false;
  bool programmatic = false;  // may start before the kernel before it has ended
};

class HostExecutor {
 public:
  HostExecutor();
  ~HostExecutor();

  // Within `guard->Run`. DeadlineExceeded: a deadlock, or the guard's limit has passed. Aborted:
  // threads of a warp met in different shuffles, or (in permuted order) a block of a programmatic
  // launch never waited for the kernel before it. InvalidArgument: more threads at once than
  // kMaxGangThreads. After an error (also one that the guard reports) it takes no other launch.
  absl::Status Run(const HostLaunch& launch, uint64_t seed, KernelGuard* guard);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpsmith::device
