// Memory of a card, by virtual memory management: physical memory of its own, mapped so that the
// tensor ends as near as its alignment allows to addresses that nobody can reach.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/cuda_context.h"
#include "worker/device/device.h"

namespace warpsmith::device {

class CudaMemory : public Memory {
 public:
  static absl::StatusOr<std::unique_ptr<CudaMemory>> Make(std::shared_ptr<CudaContext> context,
                                                          int64_t bytes);
  ~CudaMemory() override;

  int64_t bytes() const override { return bytes_; }
  uint64_t address() const override { return mapped_ ? data() : 0; }
  absl::Status Unmap() override;
  absl::Status Map() override;
  absl::StatusOr<bool> GuardIntact() override;
  absl::StatusOr<bool> WholeGuardIntact() override;

 private:
  // A stretch of addresses: the memory's own between a granule on either side that stays unmapped.
  struct Place {
    cuda::Address base = 0;
    size_t bytes = 0;
  };

  explicit CudaMemory(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  // Maps the physical memory at new addresses and gives up the old ones.
  absl::Status MapSomewhere();
  absl::Status FillGuard();
  // head: so many bytes in front of the tensor.
  absl::StatusOr<bool> CheckGuard(int64_t head) const;
  cuda::Address pages() const { return place_.base + context_->granularity(); }
  cuda::Address data() const { return pages() + head_bytes_; }

  const std::shared_ptr<CudaContext> context_;
  int64_t bytes_ = 0;
  int64_t pages_bytes_ = 0;  // physical
  int64_t head_bytes_ = 0;   // in front of the tensor
  cuda::MemoryHandle handle_ = 0;
  bool created_ = false, mapped_ = false;
  bool intact_ = true;  // when it was unmapped
  Place place_;
};

}  // namespace warpsmith::device
