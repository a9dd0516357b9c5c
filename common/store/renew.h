// A store that becomes another one, all of it or nothing: of this version, or of what was left of
// it.
//
//   absl::StatusOr<bool> changed = FinishUpgrade(dir);
//   absl::StatusOr<Renewed> renewed = GoOnWith(dir, whole, check);   // after damage
//   absl::StatusOr<Renewed> moved = MoveForward(dir, whole, ...);    // of schema 1
//
// The caller has the folder's lock.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/store/remains.h"
#include "common/store/store.h"

namespace warpsmith::store {

// A store of a version before becomes one of this version, all of it or nothing: that version can
// no longer be gone back to. False: it was one already.
absl::StatusOr<bool> FinishUpgrade(const std::string& dir);

// The store becomes one of this version, whose checkpoint is `whole`, with an empty log behind it,
// the blobs and facts and the archive's entries that are what was written, and a generation of its
// own: all of it or nothing. What was there is kept beside it.
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
