// Dynamic shared memory of the blocks of a gang, each ending at a page that nobody may touch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace warpsmith::device {

class HostShared {
 public:
  HostShared() = default;
  ~HostShared();
  HostShared(const HostShared&) = delete;
  HostShared& operator=(const HostShared&) = delete;

  // Room for `bytes` in each of `blocks`; keeps what it has where that is the same.
  absl::Status Prepare(int blocks, size_t bytes);
  // 16-byte aligned, followed by less than 16 bytes and then an unmapped page.
  char* block(int i) const { return base_ + i * stride_ + (stride_ - page_ - room_); }
  int64_t stride() const { return static_cast<int64_t>(stride_); }

  // Opens every block again and fills it with NaN.
  void Poison();
  // Takes a block out of reach until Poison.
  void Protect(int i);

 private:
  char* base_ = nullptr;
  int blocks_ = 0;
  size_t bytes_ = 0, room_ = 0, stride_ = 0, page_ = 0;
};

}  // namespace warpsmith::device
