// Memory of the host device: pages of its own between pages that nobody may touch.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace warpsmith::device {

// Tensors begin at a multiple of this; what lies between their end and the page's is a guard band.
inline constexpr int64_t kTensorAlignment = 256;
inline constexpr uint8_t kGuardByte = 0xC5;

class HostMemory : public Memory {
 public:
  // `total` counts the physical bytes of all memories of a device and outlives them.
  static absl::StatusOr<std::unique_ptr<HostMemory>> Make(int64_t bytes, int64_t* total);
  ~HostMemory() override;

  int64_t bytes() const override { return bytes_; }
  uint64_t address() const override { return mapped_ ? reinterpret_cast<uint64_t>(data_) : 0; }
  absl::Status Unmap() override;
  absl::Status Map() override;
  absl::StatusOr<bool> GuardIntact() override;

  char* data() const { return data_; }  // valid while mapped

 private:
  HostMemory() = default;
  bool CheckGuard() const;

  int64_t bytes_ = 0;
  int64_t pages_bytes_ = 0;  // of the pages that hold it
  char* pages_ = nullptr;    // one untouchable page before, one behind
  char* data_ = nullptr;
  bool mapped_ = true;
  bool intact_ = true;  // when it was unmapped
  int64_t* total_ = nullptr;
};

}  // namespace warpsmith::device
