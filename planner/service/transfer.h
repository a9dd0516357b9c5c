// All that a planner remembers, from one store to another; and what that is, in numbers.
//
//   absl::StatusOr<Inventory> moved = Transfer(*from, *to, {.identity = identity});
//   absl::StatusOr<Inventory> there = TakeInventory(*to);
//
// It is what there is at one revision: the state, the archive, and the problems, kernels and trials
// that their tasks name. What nothing names stays behind, and so do the events that made the state.
// `from` may be one that a planner writes to (a moment of an embedded store, a Redis store as it
// is): what comes after that revision is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/store/store.h"
#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

struct Inventory {
  std::string store;     // token of its history
  int64_t revision = 0;  // event after which it goes on
  int64_t runs = 0, tasks = 0;
  int64_t archived = 0;               // entries of the archive
  int64_t blobs = 0, blob_bytes = 0;  // problems and kernels, each once
  int64_t batches = 0, trials = 0, trial_bytes = 0;

  // But for the history's name.
  bool HoldsAs(const Inventory& other) const;
};

// What `to` is to be.
struct Become {
  store::Identity identity;
  // How another history begins; the same one begins as that of `from` does.
  std::optional<v1::Restored> restored;
};

// `to` must be empty (FailedPrecondition). After an error it holds a part, from which no planner
// starts. DataLoss: something in `from` is damaged, or not there. Unavailable: a planner writes to
// `from` faster than it can be followed.
absl::StatusOr<Inventory> Transfer(store::Store& from, store::Store& to, const Become& become);

// Reads all of it, and so finds what Transfer would. Of a store that nobody writes to.
absl::StatusOr<Inventory> TakeInventory(store::Store& store);

// Another history of the same store, in `to`; nobody writes to `from` from here on. No planner may
// be at work on either, and one that is on `from` is deposed. Errors as of Transfer.
absl::StatusOr<Inventory> Migrate(store::Store& from, store::Store& to);

// Digests of the blobs that a task names: these must be there.
std::vector<std::string> NamedBlobs(const v1::Task& task);
// Hands out the log's events after `revision`, and moves it on; up to `last`, or to the log's end.
// DataLoss: one cannot be read. Else the store's.
absl::Status ReadLog(store::Store& store, int64_t& revision, int64_t last,
                     const std::function<void(const v1::Event&)>& take);

}  // namespace warpsmith::planner
