// The planner without its transport: the core on a strand, the store behind a group commit, parked
// polls, the board.
//
//   auto planner = *Planner::Start(store, options, now, on_fatal);
//   planner->Synchronize(planner->NewCall(), request, [](absl::StatusOr<v1::SynchronizeReply> r)
//   {}); planner->Tick();          // about once a second: expiry, parked polls, the board
//   planner->Drain();         // releases parked polls; every new call is Unavailable
//   planner->Stop();          // what was accepted is durable, a snapshot is written
//
// Threads: every method may be called from any thread and returns at once (Start and Stop block).
// Each `done` is called exactly once, from a thread of the planner, and must not block; what it
// says is durable by then.
//
//   caller ──► strand: core.Handle ──► committer: store.Commit ──► background: blobs, rendering ──►
//   done
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "planner/service/committer.h"
#include "planner/service/convert.h"
#include "planner/service/executor.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Calls waiting for the strand; more are told to come later (ResourceExhausted).
inline constexpr size_t kMaxQueuedCalls = 20'000;
// Calls whose commit is outstanding; likewise.
inline constexpr size_t kMaxUncommitted = 20'000;

struct PlannerOptions {
  CoreOptions core;
  // Written when it changed, at each Tick. "": no board file.
  std::string board_path;
  // A snapshot is taken after so many events.
  int64_t events_per_snapshot = 5'000;
};

class Planner {
 public:
  template <typename Reply>
  using Done = std::function<void(absl::StatusOr<Reply>)>;
  using Clock = std::function<Now()>;  // called on the strand

  // Becomes the store's writer and applies what it holds. `store` must outlive the planner.
  // `on_fatal`: see Committer.
  static absl::StatusOr<std::unique_ptr<Planner>> Start(store::Store* store,
                                                        const PlannerOptions& options, Clock clock,
                                                        Committer::OnFatal on_fatal);
  ~Planner();

  // Names a call, so that it can be cancelled.
  int64_t NewCall() { return ++calls_; }
  void Synchronize(int64_t call, const v1::SynchronizeRequest& request,
                   Done<v1::SynchronizeReply> done);
  // The caller is gone: a parked call is answered Cancelled, any other goes on.
  void Cancel(int64_t call);

  void Submit(const v1::SubmitRequest& request, Done<v1::SubmitReply> done);
  void List(const v1::ListRequest& request, Done<v1::ListReply> done);
  void GetTask(const v1::GetTaskRequest& request, Done<v1::GetTaskReply> done);
  void GetBoard(Done<v1::GetBoardReply> done);
  void SetTask(const v1::SetTaskRequest& request, Done<v1::SetTaskReply> done);

  void Tick();
  void Drain();
  void Stop();

 private:
  struct Parked {
    planner::Synchronize command;
    int64_t until_ms = 0;
    Done<v1::SynchronizeReply> done;
  };

  Planner(store::Store* store, const PlannerOptions& options, Clock clock, int64_t epoch,
          int64_t last_revision, Committer::OnFatal on_fatal);
  absl::Status Load();

  // Posts to the strand, or answers that there is too much to do.
  template <typename Reply>
  void OnStrand(Done<Reply> done, std::function<void(Done<Reply>)> action);

  // On the strand.
  void Commit(std::vector<v1::Event> events, Blobs blobs, std::function<void()> done);
  void Handle(int64_t call, planner::Synchronize command, Blobs blobs,
              Done<v1::SynchronizeReply> done);
  void Answer(Outcome<SynchronizeAnswer> outcome, Blobs blobs, Done<v1::SynchronizeReply> done);
  void Park(int64_t call, planner::Synchronize command, Done<v1::SynchronizeReply> done);
  void WakeParked();
  void TakeSnapshot();
  // The state as people see it.
  v1::PlannerState View() const;
  void WriteBoard();

  store::Store* const store_;
  const PlannerOptions options_;
  const Clock clock_;
  std::atomic<int64_t> calls_{0};
  std::atomic<bool> draining_{false};
  bool loaded_ = false;
  bool stopped_ = false;

  // Of the strand.
  Core core_;
  std::map<int64_t, Parked> parked_;                  // by call
  std::map<std::string, int64_t> parked_by_session_;  // session -> call
  int64_t snapshot_revision_ = 0;
  int64_t board_revision_ = -1;
  uint64_t jitter_ = 1;
  // Of the background thread.
  std::string board_;
  std::atomic<bool> board_failed_{false};  // the last writing of it; the strand reads it

  // Last, so that they end first: their actions use what is above.
  Committer committer_;
  Executor background_;
  Executor strand_;
};

}  // namespace warpsmith::planner
