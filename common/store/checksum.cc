#include "common/store/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace warpsmith::store {

int64_t Checksum(absl::string_view bytes, int64_t before) {
  return static_cast<int64_t>(
      XXH3_64bits_withSeed(bytes.data(), bytes.size(), static_cast<uint64_t>(before)));
}

int64_t ChecksumOf(const Entry& entry) { return Checksum(entry.bytes, Checksum(entry.key, 0)); }

int64_t ChecksumOf(const Facts& facts) {
  return Checksum(facts.head, Checksum(facts.name, Checksum(facts.subject, 0)));
}

}  // namespace warpsmith::store
