#include "worker/device/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace warpsmith::device {
namespace {

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

absl::Status OutOfMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no address space for ", bytes, " bytes: ", std::strerror(errno)));
}

// Address space with no access, for the pages of a memory and one page on either side.
absl::StatusOr<char*> Reserve(int64_t pages_bytes) {
  void* const region = mmap(nullptr, pages_bytes + 2 * PageBytes(), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return OutOfMemory(pages_bytes);
  return static_cast<char*>(region) + PageBytes();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostMemory>> HostMemory::Make(int64_t bytes, int64_t* total) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("memory of ", bytes, " bytes"));
  }
  auto memory = std::unique_ptr<HostMemory>(new HostMemory());
  memory->bytes_ = bytes;
  memory->pages_bytes_ = RoundUp(bytes, PageBytes());
  auto pages = Reserve(memory->pages_bytes_);
  if (!pages.ok()) return pages.status();
  memory->pages_ = *pages;
  memory->total_ = total;
  *total += memory->pages_bytes_;
  if (mprotect(memory->pages_, memory->pages_bytes_, PROT_READ | PROT_WRITE) != 0) {
    return OutOfMemory(bytes);
  }
  memory->data_ = memory->pages_ + memory->pages_bytes_ - RoundUp(bytes, kTensorAlignment);
  std::memset(memory->pages_, kGuardByte, memory->data_ - memory->pages_);
  std::memset(memory->data_ + bytes, kGuardByte,
              memory->pages_ + memory->pages_bytes_ - (memory->data_ + bytes));
  return memory;
}

HostMemory::~HostMemory() {
  if (pages_ == nullptr) return;
  munmap(pages_ - PageBytes(), pages_bytes_ + 2 * PageBytes());
  *total_ -= pages_bytes_;
}

absl::Status HostMemory::Unmap() {
  if (!mapped_) return absl::OkStatus();
  intact_ = CheckGuard();
  if (mprotect(pages_, pages_bytes_, PROT_NONE) != 0) return OutOfMemory(pages_bytes_);
  mapped_ = false;
  return absl::OkStatus();
}

absl::Status HostMemory::Map() {
  if (mapped_) return absl::OkStatus();
  // The old place is still taken, so that the new one is another.
  auto place = Reserve(pages_bytes_);
  if (!place.ok()) return place.status();
  if (mremap(pages_, pages_bytes_, pages_bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, *place) ==
          MAP_FAILED ||
      mprotect(*place, pages_bytes_, PROT_READ | PROT_WRITE) != 0) {
    return OutOfMemory(pages_bytes_);
  }
  // Moving the pages left a hole between the two untouchable ones.
  munmap(pages_ - PageBytes(), PageBytes());
  munmap(pages_ + pages_bytes_, PageBytes());
  data_ = *place + (data_ - pages_);
  pages_ = *place;
  mapped_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> HostMemory::GuardIntact() { return mapped_ ? CheckGuard() : intact_; }

bool HostMemory::CheckGuard() const {
  const auto untouched = [](const char* from, const char* to) {
    return std::all_of(from, to, [](char c) { return static_cast<uint8_t>(c) == kGuardByte; });
  };
  return untouched(pages_, data_) && untouched(data_ + bytes_, pages_ + pages_bytes_);
}

}  // namespace warpsmith::device
