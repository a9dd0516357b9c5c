// What must hold of every history of the planner, checked from the outside: from the durable log,
// from what workers were told and do, and from who was heard when. It keeps a model of its own and
// shares no code with the core. All times are the simulation's, in milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "warpsmith/v1/events.pb.h"

namespace warpsmith::planner::simulation {

class Checker {
 public:
  // Of at most so many workers: by them the planner's calls are stretched.
  explicit Checker(int64_t workers);

  // An event became durable. Its own time is when it was decided.
  void Committed(const v1::Event& event);
  // The planner took a call of this worker, which lists these leases as its own and not ended.
  void Heard(const std::string& worker_id, const std::vector<std::string>& lease_ids,
             int64_t now_ms);
  // The planner granted it, or did so again: whoever hears of it counts its time from here.
  void Granted(const std::string& task_id, int64_t fence, int64_t now_ms);
  // Whoever was granted the lease is through with it, and is about to say so.
  void Ends(const std::string& task_id, int64_t fence, bool interrupted);
  // The planner may have heard nobody until now: it was not there, stood still or could not write.
  // `long_enough` that it must have seen so itself: everybody has the failover time from now on.
  void Deaf(int64_t now_ms, bool long_enough) {
    deaf_until_ms_ = now_ms;
    if (long_enough) forgiven_ms_ = now_ms;
  }
  // The planner is well, and has looked for what is over.
  void Looked(int64_t now_ms);
  // A worker that heeds its orders works on this lease, since so long. `process`: two may call
  // themselves by one worker's name.
  void Works(const std::string& process, const std::string& task_id, int64_t fence,
             int64_t since_ms, int64_t now_ms);

  // A reply reached a worker (after its events became durable).
  void ToldRecorded(const std::string& task_id, const std::string& blob, double speedup,
                    const std::string& beat_trial_id);
  void ToldHeard(const std::string& task_id, int64_t fence, int64_t trials);
  void ToldFinished(const std::string& task_id, int64_t fence);
  void ToldStart(const std::string& task_id, int64_t fence, const std::string& worker_id,
                 const std::string& process);
  void ToldSubmitted(const std::string& run_id);

  // Everything came to rest; `finals` is the planner's own view.
  struct Final {
    std::string state;
    double speedup = 0;
    int64_t fence = 0;
    double seconds_spent = 0;
  };
  void Ended(const std::map<std::string, Final>& finals);
  // Nothing was wrong with any worker, task or message: nobody may have been blamed.
  void NobodyWasLost();

  // The store's history is another one from here on: nobody is held to what was said before.
  void EndHistory() { over_ = true; }

  void Fail(const std::string& what);
  // Something that is of the history.
  void Broken(const std::string& what);

  // What does not hold, in the order found.
  const std::vector<std::string>& violations() const { return violations_; }
  int64_t accepted() const { return accepted_count_; }
  int64_t quarantines() const { return quarantines_; }
  int64_t faults() const { return faults_; }  // of cards, for which workers were quarantined
  // Of these, ended by what others lost.
  int64_t lifted() const { return lifted_; }
  int64_t archived() const { return archived_; }        // runs
  int64_t prioritized() const { return prioritized_; }  // likewise, by people

 private:
  struct Task {
    std::string arch;
    std::string run_id;
    std::vector<std::string> needs;
    double budget = 0;
    double spent = 0;
    int64_t fence = 0;
    bool live = false;  // a lease is
    std::string lease_id;
    int64_t heard_ms = 0;             // of the lease
    int losses = 0;                   // in a row, and failures, with losses between them
    std::set<std::string> lost_with;  // workers that lost it or gave it up
    int card_failures = 0;            // in a row
    int failures = 0;
    bool given_up = false;         // last
    std::set<int64_t> taken_back;  // fences, by a person
    bool rest = false;
    std::map<int64_t, std::string> granted;  // fence -> worker
    std::map<int64_t, std::string> started;  // fence -> process
    std::set<int64_t> over;                  // as its worker says
    std::set<int64_t> interrupted;           // by what befell its worker's card
    std::set<int64_t> ended;
    std::map<int64_t, int64_t> heard;  // fence -> number of the last trial recorded
    std::set<std::string> accepted;    // blobs
    std::string trial_id;
    double speedup = -1;               // of the incumbent; -1: none
    double highest = -1;               // that it ever was
    v1::TaskState state = v1::QUEUED;  // that it was moved to last
    bool archived = false;
  };
  struct Run {
    std::string submitter;  // its own id, where nobody is named
    int priority = 0;
    std::vector<std::string> task_ids;
  };
  struct Worker {
    std::string arch;
    std::set<std::string> labels;
    bool live = false;
    bool draining = false;
    int64_t heard_ms = 0;
    bool healthy = true;
    std::string said_fault;  // of its card, by itself
    bool quarantined = false;
    bool fault = false;  // that is why
    bool held = false;
    int leases = 0;                   // that live
    std::vector<std::string> ledger;  // tasks, the newest last
  };

  // Later than this a planner that is well has ended what it does not hear of.
  int64_t OverAt(int64_t heard_ms, int64_t ttl_ms) const;

  void On(const v1::RunSubmitted& event);
  void On(const v1::RunChanged& event);
  void On(const v1::WorkerJoined& event);
  void On(const v1::WorkerLost& event);
  void On(const v1::WorkerQuarantined& event);
  void On(const v1::WorkerHeld& event);
  void On(const v1::WorkerReleased& event);
  void On(const v1::LeaseGranted& event);
  void On(const v1::LeaseEnded& event);
  void On(const v1::ResultAccepted& event);
  void On(const v1::TrialsRecorded& event);
  void On(const v1::TaskMoved& event);
  void On(const v1::RunArchived& event);

  // Whether there is a worker for the task that has not lost it.
  static bool CanTake(const Worker& worker, const Task& task);
  bool HasAnother(const Task& task) const;
  // What of the same submitter's waits for that worker, too, and has a higher priority; "":
  // nothing.
  std::string PassedOver(const Task& task, const std::string& worker_id);
  // Whom the end of a lease is held against.
  void Blame(const std::string& task_id, Task& task, const v1::LeaseEnded& ended);
  Task* Find(const std::string& task_id, const char* where);
  // Of an event of the log: what is archived changes no more.
  Task* FindOpen(const std::string& task_id, const char* where);

  using Tasks = std::unordered_map<std::string, Task>;

  const int64_t most_ttl_ms_;
  Tasks tasks_;
  std::unordered_map<std::string, Tasks::value_type*> leased_;  // by lease, of those that live
  std::unordered_map<std::string, Worker> workers_;
  std::map<std::string, Run> runs_;
  std::vector<std::string> violations_;
  bool over_ = false;
  int64_t now_ms_ = 0;
  int64_t deaf_until_ms_ = 0;
  int64_t forgiven_ms_ = 0;
  int64_t accepted_count_ = 0;
  int64_t lost_count_ = 0;  // leases and workers
  int64_t quarantines_ = 0;
  int64_t faults_ = 0;
  int64_t lifted_ = 0;
  int64_t archived_ = 0;
  int64_t prioritized_ = 0;
};

}  // namespace warpsmith::planner::simulation
