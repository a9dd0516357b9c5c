// What is left of a store that may be damaged, and a new one made of that.
//
//   absl::StatusOr<Remains> remains = ReadRemains(dir, check);   // reads all, writes nothing
//   for (const Damage& damage : remains->damage) ...
//   absl::StatusOr<Renewed> renewed = GoOnWith(dir, whole, check);
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

// A store of a version before becomes one of this version, all of it or nothing: that version can
// no longer be gone back to. False: it was one already. The caller has the folder's lock.
absl::StatusOr<bool> FinishUpgrade(const std::string& dir);

// The store becomes one of this version, whose checkpoint is `whole`, with an empty log behind it,
// the blobs and facts and the archive's entries that are what was written, and a generation of its
// own: all of it or nothing. What was there is kept beside it. The caller has the folder's lock.
struct Renewed {
  Identity identity;
  std::string kept;  // path of what was there
};
absl::StatusOr<Renewed> GoOnWith(const std::string& dir, const Checkpoint& whole,
                                 const CheckFacts& check);

// What a store of schema 1 has: a snapshot of the state and the log behind it, without checksums.
// Batches of trials were blobs.
struct FirstRemains {
  Record snapshot;  // of revision 0: there is none
  std::vector<Record> log;
};
// DataLoss: the log has a gap. FailedPrecondition: it is of another schema.
absl::StatusOr<FirstRemains> ReadFirst(const std::string& dir);

// A blob that becomes facts of its subject.
struct BlobOfFacts {
  std::string subject;
  std::string digest;
};
using ToFacts =
    std::function<absl::StatusOr<Facts>(const BlobOfFacts& blob, const std::string& bytes)>;

// A store of schema 1 becomes one of this version, as by GoOnWith: `batches`, in this order, are
// facts from here on, all other blobs stay. DataLoss: a blob is not what was written; nothing is
// changed then.
absl::StatusOr<Renewed> MoveForward(const std::string& dir, const Checkpoint& whole,
                                    const std::vector<BlobOfFacts>& batches,
                                    const ToFacts& to_facts);

}  // namespace warpsmith::store
