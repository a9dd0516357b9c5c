// The store that several planners share: what decides is in Redis, what is large lies in a folder
// that all of them reach.
//
//   auto store = RedisStore::Open({.server = {.address = "unix:/run/redis.sock"},
//                                  .cluster = "lab", .folder = "/shared/warpsmith"});
//
// Redis holds the log, the checkpoint, the archive, the epoch, blobs of up to 1 KiB and the places
// of all others; FOLDER/bulk holds those and the facts. What is in the folder is durable before
// Redis is told of it. Each writer has files of its own there (bulk.h), so that one that was
// deposed spoils nothing. Facts name the place of those before them of the same subject: Redis
// knows only of each subject's newest. The oldest files of facts are removed when there is no more
// room.
//
// Every step on the server is a script (scripts.h), and refuses another store than the one that was
// opened: a server that was emptied or replaced is noticed with the next call. So is one whose log
// ends before an event that this store has read or answered for, or whose epoch is lower than one
// that it has seen (DataLoss): a replica that was behind when it was promoted. Whoever notices
// tells the server, and nobody leads there until the loss is accepted.
//
// Reads wait for no write, and go to the same server.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/store/bulk.h"
#include "common/store/leadership.h"
#include "common/store/redis/connection.h"
#include "common/store/redis/scripts.h"
#include "common/store/store.h"

namespace warpsmith::store {

class RedisStore final : public Store, public Leadership {
 public:
  struct Options {
    redis::Server server;
    // Several stores are told apart by it: it stands in every key. Letters, digits, '.', '_', '-'.
    std::string cluster = "default";
    std::string folder;
    // Goes on with settings of the server that may lose what it answered for.
    bool accept_loss = false;
    int64_t facts_bytes = int64_t{16} << 30;  // room for facts
    int64_t bulk_file_bytes = kBulkFileBytes;
    absl::Duration limit = absl::Seconds(5);  // of a call
    // Of Look and Beat: who leads must be known soon.
    absl::Duration standing_limit = absl::Seconds(2);
    // Of the log, before the checkpoint: for whoever follows, a few seconds behind.
    int64_t kept_events = 20'000;
    // Of a checkpoint: more is said in pieces, so that no one call holds the server up for long.
    size_t piece_bytes = 4 << 20;
  };

  // Makes the store and the folder where they are missing. InvalidArgument: the options.
  // FailedPrecondition: the server's settings lose what it answered for, the folder is another
  // store's or not mounted, or the schema another version's. Unavailable, DeadlineExceeded,
  // PermissionDenied: as redis::Connection.
  static absl::StatusOr<std::unique_ptr<RedisStore>> Open(const Options& options);
  ~RedisStore() override;

  // What may be lost with the server's settings, a line each.
  const std::vector<std::string>& risks() const { return risks_; }

  absl::StatusOr<Identity> Identify() override;
  absl::Status Adopt(const Identity& identity, int64_t revision) override;
  absl::StatusOr<int64_t> Lead() override { return LeadAs("", "", ""); }
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<int64_t> LastRevision() override;
  absl::StatusOr<std::vector<Record>> Read(int64_t after, size_t limit) override;
  absl::Status SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::function<void(Entry)>& take) override;
  absl::Status ReadArchive(const std::string& prefix,
                           const std::function<bool(Entry)>& take) override;
  absl::StatusOr<std::string> Put(absl::string_view bytes) override;
  absl::StatusOr<std::string> Get(const std::string& digest) override;
  absl::StatusOr<Swept> SweepBlobs(int64_t epoch, Sweep& sweep) override;
  absl::Status ReadFacts(const std::string& subject, bool bodies,
                         const std::function<bool(Facts)>& take) override;
  absl::StatusOr<FactsKept> CountFacts() override;
  absl::Status Close() override;

  absl::StatusOr<Standing> Look() override;
  absl::StatusOr<int64_t> LeadAfter(const Standing& seen, const std::string& address) override;
  absl::Status Beat(int64_t epoch, const std::string& address) override;
  absl::Status Resign(int64_t epoch) override { return Beat(epoch, ""); }

  // Its history is another one from here on; whoever leads is deposed. Gives the generation.
  absl::StatusOr<int64_t> RaiseGeneration();
  // Removes what it holds; a history may be adopted then, and before that nobody leads. Files that
  // are there are no longer named. FailedPrecondition: Redis holds another store.
  absl::Status Empty();

 private:
  // Of a blob, as Redis has it.
  absl::StatusOr<std::string> ValueOf(const std::string& digest);
  // Of SweepBlobs (redis_sweep.cc): what one step has read, and what it changes.
  struct Step;
  absl::StatusOr<Step> ReadStep(const Sweep& sweep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status Change(int64_t epoch, const Sweep& sweep, const redis::Arguments& changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::StatusOr<bool> MoveSome(int64_t epoch, const Sweep& sweep, const Step& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::StatusOr<std::string> MoveBlob(const std::string& digest, const Place& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void TidyBlobFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Of a commit: where what it brings lies, as Redis is told of it.
  struct Written;

  explicit RedisStore(const Options& options);

  absl::Status OpenStore();
  absl::Status CheckFolder(int64_t files) const;
  absl::StatusOr<int64_t> NewFile();
  absl::StatusOr<int64_t> LeadAs(const std::string& epoch, const std::string& beat,
                                 const std::string& address);
  // Redis holds another store than the one that was opened, or none ("").
  absl::Status OtherStore(const std::string& there) const;
  absl::Status CheckStore(const redis::Reply& id) const;
  // Of an answer on that connection: of a loss the server is told, too.
  absl::Status Marked(redis::Connection& server, const absl::Status& status);
  // Of a script's refusal: what happened.
  absl::Status Explain(const absl::Status& status, int64_t epoch) const;
  absl::StatusOr<redis::Reply> Run(const redis::Script& script, redis::Arguments arguments,
                                   int64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::StatusOr<redis::Reply> Read(const redis::Arguments& command)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  absl::StatusOr<int64_t> Meta(absl::string_view field) ABSL_EXCLUSIVE_LOCKS_REQUIRED(read_mutex_);
  absl::Status WriteBulk(const Batch& batch, const redis::Reply& before, Written& written)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status Forget(int64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  const Options options_;
  std::vector<std::string> keys_;  // by redis::Key
  redis::Arguments key_views_;
  std::vector<std::string> risks_;
  std::string id_;          // once it is open
  int64_t generation_ = 0;  // then
  absl::Mutex write_mutex_;
  redis::Connection writer_ ABSL_GUARDED_BY(write_mutex_);
  BulkFiles blobs_, facts_;
  // Of files that were begun since it leads; of others before.
  BulkFiles::End blobs_end_ ABSL_GUARDED_BY(write_mutex_) = {0, 0};
  BulkFiles::End facts_end_ ABSL_GUARDED_BY(write_mutex_) = {0, 0};
  // The walk under way: the file that was written to when it began, the connection's number then,
  // and bytes that it has found by file of blobs.
  struct Walk {
    int64_t before = 0;
    int64_t connects = 0;
    std::map<int64_t, int64_t> bytes = {};
  };
  Walk walk_ ABSL_GUARDED_BY(write_mutex_);
  // Files of blobs in which the last walk has found nothing, and less than half left.
  std::set<int64_t> empty_ ABSL_GUARDED_BY(write_mutex_);
  std::set<int64_t> sparse_ ABSL_GUARDED_BY(write_mutex_);
  absl::Mutex read_mutex_;
  redis::Connection reader_ ABSL_GUARDED_BY(read_mutex_);
  absl::Mutex standing_mutex_;
  redis::Connection standing_ ABSL_GUARDED_BY(standing_mutex_);  // and of files' numbers
  int64_t known_epoch_ ABSL_GUARDED_BY(standing_mutex_) = 0;     // the last that was seen
  void Know(int64_t revision);
  // `known`: what known_ was when the answer was asked for.
  static absl::Status CheckLast(int64_t last, int64_t known);

  std::atomic<int64_t> known_{0};  // the last event that was answered for, or read
  std::atomic<bool> closed_{false};
};

}  // namespace warpsmith::store
