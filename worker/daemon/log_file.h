// A file that grows at its end and is now and then written anew: what the outbox needs of a disk.
//
//   auto file = OpenLogFile(dir + "/outbox");            // a real one
//   MemoryFile disk; auto file = disk.Open();            // for simulations: memory_file.h
//
//   file->Append(record); file->Sync();
//   file->Replace(all_that_counts_now);
//
// What was appended outlives the death of the process, and with the next Sync also a power loss.
// Errors say what failed and of which file. Whoever has the file open holds it alone, until the
// object is destroyed. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpsmith::daemon {

class LogFile {
 public:
  virtual ~LogFile() = default;

  // All that it holds.
  virtual absl::StatusOr<std::string> Read() = 0;
  // After an error a part of `bytes` may stand at the end.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // What was done so far survives a power loss. After an error that is unknown, also if a second
  // call says OK: what counts has to be written again.
  virtual absl::Status Sync() = 0;
  // Its first `size` bytes remain.
  virtual absl::Status Truncate(int64_t size) = 0;
  // It holds `bytes` instead of what it held: whoever opens it finds the one or the other whole,
  // also after a power loss. After an error it holds what it held.
  virtual absl::Status Replace(absl::string_view bytes) = 0;
};

// Makes the file if there is none. FailedPrecondition: another process holds it.
absl::StatusOr<std::unique_ptr<LogFile>> OpenLogFile(const std::string& path);

}  // namespace warpsmith::daemon
