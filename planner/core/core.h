// The planner's core: a state machine that decides everything and touches nothing.
//
//   Core core(CoreOptions{});
//   core.BeOf(store::TokenOf(identity));              // which history this is
//   core.Restore(stored); core.Replay(event); ...     // what the store holds
//   core.Forgive(now);                                // from here on time counts
//   auto outcome = core.Handle(Synchronize{...}, now);
//   // make outcome.events durable, in order, and only then answer outcome.reply
//
// Handle applies the events it returns at once, so the next command sees them. It reads no clock,
// no file, no socket and no random source: the same commands at the same times give the same
// events.
//
// Durable is what events say (state.h). Not durable are deadlines and progress reports: after a
// restart every worker and lease gets the failover time before it counts as lost. Expiry uses the
// planner's monotonic time alone; clocks of two hosts are never compared.
//
// Fences. Each grant of a task has a higher fence. A result carries the fence of its lease:
//   last lease       recorded, also when it expired but nobody else was given the task; the same
//                    again changes nothing and is answered as recorded
//   any other        refused, harmless: the lease is in `drop`
// A lease's id names the history that it is of, so one that was granted by another store, or by
// this one before it was brought back from a copy, is never taken for one of the same task and
// fence. A new incumbent must have beaten the task's in a race of the judge (beat_trial_id), or
// have a higher speedup, or be the task's incumbent measured again (same trial id). The race counts
// more than what was told: speedups of different minutes differ by more than the judge lets pass.
//
// Blame. A lease that ends says why (v1::Cause). Lost or given up it counts against the task, and
// against its worker while no other worker has lost or given up the same task: two of them are
// right, and it is the task. A worker that alone lost or gave up kMaxBlames different tasks since
// it last brought one to its end is quarantined: it keeps what it holds and is granted nothing
// until a person releases it, or until others have lost so many of those tasks that fewer are left.
//
// Shares. The next task is of the submitter that has used least of the cards for its weight
// (standing.h), so that whoever comes with ten thousand tasks does not stop whoever has three;
// among a submitter's tasks priority decides, and then what the next slice promises (allocator.h).
// Slices are not cut short. A task is given only to a worker that meets its needs (needs.h).
//
// Names. A worker's name belongs to one process at a time, its instance, until that falls silent or
// leaves: a call that joins gets the name if it comes from the same process (said again, or its
// answer was lost) or from one that follows it, whose predecessors have ended. A call that joins is
// given no lease, since it may come late and its process may be gone; the next one is.
//
// Owners. A session and a lease are of whoever brought the same proof as when they were granted: a
// certificate of the same name, or the same secret (owner.h). Whoever brings another one is told
// nothing of them and changes nothing, whatever ids it knows; the name may become its own when it
// is free.
//
// Archive. Runs whose tasks have all come to their end leave the state for the store's archive, the
// oldest first, once such runs have more tasks than CoreOptions.keep_over_tasks, or there is no
// room for a new run otherwise. What is archived is read as before and does not change any more.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/core/deadlines.h"
#include "planner/core/restored.h"
#include "planner/core/state.h"
#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/planner.pb.h"
#include "warpsmith/v1/task.pb.h"

namespace warpsmith::planner {

// Limits; more is an error that names them.
inline constexpr int kMaxTasksPerRun = 10'000;
inline constexpr int kMaxTasks = 100'000;  // that are not in the archive
inline constexpr int kMaxSlots = 16;
inline constexpr int kMaxFollowed = 16;
inline constexpr double kMinWeight = 0.001, kMaxWeight = 1'000;
inline constexpr int kMaxPriority = 1'000;  // and as low below 0
// A task is set aside after it was lost with its worker so often in a row, or given up by it; by
// two different ones if there are two.
inline constexpr int kMaxLosses = 3;
inline constexpr int kMaxFailures = 3;
// Or after so many cards failed in a row while their workers had it. One does so by itself; where
// it is a kernel that does it, it may not go through the fleet.
inline constexpr int kMaxCardFailures = 2;
// Nearer to the speed of light there is nothing to win.
inline constexpr double kAtLight = 0.99;
// A search on a card that ends by itself below this share of the speed of light raises an alarm,
// unless it takes less than kShortUs: launching and one trip to memory are most of that, whatever
// is done. So does any that ends with something slower than the strongest baseline by more than
// noise.
inline constexpr double kPoorLight = 0.6;
inline constexpr double kShortUs = 10;
inline constexpr double kPoorSpeedup = 0.97;
// A slice costs at least this much of the budget, so that every task ends.
inline constexpr double kMinChargeSeconds = 1;
// A lease that its worker still speaks of after kOverdueFactor times its seconds and kOverdueMs has
// work that hangs. What a slice does beside its seconds (inputs, references, `torch.compile` of the
// baselines) takes minutes.
inline constexpr double kOverdueFactor = 3;
inline constexpr int64_t kOverdueMs = 20 * 60'000;
// A lease that its worker has not spoken of yet is said again so long, in times to live: the worker
// counts its time from the call that brought it.
inline constexpr int kUnheardTtls = 3;

// Why a task without a problem (recovery.h) cannot be worked on.
inline constexpr char kProblemLost[] = "its problem was lost with the store: submit it again";

struct CoreOptions {
  int64_t lease_ttl_ms = 30'000;
  // Longest that an idle worker's call is parked; such a worker may be silent for this and the TTL.
  int64_t park_ms = 30'000;
  // After a restart; twice the TTL, where that is more.
  int64_t failover_ttl_ms = 60'000;
  // A busy worker calls at least this often, unless so many call that it must be stretched.
  int64_t busy_sync_ms = 2'000;
  double sync_calls_per_second = 500;
  int max_workers = 10'000;
  // Tasks of runs that are over; beyond it the oldest such runs go to the archive.
  int64_t keep_over_tasks = 20'000;
};

struct Now {
  int64_t monotonic_ms = 0;
  int64_t unix_ms = 0;
};

// ---- commands ----------------------------------------------------------------------------------

struct Submit {
  struct Problem {
    std::string name;
    std::string blob;                    // digest, of all of it
    std::vector<std::string> workloads;  // names; a task for each
    std::vector<int64_t> bytes;          // that each needs of the device; empty: not known
  };
  std::string request_id;  // "": not idempotent
  std::string name;        // of the set
  std::vector<Problem> problems;
  // "": the one architecture of the workers present; with no worker present, that of the first
  // worker that comes; with several architectures present, an error that lists them.
  std::string arch;
  double seconds_per_task = 0;  // 0: the default
  std::string policy;
  // Who shares the cards with others, by weight (standing.h); "": the run by itself.
  std::string submitter;
  double weight = 0;               // 0: 1, or as it was
  int priority = 0;                // among the submitter's tasks
  std::vector<std::string> needs;  // labels
};

// A LeaseResult whose contents are stored as blobs.
struct Result {
  std::string lease_id;
  std::string task_id;
  int64_t fence = 0;
  v1::ResultAccepted incumbent;  // incumbent_blob empty: none
  v1::TrialsRecorded trials;     // batch empty: none
};

struct Synchronize {
  v1::WorkerInfo worker;
  std::string session_id;
  std::string instance;  // with `follows`: of a call that joins
  std::vector<std::string> follows;
  v1::Owner owner;  // by what the call brought
  std::vector<v1::LeaseStatus> leases;
  std::vector<Result> results;
  int slots = 0;
  // The last answer that the worker had: of which history, and its last event.
  std::string store;
  int64_t revision = 0;
};

struct SetTask {
  std::string task_id;
  v1::TaskState state = v1::TASK_STATE_UNSPECIFIED;  // HELD, CANCELLED or QUEUED
  std::string reason;
  std::string only_of;  // only if that submitter submitted it; "": whoever did
};

struct CancelRun {
  std::string run_id;
  std::string reason;
  std::string only_of;  // as of SetTask
};

// Of its tasks, among the submitter's: those that wait, and the others when they wait again.
struct SetPriority {
  std::string run_id;
  std::optional<int> priority;
  std::string reason;
  std::string only_of;  // as of SetTask
};

struct HoldWorker {
  std::string worker_id;
  std::string reason;
};

struct ReleaseWorker {
  std::string worker_id;
  std::string reason;
};

struct Tick {};

// ---- replies -----------------------------------------------------------------------------------

// A lease to start, by digests.
struct Grant {
  std::string lease_id;
  std::string task_id;
  int64_t fence = 0;
  double seconds = 0;
  std::string policy;
  uint64_t seed = 0;
  std::string problem_blob;
  std::string workload;        // which of the problem's; "": all it has
  std::string incumbent_blob;  // "": none
  int64_t revision = 0;        // of the event
  std::string why;
};

struct SynchronizeAnswer {
  std::string session_id;
  std::vector<Grant> start;
  std::vector<std::string> drop;
  std::vector<std::string> recorded;
  int64_t next_sync_after_ms = 0;
  int64_t lease_ttl_ms = 0;
  bool park = false;      // nothing to say: hold the call until there is
  std::string set_aside;  // why it is given nothing until a person releases it; "": it is not so
  std::map<std::string, int64_t> heard;  // by lease: numbered trials up to here are recorded
  std::string store;
  int64_t revision = 0;
  int64_t most_result_bytes = 0;  // of the service, which knows what waits to be durable
};

template <typename Reply>
struct Outcome {
  std::vector<v1::Event> events;
  absl::StatusOr<Reply> reply;
};

struct Done {};

// FailedPrecondition: what is archived does not change any more.
absl::Status Archived(const std::string& id);
absl::Status NoSuchRun(const std::string& id);
absl::Status NoSuchTask(const std::string& id);
absl::Status NoSuchWorker(const std::string& id);

class Core {
 public:
  explicit Core(const CoreOptions& options) : options_(options) {}

  // Leases and sessions granted from here on name this history. Nothing is archived that the store
  // may not hold.
  void BeOf(const std::string& store_token, bool archives = true);
  void Restore(v1::PlannerState stored) { state_ = State::FromProto(std::move(stored)); }
  void Replay(const v1::Event& event) { state_.Apply(event); }
  // Every worker and lease has the failover time from now on before it counts as lost. After
  // Restore and Replay, before the first Handle; and when nobody was heard for a while, which is no
  // fault of theirs.
  void Forgive(Now now);

  Outcome<v1::Run> Handle(const Submit& command, Now now);
  // InvalidArgument: the request is wrong. FailedPrecondition: the session has ended, join again.
  // AlreadyExists: another process has the worker's name. PermissionDenied: the session is
  // another's. ResourceExhausted: too many workers.
  // DataLoss: the worker was answered from events of this history that are not there: they were
  // durable, and the store has lost them. Nobody may be answered from what is left.
  Outcome<SynchronizeAnswer> Handle(const Synchronize& command, Now now);
  // A task that has converged, failed or was parked is not cancelled: it stays as it is.
  // FailedPrecondition: it is in the archive. PermissionDenied: another submitter's.
  Outcome<v1::Task> Handle(const SetTask& command, Now now);
  Outcome<v1::CancelRunReply> Handle(const CancelRun& command, Now now);
  Outcome<v1::Run> Handle(const SetPriority& command, Now now);
  // NotFound: there is none of that name. One that is neither quarantined nor held stays as it is
  // when it is released.
  Outcome<v1::WorkerInfo> Handle(const HoldWorker& command, Now now);
  Outcome<v1::WorkerInfo> Handle(const ReleaseWorker& command, Now now);
  Outcome<Done> Handle(const Tick& command, Now now);

  const State& state() const { return state_; }
  // How often a busy worker calls, with the fleet as it is.
  int64_t BusySyncMs() const;
  const std::string& store() const { return store_; }
  Changes TakeChanges() { return state_.TakeChanges(); }
  // Whether there is something queued that the worker may be given.
  bool HasWorkFor(const v1::WorkerInfo& worker) const;
  // By task id, for tasks with a lease.
  const std::map<std::string, Progress>& progress() const { return progress_; }
  // The task as people see it: with what its worker last reported.
  v1::Task View(const v1::TaskRecord& record) const;
  v1::WorkerInfo View(const v1::WorkerRecord& record) const;

 private:
  struct Context {  // of one command
    Now now;
    std::vector<v1::Event> events;
  };

  void Emit(Context& context, v1::Event event);
  void Move(Context& context, const std::string& task_id, v1::TaskState state, std::string reason,
            double budget = 0, std::string alarm = "");
  // To HELD or CANCELLED, by a person; from its worker, if one has it.
  void TakeBack(Context& context, const std::string& task_id, v1::TaskState to,
                const std::string& reason);

  // By a person, with that reason. Errors as of CancelRun.
  absl::StatusOr<const v1::RunRecord*> RunToChange(const std::string& run_id,
                                                   const std::string& reason,
                                                   const std::string& only_of) const;

  // Runs that are over go to the archive until at most `keep` tasks of such runs are left.
  void Archive(Context& context, int64_t keep);

  absl::Status CheckSubmit(const Submit& command) const;
  // For so many more tasks.
  absl::Status CheckRoom(int count) const;
  // The run that was submitted under the command's request id before; null: none was.
  // AlreadyExists: it was made of another set.
  absl::StatusOr<const v1::Run*> RunOf(const Submit& command) const;
  absl::StatusOr<std::string> ArchFor(const Submit& command) const;

  // synchronize.cc
  absl::Status Join(Context& context, const Synchronize& command, SynchronizeAnswer& answer);
  absl::StatusOr<std::string> NewSession(Context& context, const Synchronize& command);
  void Record(Context& context, const Result& result, const Synchronize& command,
              SynchronizeAnswer& answer);
  void Update(Context& context, const v1::LeaseStatus& status, const Synchronize& command,
              SynchronizeAnswer& answer);
  void Refuse(Context& context, const Brought& brought);
  bool Takes(const Synchronize& command) const;
  std::string SetAsideFor(const std::string& worker_id) const;
  void GrantLeases(Context& context, const Synchronize& command, bool takes,
                   SynchronizeAnswer& answer);
  void BindRuns(Context& context, const std::string& arch);
  bool GrantOne(Context& context, const Synchronize& command, SynchronizeAnswer& answer);
  // That worker lost the task or gave it up, and there is another for it.
  bool IsForAnother(const v1::TaskRecord& record, const std::string& worker_id) const;
  bool HasAnother(const v1::TaskRecord& record) const;
  // What the worker is to be given next; null: nothing. Valid until the state changes.
  const std::string* BestFor(const v1::WorkerInfo& worker) const;
  Grant MakeGrant(const v1::TaskRecord& record) const;
  // What decides that the worker is given the task, for people.
  std::string WhyGranted(const v1::Task& task, const v1::WorkerInfo& worker) const;
  std::string LeaseId(const std::string& task_id, int64_t fence) const;
  bool IsOfLastLease(const Result& result, const v1::TaskRecord& record) const;
  absl::Status CheckHistory(const Synchronize& command) const;
  // `status` is what its worker last said of it, empty where that is not known.
  void EndLease(Context& context, const v1::TaskRecord& record, const v1::LeaseStatus& status,
                v1::Cause cause, const std::string& reason);
  void Quarantine(Context& context, const std::string& worker_id);
  void Settle(Context& context, const v1::TaskRecord& record, const v1::LeaseStatus& status,
              v1::Cause cause);
  bool SetAside(Context& context, const v1::TaskRecord& record, v1::Cause cause);
  void LoseWorker(Context& context, const std::string& worker_id, const std::string& reason);
  int64_t LeaseTtlMs() const;
  int64_t OverdueAt(const v1::TaskRecord& record, Now now) const;

  CoreOptions options_;
  State state_;
  std::string store_;   // its token
  std::string suffix_;  // of ids, from it
  bool archives_ = true;
  // Not durable; monotonic milliseconds.
  Deadlines lease_deadline_;  // by task
  // By task: when it is over whatever its worker says; sooner until the worker speaks of it.
  std::unordered_map<std::string, int64_t> lease_overdue_;
  Deadlines worker_deadline_;                               // by worker
  std::map<std::string, Progress> progress_;                // by task
  std::unordered_map<std::string, std::string> warm_task_;  // by worker: what it worked on last
};

}  // namespace warpsmith::planner
