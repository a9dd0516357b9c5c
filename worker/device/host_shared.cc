#include "worker/device/host_shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::device {

HostShared::~HostShared() {
  if (base_ != nullptr) munmap(base_, blocks_ * stride_);
}

absl::Status HostShared::Prepare(int blocks, size_t bytes) {
  page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (base_ != nullptr && blocks == blocks_ && bytes == bytes_) {
    for (int i = 0; i < blocks_ && room_ > 0; ++i) {
      mprotect(base_ + i * stride_, stride_ - page_, PROT_READ | PROT_WRITE);
    }
    return absl::OkStatus();
  }
  if (base_ != nullptr) munmap(base_, blocks_ * stride_);
  blocks_ = blocks;
  bytes_ = bytes;
  room_ = (bytes + 15) / 16 * 16;
  stride_ = (room_ + page_ - 1) / page_ * page_ + page_;
  void* const region = mmap(nullptr, blocks_ * stride_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    base_ = nullptr;
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the shared memory of ", blocks, " blocks"));
  }
  base_ = static_cast<char*>(region);
  for (int i = 0; i < blocks_; ++i) {
    WS_CHECK(mprotect(base_ + (i + 1) * stride_ - page_, page_, PROT_NONE) == 0,
             "cannot protect the end of shared memory");
  }
  return absl::OkStatus();
}

void HostShared::Poison() {
  if (room_ == 0) return;
  for (int i = 0; i < blocks_; ++i) {
    if (blocks_ > 1) mprotect(base_ + i * stride_, stride_ - page_, PROT_READ | PROT_WRITE);
    std::memset(block(i), 0xff, room_);
  }
}

void HostShared::Protect(int i) {
  if (room_ > 0) mprotect(base_ + i * stride_, stride_ - page_, PROT_NONE);
}

}  // namespace warpsmith::device
