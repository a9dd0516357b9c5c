// The planner's service as a state machine: the core, parked calls, and the order of writes and
// answers. Calls, times and what became of the writes come in; writes, answers and the board go
// out. It has no thread, clock, file or socket: the server drives it with real ones (planner.h),
// the simulation with simulated ones (planner/simulation), and both run the same lines.
//
//   Service service(options, seed);
//   absl::Status status = service.Load(store, now);       // what the store holds
//   service.Handle(call, command, std::move(contents), now);
//   for (Write& write : service.TakeWrites()) ...         // to be made durable in this order
//   service.Durable(number);                              // that write, and all before it, are
//   for (Answer& answer : service.TakeAnswers()) ...      // each says nothing that is not durable
//
// Every call is answered once, after the last write that was handed out before its answer was made:
// nobody is told what a crash could take back. Only a refusal for want of room or because the end
// is near waits for nothing. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/store/store.h"
#include "planner/core/core.h"
#include "planner/service/convert.h"
#include "planner/service/write.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::planner {

// Between two ticks; whoever finds it longer was not running, and heard nobody.
inline constexpr int64_t kLongestTickMs = 5'000;
// Writes that are not durable yet, and their bytes; beyond either calls are told when to come again
// (ResourceExhausted). Workers share half of what is left of the bytes.
inline constexpr int64_t kMaxUncommitted = 20'000;
inline constexpr int64_t kMaxUncommittedBytes = int64_t{256} << 20;
// Drawing a board takes some 7 us a task: boards are as far apart as this allows.
inline constexpr int64_t kBoardTasksPerSecond = 5'000;

struct ServiceOptions {
  CoreOptions core;
  // A checkpoint is due after so many events, and when something went into the archive. Few: it is
  // written between commits, and they wait.
  int64_t events_per_checkpoint = 100;
  // Whether the board is to be drawn, at ticks at which it changed.
  bool board = false;
  // Hears of the events that were decided together, after they were applied; null: nobody does.
  std::function<void(absl::Span<const v1::Event>, const State&)> observer;
};

struct ListTasks {
  std::string run_id;     // "": of all runs that are not in the archive
  int page_tasks = 0;     // at most so many; 0: all
  std::string after;      // the tasks with higher ids
  bool archived = false;  // instead of all that: the runs in the archive that are remembered
};
struct GetTask {
  std::string task_id;
  bool with_trials = false;
};
struct GetBoard {};

using Command = std::variant<Synchronize, Submit, SetTask, CancelRun, SetPriority, HoldWorker,
                             ReleaseWorker, ListTasks, GetTask, GetBoard>;

// A task, whose blobs are still to be read; all of it, where it is in the archive.
struct TaskAnswer {
  v1::Task task;
  bool with_trials = false;
  bool archived = false;  // the task has its id alone
};
// A run in the archive, to be read there.
struct ArchiveAnswer {
  ListTasks list;
  v1::ListReply reply;  // without it
};
// To be drawn from the views that were handed out before.
struct BoardAnswer {};

// By command; SetPriority gives the run, HoldWorker and ReleaseWorker the worker.
using Reply = std::variant<SynchronizeAnswer, v1::Run, v1::Task, v1::CancelRunReply, v1::WorkerInfo,
                           v1::ListReply, TaskAnswer, ArchiveAnswer, BoardAnswer>;

// What changed since the view before, for whoever draws boards (board::Picture).
struct View {
  std::shared_ptr<const Changes> changes;
  std::optional<std::map<std::string, Progress>> progress;  // where a page is to be made of it
  bool draw = false;                                        // the page is to be written
};

struct Answer {
  int64_t call = 0;
  absl::StatusOr<Reply> reply;
};

// The refusals that say nothing of the state.
absl::Status Leaving();
absl::Status TooBusy(absl::Duration retry_after);

class Service {
 public:
  // `seed` spreads parked calls over time.
  Service(const ServiceOptions& options, uint64_t seed);

  // Applies what the store holds; from here on time counts. DataLoss: it cannot be read.
  absl::Status Load(store::Store& store, Now now);
  // Instead of Load, where another planner writes: applies what the store holds by now, and hands
  // it out to be drawn. `checkpoint`: the revision of the store's. DataLoss: it cannot be read;
  // OutOfRange: it is too far behind, a new service must begin from the checkpoint.
  absl::Status Follow(store::Store& store, int64_t checkpoint);
  // After Follow: it is the writer from here on, and time counts.
  void Begin(Now now);

  // `call` is a number that no other call has; `contents` are what the command brings.
  void Handle(int64_t call, Command command, Contents contents, Now now);
  // The caller is gone: a parked call is answered Cancelled, any other goes on.
  void Cancel(int64_t call);
  // Who may call has changed: parked calls are answered, without a lease, and come again.
  void Release(Now now);
  // About once a second: expiry, parked calls, the board.
  void Tick(Now now);
  // All writes up to `number` are durable.
  void Durable(int64_t number);
  // A checkpoint of that revision was saved; said before Durable of the write that asked for it.
  void Saved(int64_t revision) { saved_revision_ = std::max(saved_revision_, revision); }
  // The store takes nothing for now: until something is durable again, calls are refused with this.
  void Stalled(const absl::Status& status) { stalled_ = status; }
  // The board could not be written: it is to be drawn again at the next tick.
  void BoardFailed() { board_revision_ = -1; }
  // Parked calls are released and new ones refused: the end is near.
  void Drain();
  // Drain, a last board, and a checkpoint that makes the next start quick.
  void End();

  std::vector<Write> TakeWrites() { return std::exchange(writes_, {}); }
  // In the order in which they were made.
  std::vector<Answer> TakeAnswers() { return std::exchange(answers_, {}); }
  // Each says nothing that is not durable, and goes before the answers that were made after it.
  std::vector<View> TakeViews() { return std::exchange(views_, {}); }
  // Not OK: the store has lost what it had made durable. Nobody may be answered any more.
  const absl::Status& lost() const { return lost_; }

  const Core& core() const { return core_; }
  int64_t checkpoint_revision() const { return checkpoint_revision_; }  // that was asked for
  int64_t saved_revision() const { return saved_revision_; }            // that the store has
  size_t parked() const { return parked_.size(); }
  int64_t uncommitted() const { return written_ - durable_; }

 private:
  struct Parked {
    Synchronize command;
    int64_t until_ms = 0;
  };

  absl::Status Restore(store::Store& store);
  absl::Status Replay(store::Store& store);
  absl::Status Refusal() const;
  int64_t MostResultBytes() const;
  void Commit(std::vector<v1::Event> events, Contents contents);
  // `checkpoint`: the revision of the one, already asked for, that the store must have, or the call
  // fails.
  void Say(int64_t call, absl::StatusOr<Reply> reply, int64_t checkpoint = 0);
  void On(int64_t call, Synchronize command, Contents contents, Now now);
  void On(int64_t call, const Submit& command, Contents contents, Now now);
  void On(int64_t call, const SetTask& command, Contents contents, Now now);
  void On(int64_t call, const CancelRun& command, Contents contents, Now now);
  void On(int64_t call, const SetPriority& command, Contents contents, Now now);
  void On(int64_t call, const HoldWorker& command, Contents contents, Now now);
  void On(int64_t call, const ReleaseWorker& command, Contents contents, Now now);
  void On(int64_t call, const ListTasks& command, Contents contents, Now now);
  void On(int64_t call, const GetTask& command, Contents contents, Now now);
  void On(int64_t call, const GetBoard& command, Contents contents, Now now);

  void Park(int64_t call, Synchronize command, Now now);
  std::optional<Parked> Unpark(int64_t call);
  void WakeDue(Now now);
  void WakeForWork(Now now);
  // What changed goes to the next checkpoint and to the board, for one of them: kLook is a
  // person's.
  enum class For { kCheckpoint, kBoard, kLook };
  void TakeChanges(For use);
  void CheckpointIfDue();
  bool BoardChanged() const;

  const ServiceOptions options_;
  Core core_;
  uint64_t jitter_;
  bool draining_ = false;
  bool work_ = false;  // may have come for who is parked, since they were last asked
  absl::Status stalled_;
  bool loaded_ = false;
  bool restored_ = false;
  std::deque<std::shared_ptr<const Changes>> followed_;  // that no checkpoint of the store has yet

  std::map<int64_t, Parked> parked_;                            // by call
  std::unordered_map<std::string, int64_t> parked_by_session_;  // session -> call
  std::map<std::string, std::set<int64_t>> parked_by_kind_;     // KindOf; calls, the oldest first
  std::set<std::pair<int64_t, int64_t>> parked_by_end_;         // until_ms, call

  int64_t written_ = 0;  // number of the last write handed out
  int64_t durable_ = 0;
  std::deque<std::pair<int64_t, int64_t>> uncommitted_;  // number, bytes
  int64_t uncommitted_bytes_ = 0;
  int64_t checkpoint_revision_ = 0, saved_revision_ = 0;
  int64_t board_revision_ = -1;  // that is drawn, or on its way
  int64_t next_board_ms_ = 0;
  struct Waiting {
    int64_t number = 0;      // of the write that it waits for
    int64_t checkpoint = 0;  // Say
    Answer answer;
  };
  std::deque<Waiting> waiting_;                         // numbers never fall
  std::deque<std::pair<int64_t, View>> waiting_views_;  // likewise, for a write
  int64_t last_tick_ms_ = 0;

  std::vector<Write> writes_;
  std::vector<Answer> answers_;
  std::vector<View> views_;
  absl::Status lost_;
};

}  // namespace warpsmith::planner
