#include "worker/device/cuda_memory.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/host_memory.h"  // kTensorAlignment, kGuardByte

namespace warpsmith::device {
namespace {

// Of the memory in front of a tensor, which is up to 2 MiB, so much is looked at every time.
constexpr int64_t kHeadGuardBytes = 64 << 10;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaMemory>> CudaMemory::Make(std::shared_ptr<CudaContext> context,
                                                             int64_t bytes) {
  if (bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("memory of ", bytes, " bytes"));
  if (absl::Status status = context->Usable(); !status.ok()) return status;
  auto memory = std::unique_ptr<CudaMemory>(new CudaMemory(std::move(context)));
  CudaContext& cuda = *memory->context_;
  memory->bytes_ = bytes;
  memory->pages_bytes_ = RoundUp(bytes, cuda.granularity());
  memory->head_bytes_ = memory->pages_bytes_ - RoundUp(bytes, kTensorAlignment);
  cuda::AllocationProperties properties;
  properties.location.id = cuda.ordinal();
  WS_CUDA(cuda, MemCreate(&memory->handle_, memory->pages_bytes_, &properties, 0));
  memory->created_ = true;
  cuda.allocated_bytes += memory->pages_bytes_;
  if (absl::Status status = memory->MapSomewhere(); !status.ok()) return status;
  if (absl::Status status = memory->FillGuard(); !status.ok()) return status;
  return memory;
}

CudaMemory::~CudaMemory() {
  if (created_) context_->allocated_bytes -= pages_bytes_;
  if (context_->lost()) return;  // the calls below would wait for the card
  const cuda::Driver& driver = context_->driver();
  if (mapped_) driver.MemUnmap(pages(), pages_bytes_);
  if (place_.bytes > 0) driver.MemAddressFree(place_.base, place_.bytes);
  if (created_) driver.MemRelease(handle_);
}

absl::Status CudaMemory::MapSomewhere() {
  CudaContext& cuda = *context_;
  const Place old = place_;
  Place place;
  place.bytes = pages_bytes_ + 2 * cuda.granularity();
  // The old addresses are still reserved, so that the new ones are others.
  WS_CUDA(cuda, MemAddressReserve(&place.base, place.bytes, 0, 0, 0));
  place_ = place;
  if (old.bytes > 0) WS_CUDA(cuda, MemAddressFree(old.base, old.bytes));
  WS_CUDA(cuda, MemMap(pages(), pages_bytes_, 0, handle_, 0));
  mapped_ = true;
  cuda::AccessDescription access;
  access.location.id = cuda.ordinal();
  WS_CUDA(cuda, MemSetAccess(pages(), pages_bytes_, &access, 1));
  return absl::OkStatus();
}

absl::Status CudaMemory::Unmap() {
  if (!mapped_) return absl::OkStatus();
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  auto intact = CheckGuard(kHeadGuardBytes);  // also waits for what still uses it
  if (!intact.ok()) return intact.status();
  intact_ = *intact;
  WS_CUDA(*context_, MemUnmap(pages(), pages_bytes_));
  mapped_ = false;
  return absl::OkStatus();
}

absl::Status CudaMemory::Map() {
  if (mapped_) return absl::OkStatus();
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  return MapSomewhere();
}

absl::StatusOr<bool> CudaMemory::GuardIntact() {
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  if (!mapped_) return intact_;
  return CheckGuard(kHeadGuardBytes);
}

absl::StatusOr<bool> CudaMemory::WholeGuardIntact() {
  if (absl::Status status = context_->Usable(); !status.ok()) return status;
  if (!mapped_) return absl::FailedPreconditionError("the memory is not mapped");
  return CheckGuard(head_bytes_);
}

absl::Status CudaMemory::FillGuard() {
  CudaContext& cuda = *context_;
  const int64_t tail = pages_bytes_ - head_bytes_ - bytes_;
  if (head_bytes_ > 0) {
    WS_CUDA(cuda, MemsetD8Async(pages(), kGuardByte, head_bytes_, cuda.stream()));
  }
  if (tail > 0) {
    WS_CUDA(cuda, MemsetD8Async(data() + bytes_, kGuardByte, tail, cuda.stream()));
  }
  return cuda.Synchronize();
}

absl::StatusOr<bool> CudaMemory::CheckGuard(int64_t head) const {
  CudaContext& cuda = *context_;
  head = std::min(head_bytes_, head);
  const int64_t tail = pages_bytes_ - head_bytes_ - bytes_;
  std::vector<uint8_t> guard(head + tail, kGuardByte);
  if (head > 0) {
    WS_CUDA(cuda, MemcpyDtoHAsync(guard.data(), data() - head, head, cuda.stream()));
  }
  if (tail > 0) {
    WS_CUDA(cuda, MemcpyDtoHAsync(guard.data() + head, data() + bytes_, tail, cuda.stream()));
  }
  if (absl::Status status = cuda.Synchronize(); !status.ok()) return status;
  return std::all_of(guard.begin(), guard.end(), [](uint8_t byte) { return byte == kGuardByte; });
}

}  // namespace warpsmith::device
