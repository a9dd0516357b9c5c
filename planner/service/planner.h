// The planner without its transport: the service (service.h) on a strand, its writes behind a group
// commit, blobs and boards in the background.
//
//   auto planner = *Planner::Start(store, options, now, on_fatal);
//   planner->Synchronize(planner->NewCall(), request, [](absl::StatusOr<v1::SynchronizeReply> r)
//   {}); planner->Tick();          // about once a second: expiry, parked polls, the board
//   planner->Drain();         // releases parked polls; every new call is Unavailable
//   planner->Stop();          // what was accepted is durable, a checkpoint is written
//
// One of several on a store follows until it leads (candidate.h decides when):
//
//   auto planner = *Planner::Follow(store, options, now, on_fatal);
//   absl::Status status = planner->CatchUp(standing);
//   status = planner->Lead(epoch, asked_ms);   // calls are answered from here on
//   planner->Confirm(sent_ms);             // the store knew it as the leader then
//
// Threads: every method may be called from any thread and returns at once (Start and Stop block).
// Each `done` is called exactly once, from a thread of the planner, and must not block; what it
// says is durable by then.
//
//   caller ──► strand: service.Handle ──► committer: store.Commit ──► strand: service.Durable ──►
//   background: blobs, rendering ──► done
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/security/roles.h"
#include "common/store/leadership.h"
#include "common/store/store.h"
#include "planner/board/board.h"
#include "planner/board/file.h"
#include "planner/service/candidacy.h"
#include "planner/service/committer.h"
#include "planner/service/executor.h"
#include "planner/service/metrics.h"
#include "planner/service/replies.h"
#include "planner/service/role.h"
#include "planner/service/service.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Calls waiting for the strand; more are told to come after kQueueRetry (ResourceExhausted).
inline constexpr size_t kMaxQueuedCalls = 20'000;
inline constexpr absl::Duration kQueueRetry = absl::Seconds(10);

struct PlannerOptions {
  CoreOptions core;
  // Written when it changed, and read when a person changed it, at each Tick. "": no board file.
  std::string board_path;
  PlannerMetrics* metrics = nullptr;  // null: nothing is counted; outlives the planner
  // Hears of each view, on the board's thread; null: nobody does.
  std::function<void(const View&)> on_view;
  int64_t events_per_checkpoint = ServiceOptions().events_per_checkpoint;
};

class Planner : public Contender {
 public:
  template <typename Reply>
  using Done = std::function<void(absl::StatusOr<Reply>)>;
  using Clock = std::function<Now()>;  // called from any thread

  // Becomes the store's writer and applies what it holds. `store` must outlive the planner.
  // `on_fatal`: see Committer; DataLoss: the store has lost what it had made durable;
  // FailedPrecondition: the board that is there is another store's.
  static absl::StatusOr<std::unique_ptr<Planner>> Start(store::Store* store,
                                                        const PlannerOptions& options, Clock clock,
                                                        Committer::OnFatal on_fatal);
  // Of a store that another planner writes to: calls are refused until it leads. Errors as of
  // Start.
  static absl::StatusOr<std::unique_ptr<Planner>> Follow(store::Store* store,
                                                         const PlannerOptions& options, Clock clock,
                                                         Committer::OnFatal on_fatal);
  ~Planner() override;

  // See Contender; times are the clock's monotonic milliseconds. CatchUp and Lead block.
  absl::Status CatchUp(const store::Standing& standing) override;
  absl::Status Lead(int64_t epoch, int64_t asked_ms) override;
  void Confirm(int64_t sent_ms) override { role_.Confirm(sent_ms); }
  int64_t alive_ms() const override { return alive_ms_; }

  // Names a call, so that it can be cancelled.
  int64_t NewCall() { return ++calls_; }
  // `caller`, here and below, was admitted: what it may do with what is not its own is decided
  // here.
  void Synchronize(int64_t call, const security::Caller& caller,
                   const v1::SynchronizeRequest& request, Done<v1::SynchronizeReply> done);
  // The caller is gone: a parked call is answered Cancelled, any other goes on.
  void Cancel(int64_t call);

  void Submit(const security::Caller& caller, const v1::SubmitRequest& request,
              Done<v1::SubmitReply> done);
  void List(const v1::ListRequest& request, Done<v1::ListReply> done);
  void GetTask(const v1::GetTaskRequest& request, Done<v1::GetTaskReply> done);
  void GetBoard(Done<v1::GetBoardReply> done);
  void SetTask(const security::Caller& caller, const v1::SetTaskRequest& request,
               Done<v1::SetTaskReply> done);
  void CancelRun(const security::Caller& caller, const v1::CancelRunRequest& request,
                 Done<v1::CancelRunReply> done);
  void SetPriority(const security::Caller& caller, const v1::SetPriorityRequest& request,
                   Done<v1::SetPriorityReply> done);
  void HoldWorker(const v1::HoldWorkerRequest& request, Done<v1::HoldWorkerReply> done);
  void ReleaseWorker(const v1::ReleaseWorkerRequest& request, Done<v1::ReleaseWorkerReply> done);

  // Who may call has changed: parked calls come again.
  void Release();
  void Tick();
  void Drain();
  void Stop();
  bool leads() const { return role_.leads(); }

 private:
  // Ends a call with the service's answer; on the strand.
  using Finish = std::function<void(absl::StatusOr<Reply>)>;

  Planner(store::Store* store, const PlannerOptions& options, Clock clock, uint64_t seed,
          Committer::OnFatal on_fatal);
  // The committer of the store's writer.
  absl::Status BeginWriting(int64_t epoch);
  // The board that is there is this store's, and what there is to draw is on its way.
  // FailedPrecondition else.
  absl::Status BeginDrawing();
  // It leads: says from where.
  void Report() const;
  // Runs `action` on the strand, and waits for it.
  absl::Status OnStrandNow(const std::function<absl::Status()>& action);
  // On the strand: why nothing may be answered; OK: it may.
  absl::Status MayAnswer() const { return role_.MayAnswer(clock_().monotonic_ms); }

  // Any thread.
  void Call(int64_t call, Command command, Contents contents, Finish finish);
  // `action` on the strand; what the service made of it goes out. False: too much is queued.
  bool OnStrand(std::function<void()> action, bool always = true);

  // On the strand.
  void HandOut();
  void CountStanding(bool may_answer);
  void Take(View view);
  void Answer(SynchronizeAnswer answer, const Done<v1::SynchronizeReply>& done);
  // Reads what the next task's problem and kernel are in the store, a task each tick, so that
  // damage is found before somebody wants them.
  void CheckNext();
  // Any thread. It is nobody's work until a person has seen to the store.
  void HoldDamaged(const std::string& task_id, const absl::Status& damage);
  // On the board's thread: what people wrote there becomes commands, and what became of them lines
  // of the page.
  void LookAtBoard(base::Instant now);
  void Heed(board::Edited edited);
  struct Heeding;
  void EndHeeding(const Heeding& heeding);
  void Report(std::string line);
  void WriteBoard();

  store::Store* const store_;
  const PlannerOptions options_;
  const Clock clock_;
  const Committer::OnFatal on_fatal_;
  std::atomic<int64_t> calls_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> looks_{false};  // LookAtBoard is on its way
  Role role_;
  std::atomic<int64_t> alive_ms_{0};
  bool stopped_ = false;

  // Of the strand.
  Service service_;
  std::map<int64_t, Finish> finishes_;  // by call
  int64_t epoch_ = 0;                   // in which it leads; 0: it does not yet
  std::string checked_;                 // the task that was checked last
  Lender lender_;
  // Of the board's thread.
  board::Picture picture_;
  board::BoardFile file_;
  std::set<std::string> done_;  // what people wrote on pages: page, verb, reason
  std::string board_;
  bool may_write_board_ = false;  // the page that is there was found to be of this store
  bool board_failed_ = false;     // the last writing of it

  // Last, so that they end first: their actions use what is above.
  Executor drawing_;  // at a low priority: the board, of many tasks a second's work, and CheckNext
  Executor background_;
  Executor strand_;
  std::unique_ptr<Committer> committer_;  // of a planner that leads
};

}  // namespace warpsmith::planner
