#include "worker/daemon/secret.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/private_file.h"

namespace warpsmith::daemon {
namespace {

constexpr size_t kDigits = 64;

}  // namespace

absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path) {
  absl::StatusOr<std::string> text = base::ReadPrivateFile(path);
  if (absl::IsNotFound(text.status())) {
    std::random_device random;
    std::string secret;
    while (secret.size() < kDigits) absl::StrAppendFormat(&secret, "%08x", random());
    if (absl::Status written = base::WritePrivateFile(path, secret + "\n"); !written.ok()) {
      return written;
    }
    return secret;
  }
  if (!text.ok()) return text.status();
  std::string secret(absl::StripAsciiWhitespace(*text));
  if (secret.size() != kDigits ||
      !std::all_of(secret.begin(), secret.end(), absl::ascii_isxdigit)) {
    return absl::DataLossError(absl::StrCat(
        path,
        " is damaged: bring back a copy, or remove it, and what this worker holds is lost to "
        "it"));
  }
  return secret;
}

}  // namespace warpsmith::daemon
