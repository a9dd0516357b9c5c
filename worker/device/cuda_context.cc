#include "worker/device/cuda_context.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::device {

absl::StatusOr<std::shared_ptr<CudaContext>> CudaContext::Make(int ordinal) {
  auto driver = cuda::LoadDriver();
  if (!driver.ok()) return driver.status();
  auto context = std::shared_ptr<CudaContext>(new CudaContext());
  context->driver_ = *driver;
  WS_CUDA(*context, DeviceGet(&context->ordinal_, ordinal));
  int has_virtual_memory = 0;
  WS_CUDA(*context, DeviceGetAttribute(&has_virtual_memory, cuda::kVirtualMemoryManagement,
                                       context->ordinal_));
  if (has_virtual_memory == 0) {
    return absl::UnimplementedError(absl::StrCat(
        "cuda:", ordinal, " has no virtual memory management; guarded memory needs it"));
  }
  // The primary context: the only one through which other libraries of this process can share.
  cuda::Context primary = nullptr;
  WS_CUDA(*context, PrimaryCtxRetain(&primary, context->ordinal_));
  context->retained_ = true;
  WS_CUDA(*context, CtxSetCurrent(primary));
  WS_CUDA(*context, StreamCreate(&context->stream_, cuda::kStreamNonBlocking));
  cuda::AllocationProperties properties;
  properties.location.id = context->ordinal_;
  size_t granularity = 0;
  WS_CUDA(*context, MemGetGranularity(&granularity, &properties, cuda::kGranularityMinimum));
  context->granularity_ = static_cast<int64_t>(granularity);
  return context;
}

CudaContext::~CudaContext() {
  if (lost()) return;
  DropLanes();
  if (stream_ != nullptr) driver_->StreamDestroy(stream_);
  if (retained_) driver_->PrimaryCtxRelease(ordinal_);
}

absl::StatusOr<std::vector<cuda::Stream>> CudaContext::Lanes(int count) {
  while (static_cast<int>(beside_.size()) < count - 1) {
    cuda::Stream stream = nullptr;
    WS_CUDA(*this, StreamCreate(&stream, cuda::kStreamNonBlocking));
    beside_.push_back(stream);
  }
  std::vector<cuda::Stream> lanes = {stream_};
  lanes.insert(lanes.end(), beside_.begin(), beside_.begin() + (count - 1));
  return lanes;
}

void CudaContext::DropLanes() {
  for (cuda::Stream stream : beside_) driver_->StreamDestroy(stream);
  beside_.clear();
}

absl::Status CudaContext::Check(cuda::Result result, absl::string_view what) {
  absl::Status status = cuda::ToStatus(*driver_, result, what);
  if (absl::IsOutOfRange(status) || absl::IsAborted(status) || absl::IsDataLoss(status)) {
    Lose(status);
  }
  return status;
}

absl::Status CudaContext::Synchronize() {
  WS_CUDA(*this, StreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const CublasLt>> CudaContext::Library() {
  if (library_ == nullptr) {
    auto opened = CublasLt::Open(cublaslt);
    if (!opened.ok()) return opened.status();
    library_ = *std::move(opened);
  }
  return library_;
}

absl::Status CudaContext::Usable() const {
  if (!lost()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the device is lost since: ", lost_.message()));
}

}  // namespace warpsmith::device
