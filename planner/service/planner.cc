#include "planner/service/planner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "planner/board/board.h"
#include "planner/service/replies.h"

namespace warpsmith::planner {
namespace {

absl::Status Leaving() {
  return absl::UnavailableError("the planner is shutting down: come again in a few seconds");
}

absl::Status TooBusy() {
  return absl::ResourceExhaustedError("the planner has too much to do: come again later");
}

// A cheap sequence for spreading calls over time; nothing depends on its quality (xorshift64).
uint64_t Next(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

}  // namespace

Planner::Planner(store::Store* store, const PlannerOptions& options, Clock clock, int64_t epoch,
                 int64_t last_revision, Committer::OnFatal on_fatal)
    : store_(store),
      options_(options),
      clock_(std::move(clock)),
      core_(options.core),
      jitter_(static_cast<uint64_t>(epoch) * 0x9E3779B97F4A7C15ull + 1),
      committer_(store, epoch, last_revision, std::move(on_fatal)),
      background_("background", kMaxQueuedCalls),
      strand_("core", kMaxQueuedCalls) {}

absl::StatusOr<std::unique_ptr<Planner>> Planner::Start(store::Store* store,
                                                        const PlannerOptions& options, Clock clock,
                                                        Committer::OnFatal on_fatal) {
  absl::StatusOr<int64_t> epoch = store->Lead();
  if (!epoch.ok()) return epoch.status();
  absl::StatusOr<int64_t> last = store->LastRevision();
  if (!last.ok()) return last.status();
  std::unique_ptr<Planner> planner(
      new Planner(store, options, std::move(clock), *epoch, *last, std::move(on_fatal)));
  if (absl::Status status = planner->Load(); !status.ok()) return status;
  return planner;
}

Planner::~Planner() { Stop(); }

absl::Status Planner::Load() {
  absl::StatusOr<std::optional<store::Record>> snapshot = store_->LoadSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  if (snapshot->has_value()) {
    v1::PlannerState state;
    if (!state.ParseFromString((*snapshot)->bytes)) {
      return absl::DataLossError(
          absl::StrCat("the snapshot of revision ", (*snapshot)->revision, " cannot be read"));
    }
    core_.Restore(state);
    snapshot_revision_ = (*snapshot)->revision;
  }
  while (true) {
    absl::StatusOr<std::vector<store::Record>> records =
        store_->Read(core_.state().revision(), store::kMaxReadEvents);
    if (!records.ok()) return records.status();
    if (records->empty()) break;
    for (const store::Record& record : *records) {
      v1::Event event;
      if (!event.ParseFromString(record.bytes) || event.event_case() == v1::Event::EVENT_NOT_SET) {
        return absl::DataLossError(
            absl::StrCat("event ", record.revision,
                         " of the log cannot be read: was it written by a newer Warpsmith?"));
      }
      core_.Replay(event);
    }
  }
  core_.Start(clock_());
  loaded_ = true;
  spdlog::info("at revision {} (snapshot of {}): {} runs, {} tasks, {} workers",
               core_.state().revision(), snapshot_revision_, core_.state().runs().size(),
               core_.state().tasks().size(), core_.state().LiveWorkers());
  return absl::OkStatus();
}

template <typename Reply>
void Planner::OnStrand(Done<Reply> done, std::function<void(Done<Reply>)> action) {
  if (draining_) return done(Leaving());
  if (committer_.Backlog() > kMaxUncommitted) return done(TooBusy());
  if (!strand_.Post([this, done, action = std::move(action)] {
        if (draining_) return done(Leaving());
        action(done);
      })) {
    done(TooBusy());
  }
}

void Planner::Commit(std::vector<v1::Event> events, Blobs blobs, std::function<void()> done) {
  std::vector<std::string> named = TakeNamed(events, blobs);
  committer_.Enqueue({Serialize(events), std::move(named), std::move(done), std::nullopt});
  if (core_.state().revision() - snapshot_revision_ >= options_.events_per_snapshot) {
    TakeSnapshot();
  }
}

void Planner::TakeSnapshot() {
  snapshot_revision_ = core_.state().revision();
  committer_.Enqueue(
      {{},
       {},
       nullptr,
       store::Record{snapshot_revision_, core_.state().ToProto().SerializeAsString()}});
}

// ---- workers -----------------------------------------------------------------------------------

void Planner::Synchronize(int64_t call, const v1::SynchronizeRequest& request,
                          Done<v1::SynchronizeReply> done) {
  auto blobs = std::make_shared<Blobs>();
  absl::StatusOr<planner::Synchronize> command = ToCommand(request, *blobs);
  if (!command.ok()) return done(command.status());
  OnStrand<v1::SynchronizeReply>(std::move(done), [this, call, command = *std::move(command),
                                                   blobs](Done<v1::SynchronizeReply> done) {
    Handle(call, command, std::move(*blobs), std::move(done));
  });
}

void Planner::Handle(int64_t call, planner::Synchronize command, Blobs blobs,
                     Done<v1::SynchronizeReply> done) {
  // A newer call of the same session: the older one's caller has given it up.
  const auto older = parked_by_session_.find(command.session_id);
  if (older != parked_by_session_.end()) {
    auto node = parked_.extract(older->second);
    parked_by_session_.erase(older);
    node.mapped().done(absl::AbortedError("a newer call of the same session has come"));
  }
  Outcome<SynchronizeAnswer> outcome = core_.Handle(command, clock_());
  if (outcome.reply.ok() && outcome.reply->park) {
    Commit(std::move(outcome.events), std::move(blobs), nullptr);
    Park(call, std::move(command), std::move(done));
  } else {
    Answer(std::move(outcome), std::move(blobs), std::move(done));
  }
  WakeParked();
}

void Planner::Answer(Outcome<SynchronizeAnswer> outcome, Blobs blobs,
                     Done<v1::SynchronizeReply> done) {
  Commit(std::move(outcome.events), std::move(blobs),
         [this, reply = std::move(outcome.reply), done = std::move(done)] {
           if (!reply.ok()) return done(reply.status());
           if (reply->start.empty()) return done(MakeReply(*reply, *store_));
           background_.PostAlways([this, reply, done] { done(MakeReply(*reply, *store_)); });
         });
}

void Planner::Park(int64_t call, planner::Synchronize command, Done<v1::SynchronizeReply> done) {
  // What it brought is recorded; asked again it only takes what there is.
  command.results.clear();
  const int64_t half = options_.core.park_ms / 2;
  const int64_t until = clock_().monotonic_ms + half +
                        static_cast<int64_t>(Next(jitter_) % static_cast<uint64_t>(half + 1));
  parked_by_session_[command.session_id] = call;
  parked_[call] = {std::move(command), until, std::move(done)};
}

void Planner::WakeParked() {
  const int64_t now_ms = clock_().monotonic_ms;
  for (auto it = parked_.begin(); it != parked_.end();) {
    Parked& parked = it->second;
    const bool due = parked.until_ms <= now_ms;
    if (!due && !core_.HasWorkFor(parked.command.worker.arch())) {
      ++it;
      continue;
    }
    Outcome<SynchronizeAnswer> outcome = core_.Handle(parked.command, clock_());
    if (!due && outcome.reply.ok() && outcome.reply->park) {
      Commit(std::move(outcome.events), {}, nullptr);
      ++it;
      continue;
    }
    Answer(std::move(outcome), {}, std::move(parked.done));
    parked_by_session_.erase(parked.command.session_id);
    it = parked_.erase(it);
  }
}

void Planner::Cancel(int64_t call) {
  strand_.PostAlways([this, call] {
    auto node = parked_.extract(call);
    if (node.empty()) return;
    parked_by_session_.erase(node.mapped().command.session_id);
    node.mapped().done(absl::CancelledError("the caller is gone"));
  });
}

// ---- people ------------------------------------------------------------------------------------

void Planner::Submit(const v1::SubmitRequest& request, Done<v1::SubmitReply> done) {
  if (draining_) return done(Leaving());
  // Validating thousands of graphs takes its time, so it is done in the background first.
  const bool posted = background_.Post([this, request, done] {
    auto blobs = std::make_shared<Blobs>();
    absl::StatusOr<planner::Submit> command = ToCommand(request, *blobs);
    if (!command.ok()) return done(command.status());
    OnStrand<v1::SubmitReply>(
        done, [this, command = *std::move(command), blobs](Done<v1::SubmitReply> done) {
          Outcome<v1::Run> outcome = core_.Handle(command, clock_());
          Commit(std::move(outcome.events), std::move(*blobs),
                 [run = std::move(outcome.reply), done = std::move(done)] {
                   if (!run.ok()) return done(run.status());
                   v1::SubmitReply reply;
                   *reply.mutable_run() = *run;
                   done(std::move(reply));
                 });
          WakeParked();
        });
  });
  if (!posted) done(TooBusy());
}

void Planner::SetTask(const v1::SetTaskRequest& request, Done<v1::SetTaskReply> done) {
  planner::SetTask command{request.task_id(), request.state(), request.reason()};
  OnStrand<v1::SetTaskReply>(std::move(done), [this, command](Done<v1::SetTaskReply> done) {
    Outcome<v1::Task> outcome = core_.Handle(command, clock_());
    Commit(std::move(outcome.events), {}, [task = std::move(outcome.reply), done] {
      if (!task.ok()) return done(task.status());
      v1::SetTaskReply reply;
      *reply.mutable_task() = *task;
      done(std::move(reply));
    });
    WakeParked();
  });
}

v1::PlannerState Planner::View() const {
  v1::PlannerState view = core_.state().ToProto();
  for (v1::TaskRecord& record : *view.mutable_tasks()) *record.mutable_task() = core_.View(record);
  for (v1::WorkerRecord& record : *view.mutable_workers()) {
    *record.mutable_worker() = core_.View(record);
  }
  return view;
}

void Planner::List(const v1::ListRequest& request, Done<v1::ListReply> done) {
  const std::string run_id = request.run_id();
  OnStrand<v1::ListReply>(std::move(done), [this, run_id](Done<v1::ListReply> done) {
    if (!run_id.empty() && core_.state().FindRun(run_id) == nullptr) {
      return done(absl::NotFoundError(
          absl::StrCat("there is no run '", run_id, "': `warpsmith board` lists them")));
    }
    v1::ListReply reply;
    reply.set_revision(core_.state().revision());
    for (const auto& [number, run] : core_.state().runs()) {
      if (run_id.empty() || run.run().id() == run_id) *reply.add_runs() = run.run();
    }
    for (const auto& [id, task] : core_.state().tasks()) {
      if (!run_id.empty() && task.task().run_id() != run_id) continue;
      // Trials are of GetTask; thousands of digests of each task would outgrow a message.
      v1::Task& listed = *reply.add_tasks() = core_.View(task);
      listed.clear_trial_blobs();
    }
    for (const auto& [id, worker] : core_.state().workers()) {
      if (!worker.lost()) *reply.add_workers() = core_.View(worker);
    }
    Commit({}, {}, [done, reply = std::move(reply)] { done(reply); });
  });
}

void Planner::GetTask(const v1::GetTaskRequest& request, Done<v1::GetTaskReply> done) {
  OnStrand<v1::GetTaskReply>(std::move(done), [this, request](Done<v1::GetTaskReply> done) {
    const v1::TaskRecord* record = core_.state().FindTask(request.task_id());
    if (record == nullptr) {
      return done(absl::NotFoundError(absl::StrCat("there is no task '", request.task_id(),
                                                   "': `warpsmith board` lists them")));
    }
    Commit({}, {}, [this, done, task = core_.View(*record), trials = request.with_trials()] {
      background_.PostAlways(
          [this, done, task, trials] { done(MakeReply(task, trials, *store_)); });
    });
  });
}

void Planner::GetBoard(Done<v1::GetBoardReply> done) {
  OnStrand<v1::GetBoardReply>(std::move(done), [this](Done<v1::GetBoardReply> done) {
    auto view = std::make_shared<v1::PlannerState>(View());
    Commit({}, {}, [this, done, view] {
      background_.PostAlways([this, done, view] {
        v1::GetBoardReply reply;
        reply.set_markdown(board::Render(*view));
        reply.set_path(options_.board_path);
        reply.set_revision(view->revision());
        done(std::move(reply));
      });
    });
  });
}

void Planner::WriteBoard() {
  const int64_t revision = core_.state().revision();
  // Progress of leases is shown too, and is no event.
  const bool unchanged = revision == board_revision_ && core_.progress().empty();
  if (options_.board_path.empty() || (unchanged && !board_failed_)) return;
  board_revision_ = revision;
  auto view = std::make_shared<v1::PlannerState>(View());
  Commit({}, {}, [this, view] {
    background_.PostAlways([this, view] {
      std::string page = board::Render(*view);
      if (page == board_) return;
      absl::Status status = base::WriteFileAtomically(options_.board_path, page);
      // The board is a projection: the next tick writes it whole again.
      if (!status.ok() && !board_failed_) spdlog::error("the board: {}", status.ToString());
      board_failed_ = !status.ok();
      if (status.ok()) board_ = std::move(page);
    });
  });
}

// ---- time and the end --------------------------------------------------------------------------

void Planner::Tick() {
  strand_.Post([this] {
    if (draining_) return;
    Outcome<planner::Done> outcome = core_.Handle(planner::Tick{}, clock_());
    for (const v1::Event& event : outcome.events) {
      if (event.has_worker_lost()) {
        spdlog::warn("worker {} is lost: {}", event.worker_lost().worker_id(),
                     event.worker_lost().reason());
      }
    }
    Commit(std::move(outcome.events), {}, nullptr);
    WakeParked();
    WriteBoard();
  });
}

void Planner::Drain() {
  draining_ = true;
  strand_.PostAlways([this] {
    for (auto& [call, parked] : parked_) parked.done(Leaving());
    parked_.clear();
    parked_by_session_.clear();
  });
}

void Planner::Stop() {
  if (stopped_) return;
  stopped_ = true;
  Drain();
  strand_.PostAlways([this] {
    if (!loaded_) return;
    WriteBoard();
    if (core_.state().revision() > snapshot_revision_) TakeSnapshot();
  });
  // Each hands on to the next: whatever is under way is answered.
  strand_.Stop();
  committer_.Stop();
  background_.Stop();
}

}  // namespace warpsmith::planner
