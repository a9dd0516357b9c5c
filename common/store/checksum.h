// Checksums of what a store holds: they find what a disk or a hand has changed, not a forger.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/store/store.h"

namespace warpsmith::store {

// XXH3, 64 bits, of what comes after `before`: the checksum of all that was before it, or 0.
int64_t Checksum(absl::string_view bytes, int64_t before);

int64_t ChecksumOf(const Entry& entry);

// Of everything but the body, which its writer guards.
int64_t ChecksumOf(const Facts& facts);

}  // namespace warpsmith::store
