// A planner's state from one store to another.
//
//   absl::StatusOr<Migrated> migrated = Migrate(*from, *to);
//
// What is moved is the state as it is, the archive, and the problems, kernels and trials of all
// their tasks. It is another history of the same store (store.h): its generation is raised.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/store/store.h"

namespace warpsmith::planner {

struct Migrated {
  std::string store;     // token of the history from here on
  int64_t revision = 0;  // after which it goes on
  int64_t runs = 0, tasks = 0, archived = 0, blobs = 0, batches = 0;
};

// `to` must be empty (FailedPrecondition); no planner may be at work on either, and one that is on
// `from` is deposed. After an error `to` holds a part, from which no planner starts: remove it.
// DataLoss: something in `from` is damaged.
absl::StatusOr<Migrated> Migrate(store::Store& from, store::Store& to);

}  // namespace warpsmith::planner
