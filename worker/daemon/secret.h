// What a worker without a certificate proves with that a lease is its own: 256 random bits in a
// file beside its outbox, for its owner alone. Whoever has the folder is the worker.
//
//   absl::StatusOr<std::string> secret = ReadOrMakeSecret(folder + "/secret");
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace warpsmith::daemon {

// 64 hexadecimal digits, the same at each start. FailedPrecondition: others can read the file;
// DataLoss: it holds something else. Both say what to do.
absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path);

}  // namespace warpsmith::daemon
