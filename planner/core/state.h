// The planner's durable state: what the events of the log make, and nothing else.
//
//   State state = State::FromProto(stored);
//   state.Apply(event);                       // in the log's order
//   Changes changes = state.TakeChanges();    // since the last time
//   stored = state.ToProto();                 // all of it, for tests
//
// Apply is total: an event that was in the log once is applied without asking. It reads no clock,
// so the same events give the same state, byte for byte. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/problem/sealed_trials.h"
#include "planner/core/queue.h"
#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

// Limits of what is remembered of one task, newest kept; and of workers that are gone.
inline constexpr int kMaxLessons = 64;
inline constexpr int kMaxAcceptedBlobs = 1024;
inline constexpr int kMaxUnnumbered = 256;
inline constexpr int kMaxGains = 256;
inline constexpr int kMaxLostWorkers = 256;
inline constexpr int kMaxLostWith = 16;
// Of runs that are in the archive, newest kept: request ids are known for so long.
inline constexpr int kMaxArchivedRuns = 10'000;
// Of submitters who have no runs in the state, those who have used most kept.
inline constexpr int kMaxIdleSubmitters = 1'000;
// So many entries in its ledger, each of another task, put a worker into quarantine. No more are
// kept.
inline constexpr int kMaxBlames = 3;

// What a worker last said of a lease; not durable.
struct Progress {
  double seconds = 0;
  std::string specialist;
};
// The task as people see it. `progress`: of its lease; null: nothing was said.
v1::Task WithProgress(const v1::TaskRecord& record, const Progress* progress);

// Records as they are now, of those that changed. A run's alarms alone are no change of it: its
// record has the ids of all its tasks, and whoever reads it counts their alarms.
struct Changes {
  v1::PlannerState records;            // its numbers are of the whole state
  std::vector<std::string> forgotten;  // ids of workers that are no longer there
  v1::PlannerState archived;           // runs and tasks that left the state, as they were
  std::vector<int64_t> unremembered;   // numbers of archived runs that are no longer remembered
  std::vector<std::string> gone;       // names of submitters that are no longer known
};

// Changes of so many tasks are those of a start: what they leave behind when they go is worth being
// given back (common/base/memory.h).
inline constexpr int kManyTasks = 10'000;

// Equal for the same problems in the same order. `blobs`: their digests.
std::string SetDigest(const std::vector<std::string>& blobs);

class State {
 public:
  static State FromProto(v1::PlannerState stored);
  v1::PlannerState ToProto() const;

  void Apply(const v1::Event& event);

  // What changed since the last call, or since FromProto.
  Changes TakeChanges();

  // Events applied since the log began.
  int64_t revision() const { return revision_; }
  // Sessions opened so far.
  int64_t sessions() const { return sessions_; }
  // By id; runs by number, in the order of their submission.
  const std::map<int64_t, v1::RunRecord>& runs() const { return runs_; }
  const std::map<std::string, v1::TaskRecord>& tasks() const { return tasks_; }
  const std::map<std::string, v1::WorkerRecord>& workers() const { return workers_; }

  // Null if there is none.
  const v1::RunRecord* FindRun(const std::string& run_id) const;
  const v1::TaskRecord* FindTask(const std::string& task_id) const;
  const v1::WorkerRecord* FindWorker(const std::string& worker_id) const;
  // The run that was submitted under it; null for "", or if there is none.
  const v1::RunRecord* FindRequest(const std::string& request_id) const;
  // Number of the last run submitted; 0: none was.
  int64_t last_run() const { return last_run_; }
  // Runs whose tasks have all come to their end, by number, and how many tasks they have.
  const std::set<int64_t>& over_runs() const { return over_runs_; }
  int64_t over_tasks() const { return over_tasks_; }
  // Of the problems that the run, which is not in the archive, was made of. (In runs stored before,
  // a problem had one task.)
  std::string SetDigestOf(const v1::Run& run) const;
  // Runs in the archive: how many, and those that are remembered, by number.
  int64_t archived_runs() const { return archived_runs_; }
  const std::map<int64_t, v1::ArchivedRun>& archived() const { return archived_; }
  const v1::ArchivedRun* FindArchivedRequest(const std::string& request_id) const;
  // `id`: of a run, or of a task of one. One that was lost with a store (recovery.h) is not.
  bool IsArchived(const std::string& id) const;
  // Something went into the archive since TakeChanges.
  bool HasArchived() const { return leaving_.runs_size() > 0; }
  // Runs that are not bound to an architecture yet, by number.
  const std::set<int64_t>& unbound() const { return unbound_; }
  // Tasks in state QUEUED that have a slice left, for an architecture; "" has those not bound yet.
  const WorkQueue& Queued(const std::string& arch) const;
  // Of these, those that one worker alone has lost or given up: another one's word is wanted.
  const std::set<std::string>& Doubtful(const std::string& arch) const;
  // Of a task that is in the state.
  Needs NeedsOf(const v1::Task& task) const;
  // The backup that this history began with; null: with none.
  const v1::Restored* restored() const { return has_restored_ ? &restored_ : nullptr; }
  // Of a lease that was granted before that one was restored.
  bool IsOfBefore(const std::string& lease_id) const;
  // By name.
  const std::map<std::string, v1::Submitter>& submitters() const { return submitters_; }
  // Tasks whose lease the worker has.
  const std::set<std::string>& LeasedBy(const std::string& worker_id) const;
  int LiveWorkers() const { return static_cast<int>(workers_.size() - lost_.size()); }
  // Workers, live and lost.
  const std::set<std::string>& quarantined() const { return quarantined_; }

 private:
  void On(const v1::RunSubmitted& event);
  void On(const v1::RunChanged& event);
  void On(const v1::WorkerJoined& event);
  void On(const v1::WorkerLost& event);
  void On(const v1::WorkerQuarantined& event);
  void On(const v1::WorkerHeld& event);
  void On(const v1::WorkerReleased& event);
  void On(const v1::LeaseGranted& event, int64_t at_unix_ms);
  void On(const v1::LeaseEnded& event, int64_t at_unix_ms);
  void On(const v1::ResultAccepted& event);
  void On(const v1::TrialsRecorded& event);
  void On(const v1::TaskMoved& event);
  void On(const v1::RunArchived& event);

  // What of a task stands in the indexes.
  struct Place {
    bool queued = false;
    bool doubtful = false;
    std::string arch;
    std::string worker_id;  // that has its lease; "": none
    bool unfinished = false;
    bool open = false;  // has not come to its end: a held one has not, and is not worked on
    bool alarm = false;
  };
  static Place PlaceOf(const v1::TaskRecord& record);

  // Brings the indexes and its run's `done` and `alarms` in step with the task. After every change
  // of it.
  void Index(const v1::TaskRecord& record);
  void IndexQueue(const v1::TaskRecord& record, const Place& old, const Place& now);
  void IndexDoubt(const std::string& task_id, const Place& old, const Place& now);
  void IndexLease(const std::string& task_id, const Place& old, const Place& now);
  void AddRun(int64_t number, v1::RunRecord run);
  void Bind(v1::RunRecord& run, const std::string& arch);
  void Prioritize(v1::RunRecord& run, int priority);
  v1::Submitter& SubmitterOf(const v1::Run& run);
  // What the task's submitter has used of the cards is so many seconds more.
  void Spend(const v1::Task& task, double seconds, int64_t at_unix_ms);
  void Stands(const v1::Submitter& submitter);  // what its standing follows from has changed
  void LeaveSubmitter(const v1::Run& run);      // a run of its
  void SetOver(int64_t number, const v1::Run& run, bool over);
  void Leave(const v1::TaskRecord& record);  // the indexes
  void Remember(int64_t number, v1::ArchivedRun run);
  // A lease of the task ended badly with that worker: both ledgers. `blame` is the worker's entry.
  void Charge(v1::TaskRecord& record, const std::string& worker_id, v1::Blame blame);
  // One of the lost ones, if they are too many.
  void ForgetWorker();
  // To be changed: they count as changed.
  v1::TaskRecord& Task(const std::string& id);
  v1::WorkerRecord* Worker(const std::string& id);  // null: there is none

  int64_t revision_ = 0;
  int64_t sessions_ = 0;
  std::map<int64_t, v1::RunRecord> runs_;
  std::map<std::string, v1::TaskRecord> tasks_;
  std::map<std::string, v1::WorkerRecord> workers_;
  std::map<int64_t, v1::ArchivedRun> archived_;
  std::map<std::string, v1::Submitter> submitters_;
  int64_t archived_runs_ = 0;
  int64_t last_run_ = 0;
  bool has_restored_ = false;
  v1::Restored restored_;

  // Derived from the above.
  std::unordered_map<std::string, Place> places_;          // by task; only looked up, never walked
  std::map<std::string, WorkQueue> queued_;                // by architecture
  std::map<std::string, std::set<std::string>> doubtful_;  // likewise
  std::unordered_map<std::string, std::set<std::string>> leased_by_;  // by worker; likewise
  struct Counts {
    int unfinished = 0, open = 0;
  };
  std::map<int64_t, Counts> counts_;               // by run, of its tasks
  std::map<std::string, int64_t> run_by_request_;  // the first of that request id
  std::map<std::string, int64_t> archived_by_request_;
  std::set<int64_t> unbound_;
  std::set<int64_t> over_runs_;
  int64_t over_tasks_ = 0;
  std::map<std::string, int> runs_by_submitter_;
  std::set<std::string> idle_submitters_;  // without runs
  std::set<std::string> lost_;             // workers
  std::set<std::string> quarantined_;

  // Since TakeChanges.
  std::set<int64_t> changed_runs_;
  std::set<std::string> changed_tasks_;
  std::set<std::string> changed_workers_;  // or forgotten
  v1::PlannerState leaving_;
  std::set<int64_t> changed_archived_;        // or no longer remembered
  std::set<std::string> changed_submitters_;  // or gone
};

// Who submitted it: the run itself, where nobody is named.
const std::string& OwnerOf(const v1::Run& run);

// "r12" -> 12; 0 if it is no run id.
int64_t RunNumber(const std::string& run_id);

}  // namespace warpsmith::planner
