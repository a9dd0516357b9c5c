// What a kernel built for the host and the device that runs it agree on.
//
// The device (worker/device/host_executor.cc) keeps one Context per loaded shared object: it writes
// where a thread stands before it lets that thread run, and the kernel calls back into it wherever
// a thread has to meet others. Included by both sides; no other include.
#pragma once

namespace ws {
namespace host {

// Bumped whenever anything below changes; the device refuses a shared object of another version.
constexpr int kAbiVersion = 2;

// Largest value that a shuffle exchanges.
constexpr int kMaxShuffleBytes = 64;

struct Index3 {
  unsigned x, y, z;
};

enum Scope { kWarp = 0, kBlock = 1, kCluster = 2 };

// Provided by the device. Each may suspend the calling thread and run others in between.
struct Runtime {
  // Returns when every thread of the scope is here.
  void (*meet)(Scope scope);
  // Replaces *value by the value that lane `lane` of the warp passed to the same shuffle.
  void (*shuffle)(void* value, int bytes, int lane);
  // Returns when *counter - value, as a signed number, is not negative.
  void (*wait)(const unsigned* counter, unsigned value);
  // Says that *counter grew.
  void (*arrived)(const unsigned* counter);
  // Asynchronous copies of the running thread: begin one, end a group of them, wait until at most
  // `groups` of the groups are still under way.
  void (*copy)(void* to, const void* from, int bytes);
  void (*copy_commit)();
  void (*copy_wait)(int groups);
  // The running thread waits for the kernels before its own.
  void (*grid_wait)();
};

struct Context {
  Index3 thread, block;            // of the running thread
  Index3 block_threads, blocks;    // sizes
  int thread_in_block;             // x + y * ... : its lane is this % 32
  int cluster_rank, cluster_size;  // of the running block; 0 and 1 without a cluster
  char* shared;                    // dynamic shared memory of the running block
  long long shared_stride;         // from one block of a cluster to the next
  Runtime runtime;
};

// What a shared object says of one kernel.
struct KernelInfo {
  const char* name;
  void (*run)(void** arguments);  // runs one thread; arguments as in cuLaunchKernel
  const int* parameter_bytes;
  int parameters;
};

// Exported by each shared object under these names:
//   int warpsmith_abi_version();  Context* warpsmith_context();
//   const KernelInfo* warpsmith_kernel_NAME();   for each kernel, by WS_EXPORT(NAME)

}  // namespace host
}  // namespace ws
