// What the service wants to be durable, and how it becomes so.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/store/store.h"
#include "planner/core/state.h"

namespace warpsmith::planner {

struct Write {
  int64_t number = 0;  // 1, 2, 3, ...
  std::vector<std::string> events;
  std::vector<std::string> blobs;
  std::vector<store::Facts> facts;
  // What these events and all before them changed, for the next checkpoint.
  std::shared_ptr<const Changes> changes;
  bool checkpoint = false;  // which is due, and brings the store to these changes
};

// The checkpoint that brings a store's to what `changes`, one after another, have made; at least
// one. `archives`: Identity.archives; what only such a store holds is left out of another's, and is
// not known after a restart.
store::Checkpoint CheckpointOf(absl::Span<const std::shared_ptr<const Changes>> changes,
                               bool archives);
// Keys of a run and of a task, in a checkpoint and in the archive. A run's tasks have those that
// begin with TaskKey(run_id + "/").
std::string RunKey(const std::string& run_id);
std::string RunPrefix();  // of the keys of all runs
std::string TaskKey(const std::string& id);
// Adds what an entry of a checkpoint says. False: it cannot be read, and nothing is added.
bool AddEntry(const store::Entry& entry, v1::PlannerState& state);
// The state that a store's checkpoint is of. DataLoss: it cannot be read.
absl::StatusOr<v1::PlannerState> LoadState(store::Store& store);

// The log's one writer. Not thread-safe.
class Writer {
 public:
  // `store` must outlive this; `after` is its last revision, `archives` Identity.archives.
  Writer(store::Store* store, int64_t epoch, int64_t after, bool archives = true)
      : store_(store), epoch_(epoch), archives_(archives), after_(after) {}

  // Makes `writes` durable in one transaction, and saves one checkpoint, of their end, where the
  // last of them asks for it. Unavailable, DeadlineExceeded: they may be durable or not, and the
  // same again finds out. Anything else: they never will be. A checkpoint that cannot be saved is
  // only logged, and is part of the next: the log has everything.
  absl::Status Commit(absl::Span<const Write> writes);
  // Revision of the last checkpoint that it saved; 0: none yet.
  int64_t saved() const { return saved_; }

 private:
  store::Store* const store_;
  const int64_t epoch_;
  const bool archives_;
  int64_t after_;
  std::vector<std::shared_ptr<const Changes>> unsaved_;
  bool owed_ = false;  // a checkpoint, which could not be saved
  int64_t saved_ = 0;
};

// Of what it brings: events, blobs, facts.
int64_t SizeOf(const Write& write);

// How many of `writes` go into one transaction, from the first on; at least one. Where some ask for
// checkpoints it ends with the last of these, whose checkpoint is that of the others, too: they
// cost what one does, however many are asked for.
size_t OneTransaction(const std::deque<Write>& writes);

// Whether a commit with this answer is to be tried again, as it is.
bool IsWorthAnotherTry(const absl::Status& status);

}  // namespace warpsmith::planner
