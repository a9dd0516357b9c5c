// Which start of a worker this is, and which it comes after.
//
// The planner gives a worker's name to one process at a time. Two can claim it: of two folders, or
// of two copies of a machine. So each start draws an instance, and says which ones it follows:
// those that the file beside its outbox names, which one process holds at a time.
//
//   auto lineage = *Lineage::Open(*OpenLogFile(folder + "/instance"), DrawInstance());
//   request.set_instance(lineage->instance()); ... lineage->follows() ...
//   lineage->Answered();                     // the planner has taken it by that name
//
// Where the file cannot be written the worker goes on; the planner then takes its next start for a
// stranger until this one has been silent for a while. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/daemon/log_file.h"

namespace warpsmith::daemon {

// As many as the planner takes: the last that was answered, and the newest since.
inline constexpr size_t kMaxFollowed = 16;

// 128 random bits.
std::string DrawInstance();

class Lineage {
 public:
  // `instance` has no like: letters and digits. Errors: the file cannot be read.
  // `secret`: what all of this folder prove with whose leases theirs are (secret.h); "": nothing.
  static absl::StatusOr<std::unique_ptr<Lineage>> Open(std::unique_ptr<LogFile> file,
                                                       std::string instance,
                                                       std::string secret = "");
  Lineage(const Lineage&) = delete;
  Lineage& operator=(const Lineage&) = delete;

  const std::string& instance() const { return instance_; }
  const std::string& secret() const { return secret_; }
  // The last one before this that was answered, and those since that may have been.
  const std::vector<std::string>& follows() const { return follows_; }
  // The planner knows this one: those before it matter no more. Of several calls the first counts.
  void Answered();

 private:
  Lineage(std::unique_ptr<LogFile> file, std::string instance, std::string secret)
      : file_(std::move(file)), instance_(std::move(instance)), secret_(std::move(secret)) {}

  const std::unique_ptr<LogFile> file_;
  const std::string instance_, secret_;
  std::vector<std::string> follows_;
  bool answered_ = false;
};

}  // namespace warpsmith::daemon
