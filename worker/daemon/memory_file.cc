#include "worker/daemon/memory_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::daemon {

class MemoryFile::Handle final : public LogFile {
 public:
  explicit Handle(MemoryFile& disk) : disk_(disk) { disk_.open_ = true; }
  ~Handle() override { disk_.open_ = false; }

  absl::StatusOr<std::string> Read() override {
    if (Fault("Read") != FileFault::kNone) return Error("read");
    return disk_.bytes_;
  }

  absl::Status Append(absl::string_view bytes) override {
    const FileFault fault = Fault("Append");
    const int64_t room = std::max<int64_t>(0, disk_.capacity_ - disk_.bytes_.size());
    size_t fits = std::min<uint64_t>(bytes.size(), room);
    if (fault == FileFault::kFails) fits = 0;
    if (fault == FileFault::kPart) fits = std::min(fits, bytes.size() / 2);
    if (fits > 0) disk_.Do({disk_.bytes_.size(), std::string(bytes.substr(0, fits)), false});
    return fault == FileFault::kNone && fits == bytes.size() ? absl::OkStatus() : Error("write");
  }

  absl::Status Sync() override {
    const FileFault fault = Fault("Sync");
    if (fault == FileFault::kFails || fault == FileFault::kPart) disk_.lost_ = true;
    if (!disk_.lost_) {
      for (const Change& change : disk_.changes_) Apply(change, disk_.synced_);
      disk_.changes_.clear();
    }
    return fault == FileFault::kNone ? absl::OkStatus() : Error("flush");
  }

  absl::Status Truncate(int64_t size) override {
    const FileFault fault = Fault("Truncate");
    if (fault == FileFault::kNone || fault == FileFault::kDoneButFails) {
      disk_.Do({static_cast<size_t>(size), "", true});
    }
    return fault == FileFault::kNone ? absl::OkStatus() : Error("truncate");
  }

  absl::Status Replace(absl::string_view bytes) override {
    const int64_t room = disk_.capacity_ - static_cast<int64_t>(disk_.bytes_.size());
    if (Fault("Replace") != FileFault::kNone || static_cast<int64_t>(bytes.size()) > room) {
      return Error("replace");
    }
    disk_.Do({0, std::string(bytes), true});
    return absl::OkStatus();
  }

 private:
  FileFault Fault(absl::string_view call) const {
    return disk_.plan_ ? disk_.plan_(call) : FileFault::kNone;
  }
  static absl::Status Error(const char* what) {
    return absl::InternalError(absl::StrCat("cannot ", what, " a file in memory: by plan"));
  }

  MemoryFile& disk_;
};

MemoryFile::~MemoryFile() { WS_CHECK(!open_, "a file goes away under whoever has it open"); }

absl::StatusOr<std::unique_ptr<LogFile>> MemoryFile::Open() {
  if (open_) return absl::FailedPreconditionError("a file in memory is in use");
  return std::make_unique<Handle>(*this);
}

void MemoryFile::set_bytes(std::string bytes) {
  bytes_ = synced_ = std::move(bytes);
  changes_.clear();
  lost_ = false;
}

void MemoryFile::LosePower(int kept, size_t more_bytes) {
  WS_CHECK(!open_, "a process outlives its machine");
  for (int i = 0; i < kept && i < unsynced(); ++i) Apply(changes_[i], synced_);
  if (kept < unsynced() && !changes_[kept].whole) {
    synced_ += changes_[kept].bytes.substr(0, more_bytes);
  }
  set_bytes(std::move(synced_));
}

void MemoryFile::Do(Change change) {
  if (change.keep == 0) lost_ = false;
  Apply(change, bytes_);
  changes_.push_back(std::move(change));
}

void MemoryFile::Apply(const Change& change, std::string& bytes) {
  bytes.resize(change.keep);
  bytes += change.bytes;
}

}  // namespace warpsmith::daemon
