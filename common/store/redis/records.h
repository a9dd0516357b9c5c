// What a Redis store keeps, as bytes: places, entries and facts. Numbers are eight bytes each, as
// the machine has them (little endian on all that this runs on).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/store/bulk.h"
#include "common/store/store.h"

namespace warpsmith::store::redis {

// Damage, and what is to be done about it.
absl::Status Damaged(const std::string& what);

inline constexpr size_t kPlaceBytes = 3 * sizeof(int64_t);
void AppendPlace(const Place& place, std::string& out);
// Nowhere, if the bytes are none.
Place PlaceOf(absl::string_view bytes);

// An entry's value: its checksum and its bytes.
std::string ValueOf(const Entry& entry);
// DataLoss: it is not what was written. `of`: what it is an entry of.
absl::StatusOr<Entry> EntryOf(absl::string_view key, absl::string_view value, const char* of);

// Subject, name, head and body.
int64_t SizeOf(const Facts& facts);
// `before`: where those before them of the same subject are.
std::string FactsBytes(const Facts& facts, const Place& before);
// Of what lies at `place` in a file: with its body, or without one and with no more read of it than
// the head takes. DataLoss: it is not what was written.
absl::StatusOr<Facts> ReadFactsAt(BulkFiles& files, const Place& place, bool body, Place& before);

// Says which batch it is: a second try is told from another one. "" if it has no events.
std::string LabelOf(const Batch& batch);

}  // namespace warpsmith::store::redis
