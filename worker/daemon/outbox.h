// Results that the planner has not recorded yet, in memory and in a file.
//
//   auto outbox = *Outbox::Open(dir + "/outbox");   // or over any LogFile
//   outbox->AddTrial(lease, trial);                 // written to the file before it returns
//   for (v1::LeaseResult& r : outbox->Next(kMaxBytes, kSealed)) *request.add_results() =
//   std::move(r);
//   ... Synchronize ...
//   outbox->Recorded(reply);
//
// Results travel in batches, whose trials have numbers by which the planner knows what it has
// (SealedTrials). A batch is closed when it is sent first, sealed, and sent until the planner says
// that it is durable, over lost answers and restarts of this process. To a planner that knows
// nothing of sealed trials they go as they are, without numbers; it recognises a batch by its
// content, which stays what it is from then on. The file is a log of what was added, sent and
// recorded (a length, a checksum, a record), is cut to nothing whenever the outbox is empty and
// written anew where most of it is of the past. Records survive the death of the process;
// incumbents and what was sent also survive a power loss.
//
// Where the file cannot be written (a full disk), memory alone keeps what comes, work and calls go
// on, and the file is written anew from memory as soon as it can be; the log says so. What goes
// wrong if the process dies meanwhile is that the results since are lost.
//
// Not thread-safe. One process holds the file at a time (an exclusive lock).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warpsmith/v1/planner.pb.h"
#include "worker/daemon/log_file.h"

namespace warpsmith::daemon {

// A batch is closed when it has this much; the first trial may make it larger.
inline constexpr int64_t kMaxBatchBytes = 512 << 10;
inline constexpr int kMaxBatchTrials = 256;
// Beyond this of a trial that was refused or had been judged before only that is kept (a trial
// without its schedule and report).
inline constexpr int64_t kThinOutboxBytes = int64_t{64} << 20;
// Beyond this trials are dropped and only incumbents are kept: a planner that was away for long
// must not fill the disk. It sees by the numbers how many it never got.
inline constexpr int64_t kMaxOutboxBytes = int64_t{256} << 20;
// The file is written anew when it has this much more than twice what is waiting.
inline constexpr int64_t kMaxPastBytes = int64_t{8} << 20;

// How trials are sent: to a planner that knows rpc::kSealedTrials, and to one that does not.
enum class Form { kSealed, kPlain };

class Outbox {
 public:
  // Reads what an earlier process left, up to the first damaged record; the rest is cut off.
  static absl::StatusOr<std::unique_ptr<Outbox>> Open(std::unique_ptr<LogFile> file);
  // Over the file at `path`, which is made if there is none. FailedPrecondition: another process
  // holds it.
  static absl::StatusOr<std::unique_ptr<Outbox>> Open(const std::string& path);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void AddTrial(const v1::Lease& lease, const v1::Trial& trial);
  // Replaces an incumbent of the same lease that was not sent yet.
  void AddIncumbent(const v1::Lease& lease, const v1::Incumbent& incumbent);

  // The oldest batches, at most `max_bytes` together but at least one; where that is not all,
  // sealed, all incumbents come before them and beside those bytes. They are sent ones from now on,
  // also if the call fails.
  std::vector<v1::LeaseResult> Next(int64_t max_bytes, Form form);
  // As a Next that gives nothing: how the planner wants it is not known yet.
  void Wait();
  // Forgets the batches of the last Next that the reply settles: durable (`heard` has the last of
  // its numbers, without numbers `recorded` names the lease; `recorded` names the incumbent's
  // trial) or refused (`drop` names the lease). Of one that is recorded in part the rest stays.
  void Recorded(const v1::SynchronizeReply& reply);
  // Forgets the batches of the last Next: the planner cannot take them. Gives how many they were.
  int Discard();

  bool empty() const { return batches_.empty(); }
  // The last Next had to leave something out.
  bool more() const { return more_; }
  // Results of this lease that were not in the last Next.
  bool HasUnsent(const std::string& lease_id) const;
  int64_t bytes() const { return bytes_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Batch {
    int64_t number = 0;
    v1::LeaseResult result;
    int64_t bytes = 0;
    bool closed = false;     // was sent once: nothing comes to it
    bool in_flight = false;  // part of the last Next
    bool ahead = false;      // its incumbent went ahead with the last Next
  };

  explicit Outbox(std::unique_ptr<LogFile> file) : file_(std::move(file)) {}
  absl::Status Replay();
  // Of one record of the log; false: a damaged one.
  bool ReplayRecord(char kind, const char* payload, size_t bytes);
  void Add(char kind, v1::LeaseResult&& one);
  // To the file, unless it is behind; it is from the first failure on.
  void Log(char kind, const std::string& payload);
  void Sync();
  void FallBehind(const absl::Status& why);
  void CatchUp();
  absl::Status Rewrite();
  void ForgetPast();
  void Put(char kind, v1::LeaseResult&& one);
  void PutWhole(v1::LeaseResult&& result);
  Batch& OpenBatch(const v1::LeaseResult& one);
  int64_t NextTrial(const std::string& lease_id);
  void Close(Batch& batch);
  void Unseal(Batch& batch);
  void Measure(Batch& batch);
  // False: nothing of it is left.
  bool KeepAfter(int64_t heard, Batch& batch);
  void Erase(int64_t number);
  void Forget(const std::vector<int64_t>& numbers);

  const std::unique_ptr<LogFile> file_;
  std::deque<Batch> batches_;  // oldest first
  int64_t next_number_ = 0;
  std::string numbered_lease_;  // whose trials were added last
  int64_t last_trial_ = 0;      // number of the last
  int64_t bytes_ = 0;
  int64_t dropped_ = 0;
  bool more_ = false;
  bool behind_ = false;     // the file lacks something that memory has
  int64_t file_bytes_ = 0;  // while it is not behind
  int64_t past_from_ = 0;   // not before it has this many bytes is it tried to write it anew
};

}  // namespace warpsmith::daemon
