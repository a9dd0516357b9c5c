#include "common/store/redis/records.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/store/checksum.h"

namespace warpsmith::store::redis {
namespace {

// Read at first of facts whose body is not wanted; heads are shorter, mostly.
constexpr int64_t kHeadBytes = 4096;

// Facts in a file: where those before them of the same subject are, sizes of subject, name, head
// and body, the body's checksum, that of all before it and of what follows up to the body; then
// these.
constexpr size_t kFactsHeader = kPlaceBytes + 6 * sizeof(int64_t);

void AppendNumber(int64_t number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

int64_t NumberAt(absl::string_view bytes, size_t offset) {
  int64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

}  // namespace

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(
      absl::StrCat(what, ": restore a backup, or `warpsmith store accept-loss`"));
}

void AppendPlace(const Place& place, std::string& out) {
  for (const int64_t number : {place.file, place.offset, place.size}) AppendNumber(number, out);
}

Place PlaceOf(absl::string_view bytes) {
  if (bytes.size() < kPlaceBytes) return Place();
  return {NumberAt(bytes, 0), NumberAt(bytes, 8), NumberAt(bytes, 16)};
}

std::string ValueOf(const Entry& entry) {
  std::string value;
  value.reserve(sizeof(int64_t) + entry.bytes.size());
  AppendNumber(ChecksumOf(entry), value);
  return value.append(entry.bytes);
}

absl::StatusOr<Entry> EntryOf(absl::string_view key, absl::string_view value, const char* of) {
  Entry entry{std::string(key), ""};
  const bool has_sum = value.size() >= sizeof(int64_t);
  if (has_sum) entry.bytes = std::string(value.substr(sizeof(int64_t)));
  if (!has_sum || ChecksumOf(entry) != NumberAt(value, 0)) {
    return Damaged(absl::StrCat("entry '", entry.key, "' of the ", of, " is not what was written"));
  }
  return entry;
}

std::string FactsBytes(const Facts& facts, const Place& before) {
  std::string bytes;
  bytes.reserve(kFactsHeader + facts.subject.size() + facts.name.size() + facts.head.size() +
                facts.body.size());
  AppendPlace(before, bytes);
  for (const std::string* part : {&facts.subject, &facts.name, &facts.head, &facts.body}) {
    AppendNumber(static_cast<int64_t>(part->size()), bytes);
  }
  AppendNumber(Checksum(facts.body, 0), bytes);
  AppendNumber(Checksum(bytes, ChecksumOf(facts)), bytes);
  return bytes.append(facts.subject).append(facts.name).append(facts.head).append(facts.body);
}

int64_t SizeOf(const Facts& facts) {
  return static_cast<int64_t>(facts.subject.size() + facts.name.size() + facts.head.size() +
                              facts.body.size());
}

absl::StatusOr<Facts> ReadFactsAt(BulkFiles& files, const Place& place, bool body, Place& before) {
  const absl::Status changed = absl::DataLossError(absl::StrCat(
      "the facts at byte ", place.offset, " of file ", place.file, " are not what was written"));
  Place wanted = place;
  if (!body) wanted.size = std::min(place.size, kHeadBytes);
  while (true) {
    absl::StatusOr<std::string> bytes = files.Read(wanted);
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() < kFactsHeader) return changed;
    int64_t sizes[4];
    int64_t head = kFactsHeader, all = kFactsHeader;
    for (int i = 0; i < 4; ++i) {
      sizes[i] = NumberAt(*bytes, kPlaceBytes + 8 * i);
      if (sizes[i] < 0 || sizes[i] > place.size) return changed;
      all += sizes[i];
      if (i < 3) head += sizes[i];
    }
    if (all != place.size) return changed;
    if (head > wanted.size) {
      wanted.size = head;
      continue;
    }
    size_t at = kFactsHeader;
    const auto next = [&](int64_t size) {
      std::string part = bytes->substr(at, static_cast<size_t>(size));
      at += static_cast<size_t>(size);
      return part;
    };
    Facts facts{next(sizes[0]), next(sizes[1]), next(sizes[2]), ""};
    const size_t sums = kPlaceBytes + 4 * sizeof(int64_t);
    const std::string summed = bytes->substr(0, sums + sizeof(int64_t));
    if (Checksum(summed, ChecksumOf(facts)) != NumberAt(*bytes, sums + sizeof(int64_t))) {
      return changed;
    }
    if (body) {
      facts.body = next(sizes[3]);
      if (Checksum(facts.body, 0) != NumberAt(*bytes, sums)) return changed;
    }
    before = PlaceOf(*bytes);
    return facts;
  }
}

std::string LabelOf(const Batch& batch) {
  if (batch.events.empty()) return "";
  int64_t sum = 0;
  std::string sizes;
  for (const std::string& event : batch.events) {
    sum = Checksum(event, sum);
    AppendNumber(sum, sizes);
  }
  return absl::StrCat(batch.epoch, ":", batch.after, ":", batch.events.size(), ":",
                      base::Sha256Hex(sizes));
}

}  // namespace warpsmith::store::redis
