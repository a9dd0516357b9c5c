// A planner's store after damage: what is wrong with it, and how to go on with the rest.
//
//   absl::StatusOr<StoreReport> report = CheckStore(dir);    // also while a planner runs on it
//   absl::StatusOr<AcceptedLoss> accepted = AcceptLoss(dir);
//
// What is gone on with is the state of the checkpoint's entries and of the log's events up to the
// first that is damaged. It is another history (store.h): what workers were told of the one before
// is taken for no promise, and the same planner whose copy was brought back goes on like this, too.
// Of tasks that lost
//   their record, or their run's    nothing is left
//   their problem                   they have failed, for that reason
//   their kernel                    what was known of it is forgotten; one that had converged is
//                                   held, for that reason
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/store/remains.h"

namespace warpsmith::planner {

struct StoreReport {
  std::string store;     // its token
  bool upgraded = true;  // else it is of the version before
  int64_t last = 0;      // event that was made durable
  int64_t usable = 0;    // event up to which the log can be gone on with
  // What of it is what was written.
  int64_t events = 0, entries = 0, archived = 0, blobs = 0, batches = 0;
  int64_t runs = 0, tasks = 0;         // of what can be gone on with
  std::vector<store::Damage> damage;   // of what is stored
  int64_t more_damage = 0;             // not described
  std::vector<store::Damage> meaning;  // of it, for runs and tasks
};

struct AcceptedLoss {
  StoreReport report;  // as it was
  std::string store;   // token of the history from here on
  std::string kept;    // path of what was there
};

// NotFound: there is no store. FailedPrecondition: another version's.
absl::StatusOr<StoreReport> CheckStore(const std::string& dir);

struct UpgradeFinished {
  bool changed = false;  // else it was of this version already
  std::string kept;      // path of what was there, where a new store was made of it
};

// A store of a version before is one of this version from here on: that version cannot read it any
// more. Of one of the first planners (schema 1) a new one is made. NotFound: there is no store.
// FailedPrecondition: its planner runs, or it is of yet another version. DataLoss: a store of
// schema 1 is damaged, and was left as it was.
absl::StatusOr<UpgradeFinished> FinishUpgrade(const std::string& dir);

// Of an undamaged store, too; it is one of this version then. FailedPrecondition: its planner runs.
absl::StatusOr<AcceptedLoss> AcceptLoss(const std::string& dir);

}  // namespace warpsmith::planner
