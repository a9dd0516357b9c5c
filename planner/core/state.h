// The planner's durable state: what the events of the log make, and nothing else.
//
//   State state = State::FromProto(snapshot);
//   state.Apply(event);                       // in the log's order
//   snapshot = state.ToProto();
//
// Apply is total: an event that was in the log once is applied without asking. It reads no clock,
// so the same events give the same state, byte for byte. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "warpsmith/v1/events.pb.h"
#include "warpsmith/v1/snapshot.pb.h"

namespace warpsmith::planner {

// Limits of what is remembered of one task, newest kept; and of workers that are gone.
inline constexpr int kMaxLessons = 64;
inline constexpr int kMaxAcceptedBlobs = 1024;
inline constexpr int kMaxTrialBlobs = 4096;
inline constexpr int kMaxGains = 256;
inline constexpr int kMaxLostWorkers = 256;

// Converged, parked, failed and held: nothing is done on such a task, and a run of such is done.
bool IsAtRest(v1::TaskState state);

class State {
 public:
  static State FromProto(const v1::PlannerState& snapshot);
  v1::PlannerState ToProto() const;

  void Apply(const v1::Event& event);

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
  // Tasks in state QUEUED for an architecture; "" holds those not bound to one yet.
  const std::set<std::string>& Queued(const std::string& arch) const;
  // Tasks whose lease the worker has.
  const std::set<std::string>& LeasedBy(const std::string& worker_id) const;
  int LiveWorkers() const { return static_cast<int>(workers_.size()) - lost_workers_; }

 private:
  void On(const v1::RunSubmitted& event);
  void On(const v1::RunBound& event);
  void On(const v1::WorkerJoined& event);
  void On(const v1::WorkerLost& event);
  void On(const v1::LeaseGranted& event);
  void On(const v1::LeaseEnded& event);
  void On(const v1::ResultAccepted& event);
  void On(const v1::TrialsRecorded& event);
  void On(const v1::TaskMoved& event);

  // Keeps the indexes and the run's `done` in step.
  void Index(const v1::TaskRecord& task, bool present);
  void Move(v1::TaskRecord& task, v1::TaskState state, const std::string& reason);
  void ClearLease(v1::TaskRecord& task);

  int64_t revision_ = 0;
  int64_t sessions_ = 0;
  std::map<int64_t, v1::RunRecord> runs_;
  std::map<std::string, v1::TaskRecord> tasks_;
  std::map<std::string, v1::WorkerRecord> workers_;

  // Derived from the above.
  std::map<std::string, std::set<std::string>> queued_;
  std::map<std::string, std::set<std::string>> leased_by_;
  std::map<std::string, int> unfinished_;  // by run
  int lost_workers_ = 0;
};

// "r12" -> 12; 0 if it is no run id.
int64_t RunNumber(const std::string& run_id);

}  // namespace warpsmith::planner
