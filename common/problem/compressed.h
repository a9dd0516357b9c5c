// Bytes compressed by zstd, with a checksum.
//
// Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpsmith::problem {

// What is uncompressed is at most so large.
inline constexpr size_t kMaxUncompressedBytes = size_t{64} << 20;

std::string Compressed(absl::string_view bytes);

// DataLoss: it is not what was compressed, or too large; the message says of what (`what`, for
// people).
absl::StatusOr<std::string> Uncompressed(absl::string_view compressed, absl::string_view what);

}  // namespace warpsmith::problem
