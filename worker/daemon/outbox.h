// Results that the planner has not recorded yet, in memory and in a file.
//
//   auto outbox = *Outbox::Open(dir + "/outbox");   // or over any LogFile
//   outbox->AddTrial(lease, trial);                 // written to the file before it returns
//   for (v1::LeaseResult& r : outbox->Next(kMaxBytes)) *request.add_results() = std::move(r);
//   ... Synchronize ...
//   outbox->Recorded(reply);
//
// Results travel in batches. A batch that was sent once stays as it is, byte for byte, until the
// planner says that it is durable, over lost answers and restarts of this process: the planner
// recognises a batch it has by its content. The file is a log of what was added, sent and recorded
// (a length, a checksum, a record), is cut to nothing whenever the outbox is empty and written anew
// where most of it is of the past. Records survive the death of the process; incumbents and what
// was sent also survive a power loss.
//
// Where the file cannot be written (a full disk), memory alone keeps what comes, work and calls go
// on, and the file is written anew from memory as soon as it can be; the log says so. What goes
// wrong if the process dies meanwhile is that the results since are lost, or told twice.
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
// Beyond this trials are dropped (with a count, Dropped) and only incumbents are kept: a planner
// that was away for long must not fill the disk.
inline constexpr int64_t kMaxOutboxBytes = int64_t{256} << 20;
// The file is written anew when it has this much more than twice what is waiting.
inline constexpr int64_t kMaxPastBytes = int64_t{8} << 20;

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

  // The oldest batches, at most `max_bytes` together but at least one. They are sent ones from now
  // on, also if the call fails.
  std::vector<v1::LeaseResult> Next(int64_t max_bytes);
  // Forgets the batches of the last Next that the reply settles: durable (`recorded` names the
  // lease and the incumbent's trial) or refused (`drop` names the lease).
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
    bool sealed = false;     // was sent once: stays as it is
    bool in_flight = false;  // part of the last Next
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
  void Erase(int64_t number);
  void Forget(const std::vector<int64_t>& numbers);

  const std::unique_ptr<LogFile> file_;
  std::deque<Batch> batches_;  // oldest first
  int64_t next_number_ = 0;
  int64_t bytes_ = 0;
  int64_t dropped_ = 0;
  bool more_ = false;
  bool behind_ = false;     // the file lacks something that memory has
  int64_t file_bytes_ = 0;  // while it is not behind
  int64_t past_from_ = 0;   // not before it has this many bytes is it tried to write it anew
};

}  // namespace warpsmith::daemon
