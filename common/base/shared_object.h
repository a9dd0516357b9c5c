// A POSIX shared-memory object that another process has written, for reading.
//
//   ASSIGN_OR_RETURN(const SharedObject object, SharedObject::Open("/name"));
//   ASSIGN_OR_RETURN(const absl::Span<const char> bytes, object.Bytes(0, 4096));
//
// Thread-safe once open. If the other process makes it shorter meanwhile, reading faults.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace warpsmith::base {

class SharedObject {
 public:
  // NotFound: there is none of that name. ResourceExhausted: it cannot be mapped.
  static absl::StatusOr<SharedObject> Open(const std::string& name);
  SharedObject(SharedObject&& other) noexcept { *this = std::move(other); }
  SharedObject& operator=(SharedObject&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(start_, other.start_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SharedObject();

  // As long as the object lives. InvalidArgument: it does not have so many there.
  absl::StatusOr<absl::Span<const char>> Bytes(int64_t offset, int64_t bytes) const;

 private:
  SharedObject() = default;

  std::string name_;
  char* start_ = nullptr;  // null: it is empty
  int64_t size_ = 0;
};

}  // namespace warpsmith::base
