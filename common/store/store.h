// What the planner remembers: an append-only log of events with one writer, snapshots of the state
// they make, and content-addressed blobs.
//
//   Store           the interface; SqliteStore (sqlite_store.h) is the embedded backend
//   FaultyStore     faulty_store.h: a decorator that fails on purpose
//   conformance.h   what every backend must pass
//
//   std::unique_ptr<Store> store = *SqliteStore::Open(dir);
//   int64_t epoch = *store->Lead();
//   Batch batch{.epoch = epoch, .after = *store->LastRevision(), .events = {bytes}, .blobs = {}};
//   absl::Status status = store->Commit(batch);   // durable when OK
//
// Contract
// * Revisions are 1, 2, 3, ... without gaps. A batch is all there or not at all.
// * One writer: Lead() raises the epoch, and whatever carries a lower one is refused with
//   FailedPrecondition from then on, whoever holds the store.
// * OK means durable: it survives SIGKILL and the loss of power.
// * An error other than FailedPrecondition, InvalidArgument and ResourceExhausted leaves open
//   whether the batch is there. Committing the same batch again finds out: what is there already,
//   at the same place under the same epoch, is OK.
// * Blobs may be read as soon as the batch or Put that brought them is OK. Equal bytes are one
// blob.
// * Any thread; reads do not wait for a commit under way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpsmith::store {

// Limits; more is an InvalidArgument that names them.
inline constexpr size_t kMaxEventBytes = 16 << 20;
inline constexpr size_t kMaxBlobBytes = 64 << 20;
inline constexpr size_t kMaxSnapshotBytes = 512 << 20;
inline constexpr size_t kMaxReadEvents = 10000;

struct Batch {
  int64_t epoch = 0;
  int64_t after = 0;                // revision of the last event before this batch
  std::vector<std::string> events;  // get revisions after + 1, ...
  std::vector<std::string> blobs;   // become readable together with the events
};

struct Record {
  int64_t revision = 0;
  std::string bytes;
};

class Store {
 public:
  virtual ~Store() = default;

  // Becomes the writer: returns an epoch higher than every one before.
  virtual absl::StatusOr<int64_t> Lead() = 0;

  // FailedPrecondition: `epoch` is not the current one, or the log does not end at `after`.
  virtual absl::Status Commit(const Batch& batch) = 0;

  // 0 for an empty log.
  virtual absl::StatusOr<int64_t> LastRevision() = 0;

  // Up to `limit` (1 to kMaxReadEvents) events with revisions above `after`, in order.
  virtual absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) = 0;

  // The state after `snapshot.revision`, which must not be beyond the log; replaces older ones.
  virtual absl::Status SaveSnapshot(int64_t epoch, const Record& snapshot) = 0;
  // The newest one; nullopt if there is none.
  virtual absl::StatusOr<std::optional<Record>> LoadSnapshot() = 0;

  // Returns the sha256 of `bytes` (hex).
  virtual absl::StatusOr<std::string> Put(absl::string_view bytes) = 0;
  // NotFound names the digest.
  virtual absl::StatusOr<std::string> Get(const std::string& digest) = 0;

  // Releases the store. Every later call but Close is FailedPrecondition.
  virtual absl::Status Close() = 0;
};

}  // namespace warpsmith::store
