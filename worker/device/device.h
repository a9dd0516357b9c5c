// A device compiles, holds memory, runs plans and times them.
//
// `cuda` is a card, through the driver API and NVRTC, both loaded at run time. `host` is this
// processor: the same source, compiled by the C++ compiler found at run time with a header that
// gives blocks, threads, shared memory, barriers and shuffles.
//
// Compilation needs no device and is thread-safe (Compiler). A Device belongs to one thread of one
// process, the judge's: what candidates do to it can only kill that process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/graph/roof.h"
#include "warpsmith/v1/solution.pb.h"
#include "warpsmith/v1/trial.pb.h"
#include "worker/device/launching.h"
#include "worker/device/throttling.h"

namespace warpsmith::device {

// Of the host device, which makes them in a loop.
inline constexpr char kHostLibrary[] = "loop";

struct DeviceInfo {
  std::string kind;    // "cuda", "host"
  std::string name;    // "NVIDIA H200", "host: AMD EPYC ..."
  std::string arch;    // "sm_90a", "host"
  std::string driver;  // "580.159", compiler version on the host
  int sm_count = 1;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int64_t registers_per_sm = 65536;
  int64_t shared_per_sm = 0, shared_per_block = 0;
  int64_t l2_bytes = 0;
  int max_cluster = 1;
  // Blocks that it runs at once, one a multiprocessor, in clusters of 4, 8 and 16; 0: not known.
  std::array<int, 3> clustered_blocks{};
  bool tensor_maps = false;  // whether kernels may take them
  // That makes products of plans, as their steps name it: "cuBLASLt 13.1.0", kHostLibrary; empty:
  // not known, or none.
  std::string library;
  int64_t memory_bytes = 0;  // total
  std::string pci_bus_id;    // of a card, as its driver spells it
  bool served = false;       // its contexts are those of a server that others share (MPS)
};

struct Binary {
  std::string
      bytes;  // cubin, or several (common/problem/units.h); on the host the path of a shared object
  v1::StaticReport report;
};

// Compiles device code. Thread-safe; no device needed.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // InvalidArgument: the source does not compile; the message holds the compiler's first errors.
  // DeadlineExceeded: longer than the limit. FailedPrecondition: refused (a writable module
  // global). Other codes: no compiler; the message says what to install.
  virtual absl::StatusOr<Binary> Compile(const std::string& source, absl::Duration limit) = 0;
};
// arch: "host" or "sm_90a", ... `cache_dir` keeps shared objects of the host compiler. `nvrtc` is
// the path of libnvrtc.so; empty: it is looked for.
absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler(const std::string& arch,
                                                       const std::string& cache_dir,
                                                       const std::string& nvrtc = "");

// Device memory of one tensor. Begins at a multiple of 256 bytes and ends as near as that allows to
// an unmapped page; the bytes between are a guard band with a known pattern. Moving it changes its
// address. Unmapped memory keeps its content but no kernel can reach it.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual int64_t bytes() const = 0;
  virtual uint64_t address() const = 0;  // 0 while unmapped
  virtual absl::Status Unmap() = 0;
  virtual absl::Status Map() = 0;  // at a new address where the device can
  // False: somebody wrote past the end, or a little before the beginning.
  virtual absl::StatusOr<bool> GuardIntact() = 0;
  // The same of all that is mapped before the beginning: up to 2 MiB on a card, which takes longer.
  virtual absl::StatusOr<bool> WholeGuardIntact() { return GuardIntact(); }
};

// A plan with its binary, loaded and bound to memory.
class Program {
 public:
  virtual ~Program() = default;
  // Binds Plan.buffers by position. Cheap; may be called between runs.
  virtual absl::Status Bind(absl::Span<Memory* const> buffers) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Memory>> Allocate(int64_t bytes) = 0;
  virtual int64_t allocated_bytes() const = 0;  // physical, now
  // Behaves as if the device had only so many bytes: those that are missing count as not free, and
  // Allocate does not give them out (ResourceExhausted). 0: all there are.
  virtual void LimitMemory(int64_t bytes) = 0;
  virtual absl::StatusOr<int64_t> FreeBytes() = 0;
  virtual absl::Status Write(Memory& to, const void* from, int64_t bytes, int64_t offset = 0) = 0;
  virtual absl::Status Read(const Memory& from, void* to, int64_t bytes, int64_t offset = 0) = 0;
  virtual absl::Status Fill(Memory& memory, uint32_t pattern) = 0;  // whole memory
  virtual absl::Status Copy(const Memory& from, Memory& to, int64_t bytes) = 0;
  // Copies in from another process's device allocation (cuda: an IPC handle of 64 bytes, opened
  // and closed within the call; host: the name of a shared-memory object).
  virtual absl::Status CopyFromForeign(const std::string& handle, int64_t offset, Memory& to,
                                       int64_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Program>> Load(const v1::Plan& plan,
                                                        const Binary& binary) = 0;
  // Runs once and waits, at most `limit`. DeadlineExceeded: it hangs (the process must end: nothing
  // else gets a kernel off the card). OutOfRange: it touched memory that is not its own.
  // Aborted: it killed the context. DataLoss: the card's own memory or links failed, whatever ran.
  // After any of these the device is unusable.
  virtual absl::Status Run(Program& program, absl::Duration limit) = 0;
  // Seconds of one replay (a CUDA graph of the whole plan), caches flushed before. Same errors.
  // Where there is no launching (the host), both ways are the same.
  virtual absl::StatusOr<double> Time(Program& program, absl::Duration limit,
                                      Launching how = Launching::kHidden) = 0;
  // Seconds of a graph that does next to nothing, as Time with kCounted: of what is timed so, the
  // part that depends on how busy the host is just now. 0 where there is no launching.
  virtual absl::StatusOr<double> TimeLaunch() = 0;
  // Seconds of each launch and product of the plan, in order, in one run with caches flushed
  // before it: from the end of what was before it to its own end. Same errors.
  virtual absl::StatusOr<std::vector<double>> TimeLaunches(Program& program,
                                                           absl::Duration limit) = 0;
  // What the device's counters say of each of these, in order; nothing of kernels whose blocks wait
  // for each other, nor of a library's products. Runs the plan a few times, and nothing may be
  // timed meanwhile. Unimplemented, NotFound, PermissionDenied, Internal: there are none, and the
  // message says why. Else as Run.
  virtual absl::StatusOr<std::vector<std::optional<v1::Counters>>> Count(Program& program,
                                                                         absl::Duration limit) = 0;
  // Waits until nothing else uses the memory's bandwidth, at most `limit`. A driver scrubs what any
  // process frees in the background: on an H200 some 2.3 ms a GB, and kernels meanwhile run 12 %
  // slower. To be called before timing whenever much was freed.
  virtual absl::Status Settle(absl::Duration limit) = 0;
  virtual double SmClockMhz() = 0;  // 0 if unknown
  // So far; all 0 if unknown.
  virtual Throttling Throttled() { return {}; }

  // Peak rates, measured: the fastest of several kernels for each.
  virtual absl::StatusOr<graph::Roof> MeasureRoof() = 0;
};
// "cuda:0", "host". `nvrtc` as above: MeasureRoof compiles. `cublaslt`: as CublasLt::Open, which is
// done when a plan first asks for it.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& name,
                                                   const std::string& nvrtc = "",
                                                   const std::string& cublaslt = "");

// A card, untouched.
struct VisibleCard {
  std::string name;  // "cuda:0": by its place among those that this process is shown
  std::string uuid;  // "8c4c1a2b-..."; of a slice (MIG) the slice's
};
// The cards that CUDA shows this process (CUDA_VISIBLE_DEVICES), at least one. NotFound: none, or
// there is no driver. Others: there is one, and it does not start.
absl::StatusOr<std::vector<VisibleCard>> ListCards();
// "0000:1b:00.0" of "cuda:0", without touching it; empty: there is no such card.
std::string PciBusIdOf(const std::string& name);

}  // namespace warpsmith::device
