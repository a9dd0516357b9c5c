// One card's context and stream, shared by the device and everything made from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/cublaslt.h"
#include "worker/device/cuda_driver.h"

namespace warpsmith::device {

// One thread. Once a kernel hangs or kills the context nothing on the card can be reached any more,
// and calls that wait for it would never return: what is destroyed then is left to the process's
// end.
class CudaContext {
 public:
  static absl::StatusOr<std::shared_ptr<CudaContext>> Make(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const cuda::Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  cuda::Stream stream() const { return stream_; }
  // Streams for the lanes of a plan (common/problem/lanes.h): the first is stream(), others are
  // made when they are first asked for, and beside it.
  absl::StatusOr<std::vector<cuda::Stream>> Lanes(int count);
  // Makes those others anew when they are next asked for. What is in them is done or forgotten.
  void DropLanes();
  int64_t granularity() const { return granularity_; }  // of physical memory

  // OK, or what went wrong with `what`. OutOfRange, Aborted and DataLoss lose the device.
  absl::Status Check(cuda::Result result, absl::string_view what);
  // Waits for everything in the stream.
  absl::Status Synchronize();

  void Lose(absl::Status why) { lost_ = std::move(why); }
  bool lost() const { return !lost_.ok(); }
  // FailedPrecondition once it is lost.
  absl::Status Usable() const;

  // cuBLASLt, opened when it is first asked for.
  absl::StatusOr<std::shared_ptr<const CublasLt>> Library();

  int64_t allocated_bytes = 0;
  std::string cublaslt;  // its path; empty: it is looked for

 private:
  CudaContext() = default;

  const cuda::Driver* driver_ = nullptr;
  cuda::Ordinal ordinal_ = 0;
  bool retained_ = false;
  cuda::Stream stream_ = nullptr;
  std::vector<cuda::Stream> beside_;
  int64_t granularity_ = 0;
  absl::Status lost_;
  std::shared_ptr<const CublasLt> library_;
};

}  // namespace warpsmith::device

// Returns from the function with the Status of a driver call that failed. The call is written as
// WS_CUDA(context, MemRelease(handle)) and named cuMemRelease-like in the message.
#define WS_CUDA(context, call)                                                               \
  do {                                                                                       \
    ::absl::Status ws_cuda_status = (context).Check((context).driver().call, "CUDA " #call); \
    if (!ws_cuda_status.ok()) return ws_cuda_status;                                         \
  } while (false)
