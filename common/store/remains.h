// What is left of a store that may be damaged.
//
//   absl::StatusOr<Remains> remains = ReadRemains(dir, check);   // reads all, writes nothing
//   for (const Damage& damage : remains->damage) ...
//
// A store that is open refuses what is damaged where it meets it (store.h); this reads on.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/store/store.h"

namespace warpsmith::store {

// So many are described, the rest is counted.
inline constexpr int kMaxDamage = 1'000;

struct Damage {
  std::string where;  // "event 17", "blob 3fe0..."
  std::string what;   // "it is not what was written"
};

struct Remains {
  Identity identity;           // an empty id: it is not there
  int64_t last = 0;            // event that was made durable; 0: not known
  int64_t checkpoint = 0;      // its revision
  std::vector<Entry> entries;  // of it, those that are what was written
  std::vector<Record> log;     // after it, up to the first event that is damaged or not there
  // Of those that are what was written:
  int64_t events = 0;
  int64_t archived = 0;         // entries of the archive
  std::set<std::string> blobs;  // digests
  int64_t facts = 0;
  std::vector<Damage> damage;
  int64_t more_damage = 0;  // beyond kMaxDamage

  void Add(std::string where, std::string what);
};

// Whether the body of facts is what its writer wrote: the store guards the rest.
using CheckFacts = std::function<absl::Status(Facts)>;

// NotFound: there is no store in the folder.
absl::Status CheckThere(const std::string& dir);

// One view of the store, which may be in use. NotFound: there is none. FailedPrecondition: it has
// another schema.
absl::StatusOr<Remains> ReadRemains(const std::string& dir, const CheckFacts& check);

}  // namespace warpsmith::store
