// What the planner remembers: an append-only log of events with one writer, a checkpoint of the
// state they make, an archive of what is no longer part of it, content-addressed blobs, and facts
// by subject.
//
//   Store           the interface; SqliteStore (sqlite_store.h) is the embedded backend, RedisStore
//                   (redis/redis_store.h) the one that several planners share
//   FaultyStore     faulty_store.h: a decorator that fails on purpose
//   conformance.h   what every backend must pass
//
//   std::unique_ptr<Store> store = *SqliteStore::Open(dir);
//   int64_t epoch = *store->Lead();
//   Batch batch{.epoch = epoch, .after = *store->LastRevision(), .events = {bytes}};
//   absl::Status status = store->Commit(batch);   // durable when OK
//
// Contract
// * Revisions are 1, 2, 3, ... without gaps. A batch is all there or not at all.
// * One writer: Lead() raises the epoch, and whatever carries a lower one is refused with
//   FailedPrecondition from then on, whoever holds the store.
// * OK means durable: it survives SIGKILL and the loss of power.
// * An error other than FailedPrecondition, InvalidArgument and ResourceExhausted leaves open
//   whether the batch is there. Committing the same batch again finds out: what is there already,
//   at the same place under the same epoch, is OK, and nothing of it is there twice.
// * What is read is what was written: events, entries of the checkpoint and of the archive, and
//   blobs have checksums, the log and the checkpoint are whole. Anything else is DataLoss, which
//   says what is damaged.
// * Blobs may be read as soon as the batch or Put that brought them is OK. Equal bytes are one
//   blob.
// * Facts are kept in the order in which they came, until there is no more room for them: the
//   oldest are forgotten then, and counted.
// * A store has an id, drawn when it was made, and a generation, raised by whatever makes its
//   history another one (a copy brought back, a log that lost its end). Together they name a
//   history.
// * Any thread; reads do not wait for a commit under way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpsmith::store {

// Limits; more is an InvalidArgument that names them.
inline constexpr size_t kMaxEventBytes = 16 << 20;
inline constexpr size_t kMaxBlobBytes = 64 << 20;
inline constexpr size_t kMaxFactsBytes = 64 << 20;
inline constexpr size_t kMaxReadEvents = 10000;

// What is known of a subject, by a name of its own. `head` says in short what `body` is.
struct Facts {
  std::string subject;
  std::string name;
  std::string head;
  std::string body;
};

struct Batch {
  int64_t epoch = 0;
  int64_t after = 0;                // revision of the last event before this batch
  std::vector<std::string> events;  // get revisions after + 1, ...
  std::vector<std::string> blobs;   // become readable together with the events
  std::vector<Facts> facts = {};    // likewise; without events the same again adds them again
};

struct Record {
  int64_t revision = 0;
  std::string bytes;
};

// An entry of the state, by its key.
struct Entry {
  std::string key;
  std::string bytes;
};

// What of the state after `revision` is not as the checkpoint before says.
struct Checkpoint {
  int64_t revision = 0;
  std::vector<Entry> put;
  std::vector<std::string> erase;  // keys
  // Goes into the archive, for good; the same key again replaces. Only of a store that has one,
  // else InvalidArgument.
  std::vector<Entry> archive = {};
};

// Which history a store has.
struct Identity {
  std::string id;  // 16 hexadecimal digits
  int64_t generation = 1;
  // It has an archive, and new kinds of entries and events: what an older version wrote may not,
  // until its upgrade is finished.
  bool archives = true;
  // No version before this one can read it; else its upgrade is not finished.
  bool upgraded = true;
};
// "0123456789abcdef.1"
std::string TokenOf(const Identity& identity);

// FailedPrecondition for whoever writes with an epoch that is no longer the current one: another
// writer has taken over. IsStaleEpoch tells it from what else is refused.
absl::Status StaleEpoch(int64_t epoch, int64_t current);
bool IsStaleEpoch(const absl::Status& status);

struct FactsKept {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t forgotten = 0;  // since the store was made
};

// A walk through all blobs, in steps, that removes what nothing names.
//
// Nothing that is named goes, however old what the walk knows is. A blob that it finds unnamed is
// marked with the log's end; whoever names a blob brings it, and a commit or a Put that brings it
// takes the mark away. So one that is marked, and unnamed by a log that reaches to the mark, is
// named by nothing, and stays so while the mark is there: the mark is confirmed then, and counts
// from that time. After `keep_s` a walk that finds it unnamed once more removes it.
struct Sweep {
  std::function<bool(const std::string& digest)> named;  // by the log up to ...
  int64_t revision = 0;
  int64_t now_s = 0;  // of a clock that may be set
  int64_t keep_s = 0;
  size_t most = 1'000;  // blobs, and some more, of one step
  std::string at;       // "": at the beginning, or at the end
};
// Of one step.
struct Swept {
  int64_t named = 0, named_bytes = 0;
  int64_t unnamed = 0, unnamed_bytes = 0;  // marked, and still there
  int64_t removed = 0, removed_bytes = 0;

  Swept& operator+=(const Swept& other);
};

// Of a blob that was found unnamed.
struct Mark {
  int64_t since_s = 0;
  int64_t revision = 0;  // the log's end then; 0: it is confirmed
};
// What becomes of a blob with that mark, or none, in a step: it loses it, gets one of now, one of
// now that is confirmed, keeps what it has, or goes.
enum class Fate { kNamed, kMark, kConfirm, kKeep, kRemove };
Fate FateOf(const Sweep& sweep, const std::string& digest, const Mark* mark);
// FailedPrecondition: the log, which ends at `last`, is not the one that the walk goes by.
absl::Status CheckKnown(const Sweep& sweep, int64_t last);
void Count(Fate fate, int64_t bytes, Swept& swept);

class Store {
 public:
  virtual ~Store() = default;

  virtual absl::StatusOr<Identity> Identify() = 0;

  // The history of another store from here on, after its event `revision`. FailedPrecondition:
  // something has been written here, or somebody has led.
  virtual absl::Status Adopt(const Identity& identity, int64_t revision) = 0;

  // Becomes the writer: returns an epoch higher than every one before.
  virtual absl::StatusOr<int64_t> Lead() = 0;

  // FailedPrecondition: `epoch` is not the current one, or the log does not end at `after`.
  virtual absl::Status Commit(const Batch& batch) = 0;

  // 0 for an empty log.
  virtual absl::StatusOr<int64_t> LastRevision() = 0;

  // Up to `limit` (1 to kMaxReadEvents) events with revisions above `after`, in order. OutOfRange:
  // they are before the checkpoint, and no longer kept.
  virtual absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) = 0;

  // Brings the checkpoint to `checkpoint.revision`, which must not be beyond the log nor before the
  // last one; the log up to there need not be kept. The same again changes nothing.
  virtual absl::Status SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) = 0;
  // Hands out every entry and gives the checkpoint's revision; 0: there is none.
  virtual absl::StatusOr<int64_t> LoadCheckpoint(const std::function<void(Entry)>& take) = 0;

  // Entries of the archive whose keys begin with `prefix`, by key, for as long as `take` returns
  // true. It may be large: a start does not read it. `take` must not call the store.
  virtual absl::Status ReadArchive(const std::string& prefix,
                                   const std::function<bool(Entry)>& take) = 0;

  // Returns the sha256 of `bytes` (hex).
  virtual absl::StatusOr<std::string> Put(absl::string_view bytes) = 0;
  // NotFound names the digest; DataLoss: what is there is not what was written.
  virtual absl::StatusOr<std::string> Get(const std::string& digest) = 0;

  // The next step of a walk; moves `sweep.at`. Room in files comes back with the walks after it.
  // FailedPrecondition: `epoch` is not the current one, the log ends before `sweep.revision`, or
  // the store's upgrade is not finished.
  virtual absl::StatusOr<Swept> SweepBlobs(int64_t epoch, Sweep& sweep) = 0;

  // Facts of the subject, the newest first, for as long as `take` returns true; without bodies
  // where they are not wanted. `take` must not call the store.
  virtual absl::Status ReadFacts(const std::string& subject, bool bodies,
                                 const std::function<bool(Facts)>& take) = 0;
  virtual absl::StatusOr<FactsKept> CountFacts() = 0;

  // Releases the store. Every later call but Close is FailedPrecondition.
  virtual absl::Status Close() = 0;
};

}  // namespace warpsmith::store
