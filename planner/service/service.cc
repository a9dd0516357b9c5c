#include "planner/service/service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/problem/worker_state.h"
#include "common/rpc/status.h"

namespace warpsmith::planner {
namespace {

// A cheap sequence for spreading calls over time; nothing depends on its quality (xorshift64).
uint64_t Next(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

absl::Status NotInCheckpoint() {
  return absl::UnavailableError(
      "it is done, and lasts; but the checkpoint, by which alone a version before would know it, "
      "could not be saved: say it again, and look into the planner's log if that fails, too");
}

// For somebody who was told that there is nothing: more is queued, or what is queued is for others
// than before.
bool MayBringWork(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kLeaseGranted:
    case v1::Event::kResultAccepted:
    case v1::Event::kTrialsRecorded:
    case v1::Event::kRunArchived:
    case v1::Event::kResultRefused:
      return false;
    case v1::Event::kRunChanged:
      return !event.run_changed().has_priority();
    default:
      return true;
  }
}

}  // namespace

absl::Status Leaving() {
  return absl::UnavailableError("the planner is shutting down: come again in a few seconds");
}

absl::Status TooBusy(absl::Duration retry_after) {
  return rpc::WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat("the planner has too much to do: come again in ",
                                                absl::FormatDuration(retry_after))),
      retry_after);
}

Service::Service(const ServiceOptions& options, uint64_t seed)
    : options_(options), core_(options.core), jitter_(seed * 0x9E3779B97F4A7C15ull + 1) {}

absl::Status Service::Restore(store::Store& store) {
  absl::StatusOr<store::Identity> identity = store.Identify();
  if (!identity.ok()) return identity.status();
  core_.BeOf(store::TokenOf(*identity), identity->archives);
  absl::StatusOr<v1::PlannerState> stored = LoadState(store);
  if (!stored.ok()) return stored.status();
  checkpoint_revision_ = saved_revision_ = stored->revision();
  auto all = std::make_shared<Changes>();
  all->records = *stored;
  views_.push_back({std::move(all), {}, /*draw=*/false});
  core_.Restore(*std::move(stored));
  return absl::OkStatus();
}

absl::Status Service::Replay(store::Store& store) {
  while (true) {
    absl::StatusOr<std::vector<store::Record>> records =
        store.Read(core_.state().revision(), store::kMaxReadEvents);
    if (!records.ok()) return records.status();
    if (records->empty()) return absl::OkStatus();
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
}

absl::Status Service::Load(store::Store& store, Now now) {
  if (absl::Status status = Restore(store); !status.ok()) return status;
  if (absl::Status status = Replay(store); !status.ok()) return status;
  Begin(now);
  return absl::OkStatus();
}

absl::Status Service::Follow(store::Store& store, int64_t checkpoint) {
  if (!restored_) {
    if (absl::Status status = Restore(store); !status.ok()) return status;
    restored_ = true;
  }
  const int64_t before = core_.state().revision();
  if (absl::Status status = Replay(store); !status.ok()) return status;
  if (core_.state().revision() != before) {
    followed_.push_back(std::make_shared<const Changes>(core_.TakeChanges()));
    views_.push_back({followed_.back(), std::nullopt, options_.board});
  }
  checkpoint_revision_ = saved_revision_ = std::max(saved_revision_, checkpoint);
  while (!followed_.empty() && followed_.front()->records.revision() <= checkpoint_revision_) {
    followed_.pop_front();
  }
  return absl::OkStatus();
}

void Service::Begin(Now now) {
  core_.Forgive(now);
  last_tick_ms_ = now.monotonic_ms;
  loaded_ = true;
  if (followed_.empty()) return CheckpointIfDue();
  // What was archived is read from the store.
  for (std::shared_ptr<const Changes>& changes : followed_) {
    Write& write = writes_.emplace_back();
    write.number = ++written_;
    write.changes = std::move(changes);
  }
  followed_.clear();
  TakeChanges(For::kCheckpoint);
}

// ---- calls --------------------------------------------------------------------------------------

absl::Status Service::Refusal() const {
  if (draining_) return Leaving();
  if (!stalled_.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the planner cannot write: ", std::string(stalled_.message())));
  }
  if (written_ - durable_ <= kMaxUncommitted && uncommitted_bytes_ <= kMaxUncommittedBytes) {
    return absl::OkStatus();
  }
  return TooBusy(absl::Milliseconds(core_.BusySyncMs()));
}

int64_t Service::MostResultBytes() const {
  const int64_t left = std::max<int64_t>(kMaxUncommittedBytes - uncommitted_bytes_, 0);
  return std::max<int64_t>(left / 2 / std::max(core_.state().LiveWorkers(), 1), 1);
}

void Service::Handle(int64_t call, Command command, Contents contents, Now now) {
  if (absl::Status refusal = Refusal(); !refusal.ok()) {
    answers_.push_back({call, refusal});
    return;
  }
  std::visit([&](auto&& each) { On(call, std::move(each), std::move(contents), now); },
             std::move(command));
}

void Service::Commit(std::vector<v1::Event> events, Contents contents) {
  if (events.empty()) return;
  if (options_.observer) options_.observer(events, core_.state());
  for (const v1::Event& event : events) work_ |= MayBringWork(event);
  Write& write = writes_.emplace_back();
  write.number = ++written_;
  TakeNamed(events, contents, write.blobs, write.facts);
  write.events = Serialize(events);
  uncommitted_.emplace_back(write.number, SizeOf(write));
  uncommitted_bytes_ += uncommitted_.back().second;
}

void Service::TakeChanges(For use) {
  auto changes = std::make_shared<const Changes>(core_.TakeChanges());
  Write& write = writes_.emplace_back();
  write.number = ++written_;
  write.changes = changes;
  write.checkpoint = use == For::kCheckpoint;
  if (use == For::kCheckpoint) checkpoint_revision_ = core_.state().revision();
  if (use == For::kBoard) board_revision_ = core_.state().revision();
  View view{std::move(changes), std::nullopt, use == For::kBoard};
  // A copy of what all leases say, so not with each checkpoint.
  if (use != For::kCheckpoint) view.progress = core_.progress();
  waiting_views_.emplace_back(written_, std::move(view));
}

void Service::Say(int64_t call, absl::StatusOr<Reply> reply, int64_t checkpoint) {
  if (reply.ok() && std::holds_alternative<SynchronizeAnswer>(*reply)) {
    std::get<SynchronizeAnswer>(*reply).most_result_bytes = MostResultBytes();
  }
  if (durable_ == written_) {
    answers_.push_back({call, std::move(reply)});
  } else {
    waiting_.push_back({written_, checkpoint, {call, std::move(reply)}});
  }
}

void Service::Durable(int64_t number) {
  durable_ = std::max(durable_, number);
  stalled_ = absl::OkStatus();
  for (; !uncommitted_.empty() && uncommitted_.front().first <= durable_;
       uncommitted_.pop_front()) {
    uncommitted_bytes_ -= uncommitted_.front().second;
  }
  for (; !waiting_.empty() && waiting_.front().number <= durable_; waiting_.pop_front()) {
    Waiting& next = waiting_.front();
    if (next.answer.reply.ok() && next.checkpoint > saved_revision_) {
      next.answer.reply = NotInCheckpoint();
    }
    answers_.push_back(std::move(next.answer));
  }
  for (; !waiting_views_.empty() && waiting_views_.front().first <= durable_;
       waiting_views_.pop_front()) {
    views_.push_back(std::move(waiting_views_.front().second));
  }
}

// ---- workers ------------------------------------------------------------------------------------

void Service::On(int64_t call, Synchronize command, Contents contents, Now now) {
  Outcome<SynchronizeAnswer> outcome = core_.Handle(command, now);
  // A newer call of the same session: the older one's caller has given it up. Not one of somebody
  // who knows the session's id and is another.
  if (const auto older = parked_by_session_.find(command.session_id);
      outcome.reply.ok() && older != parked_by_session_.end()) {
    const int64_t old_call = older->second;
    Unpark(old_call);
    Say(old_call, absl::AbortedError("a newer call of the same session has come"));
  }
  if (absl::IsDataLoss(outcome.reply.status())) lost_ = outcome.reply.status();
  Commit(std::move(outcome.events), std::move(contents));
  if (outcome.reply.ok() && outcome.reply->park) {
    // It brought nothing: whoever does is answered.
    Park(call, std::move(command), now);
  } else {
    Say(call, std::move(outcome.reply));
  }
  WakeForWork(now);
  CheckpointIfDue();
}

void Service::Park(int64_t call, Synchronize command, Now now) {
  const int64_t half = options_.core.park_ms / 2;
  const int64_t until = now.monotonic_ms + half +
                        static_cast<int64_t>(Next(jitter_) % static_cast<uint64_t>(half + 1));
  parked_by_session_[command.session_id] = call;
  parked_by_kind_[KindOf(command.worker)].insert(call);
  parked_by_end_.insert({until, call});
  parked_[call] = {std::move(command), until};
}

std::optional<Service::Parked> Service::Unpark(int64_t call) {
  auto node = parked_.extract(call);
  if (node.empty()) return std::nullopt;
  const Parked& parked = node.mapped();
  const auto calls = parked_by_kind_.find(KindOf(parked.command.worker));
  calls->second.erase(call);
  if (calls->second.empty()) parked_by_kind_.erase(calls);
  parked_by_end_.erase({parked.until_ms, call});
  parked_by_session_.erase(parked.command.session_id);
  return std::move(node.mapped());
}

// Asked once more as it leaves: an idle worker's silence is counted from here.
void Service::WakeDue(Now now) {
  while (!parked_by_end_.empty() && parked_by_end_.begin()->first <= now.monotonic_ms) {
    const int64_t call = parked_by_end_.begin()->second;
    Outcome<SynchronizeAnswer> outcome = core_.Handle(Unpark(call)->command, now);
    Commit(std::move(outcome.events), {});
    Say(call, std::move(outcome.reply));
  }
}

// As many as there is work for, those that have waited longest first.
void Service::WakeForWork(Now now) {
  if (!std::exchange(work_, false)) return;
  for (auto next = parked_by_kind_.begin(); next != parked_by_kind_.end();) {
    const std::string kind = next->first;
    // What was lost with a worker is for others: the next may take what this one is not given.
    int64_t call = 0;
    for (int declined = 0; declined <= kMaxLostWith;) {
      const auto calls = parked_by_kind_.find(kind);
      if (calls == parked_by_kind_.end()) break;
      const auto later = calls->second.upper_bound(call);
      if (later == calls->second.end()) break;
      call = *later;
      if (!core_.HasWorkFor(parked_.at(call).command.worker)) break;
      Outcome<SynchronizeAnswer> outcome = core_.Handle(parked_.at(call).command, now);
      Commit(std::move(outcome.events), {});
      if (outcome.reply.ok() && outcome.reply->park) {
        ++declined;
        continue;
      }
      Unpark(call);
      Say(call, std::move(outcome.reply));
    }
    next = parked_by_kind_.upper_bound(kind);
  }
}

void Service::Cancel(int64_t call) {
  if (Unpark(call)) Say(call, absl::CancelledError("the caller is gone"));
}

void Service::Release(Now now) {
  while (!parked_.empty()) {
    const int64_t call = parked_.begin()->first;
    Synchronize command = Unpark(call)->command;
    command.slots = 0;
    Outcome<SynchronizeAnswer> outcome = core_.Handle(command, now);
    // Not all at once, and not much later than they would have been answered.
    if (outcome.reply.ok()) {
      const auto spread = static_cast<uint64_t>(core_.BusySyncMs());
      outcome.reply->next_sync_after_ms = 1 + static_cast<int64_t>(Next(jitter_) % spread);
    }
    Commit(std::move(outcome.events), {});
    Say(call, std::move(outcome.reply));
  }
}

// ---- people -------------------------------------------------------------------------------------

void Service::On(int64_t call, const Submit& command, Contents contents, Now now) {
  Outcome<v1::Run> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), std::move(contents));
  Say(call, std::move(outcome.reply));
  WakeForWork(now);
  CheckpointIfDue();
}

void Service::On(int64_t call, const SetTask& command, Contents, Now now) {
  Outcome<v1::Task> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), {});
  Say(call, std::move(outcome.reply));
  WakeForWork(now);
}

void Service::On(int64_t call, const CancelRun& command, Contents, Now now) {
  Outcome<v1::CancelRunReply> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), {});
  Say(call, std::move(outcome.reply));
}

// A version before, which may be gone back to, knows of it by the run's record alone (RunChanged).
// Said again it is in a checkpoint, too: that of before may have failed.
void Service::On(int64_t call, const SetPriority& command, Contents, Now now) {
  Outcome<v1::Run> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), {});
  const int64_t revision = core_.state().revision();
  if (outcome.reply.ok() && saved_revision_ < revision) TakeChanges(For::kCheckpoint);
  Say(call, std::move(outcome.reply), revision);
}

void Service::On(int64_t call, const HoldWorker& command, Contents, Now now) {
  Outcome<v1::WorkerInfo> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), {});
  Say(call, std::move(outcome.reply));
}

void Service::On(int64_t call, const ReleaseWorker& command, Contents, Now now) {
  Outcome<v1::WorkerInfo> outcome = core_.Handle(command, now);
  Commit(std::move(outcome.events), {});
  Say(call, std::move(outcome.reply));
}

void Service::On(int64_t call, const ListTasks& command, Contents, Now) {
  const State& state = core_.state();
  v1::ListReply reply;
  reply.set_revision(state.revision());
  reply.set_archived_runs(state.archived_runs());
  if (command.after.empty()) {
    for (const auto& [id, worker] : state.workers()) {
      if (!worker.lost() || problem::IsSetAside(worker)) *reply.add_workers() = core_.View(worker);
    }
  }
  if (command.archived) {
    for (const auto& [number, run] : state.archived()) *reply.add_runs() = run.run();
    return Say(call, Reply(std::move(reply)));
  }
  const std::string& run_id = command.run_id;
  if (!run_id.empty() && state.FindRun(run_id) == nullptr) {
    if (!state.IsArchived(run_id)) return Say(call, NoSuchRun(run_id));
    return Say(call, Reply(ArchiveAnswer{command, std::move(reply)}));
  }
  if (command.after.empty()) {
    for (const auto& [number, run] : state.runs()) {
      if (run_id.empty() || run.run().id() == run_id) *reply.add_runs() = run.run();
    }
  }
  // A task's id begins with its run's.
  const std::string prefix = run_id.empty() ? "" : run_id + "/";
  auto task = state.tasks().upper_bound(std::max(command.after, prefix));
  for (; task != state.tasks().end() && task->first.compare(0, prefix.size(), prefix) == 0;
       ++task) {
    if (command.page_tasks > 0 && reply.tasks_size() == command.page_tasks) {
      reply.set_more_after(reply.tasks().rbegin()->id());
      break;
    }
    *reply.add_tasks() = core_.View(task->second);
  }
  Say(call, Reply(std::move(reply)));
}

void Service::On(int64_t call, const GetTask& command, Contents, Now) {
  const v1::TaskRecord* record = core_.state().FindTask(command.task_id);
  TaskAnswer answer{{}, command.with_trials, /*archived=*/record == nullptr};
  if (record != nullptr) {
    answer.task = core_.View(*record);
  } else if (core_.state().IsArchived(command.task_id)) {
    answer.task.set_id(command.task_id);
  } else {
    return Say(call, NoSuchTask(command.task_id));
  }
  Say(call, Reply(std::move(answer)));
}

void Service::On(int64_t call, const GetBoard&, Contents, Now) {
  TakeChanges(For::kLook);
  Say(call, Reply(BoardAnswer{}));
}

// ---- time and the end ---------------------------------------------------------------------------

void Service::Tick(Now now) {
  // It was stopped, could not write or had too much to do, and heard nobody: no silence of then
  // counts.
  if (!Refusal().ok()) return;
  if (now.monotonic_ms - last_tick_ms_ > kLongestTickMs) core_.Forgive(now);
  last_tick_ms_ = now.monotonic_ms;
  Outcome<Done> outcome = core_.Handle(planner::Tick{}, now);
  Commit(std::move(outcome.events), {});
  WakeDue(now);
  work_ = true;  // whatever was missed
  WakeForWork(now);
  CheckpointIfDue();
  const bool draw = now.monotonic_ms >= next_board_ms_ && BoardChanged();
  if (draw) TakeChanges(For::kBoard);
  const auto tasks = static_cast<int64_t>(core_.state().tasks().size());
  if (draw) next_board_ms_ = now.monotonic_ms + 1'000 * tasks / kBoardTasksPerSecond;
}

// Often and small: no commit waits long behind one. What is archived is read from the store, and is
// there when a later call is answered.
void Service::CheckpointIfDue() {
  const int64_t since = core_.state().revision() - checkpoint_revision_;
  if (since < options_.events_per_checkpoint && !core_.state().HasArchived()) return;
  TakeChanges(For::kCheckpoint);
}

// Progress of leases is shown too, and is no event.
bool Service::BoardChanged() const {
  const bool waits = std::any_of(waiting_views_.begin(), waiting_views_.end(),
                                 [](const auto& view) { return view.second.draw; });
  return options_.board && !waits &&
         (core_.state().revision() != board_revision_ || !core_.progress().empty());
}

void Service::Drain() {
  draining_ = true;
  while (!parked_.empty()) {
    const int64_t call = parked_.begin()->first;
    Unpark(call);
    answers_.push_back({call, Leaving()});
  }
}

void Service::End() {
  Drain();
  if (!loaded_) return;
  if (core_.state().revision() != checkpoint_revision_) TakeChanges(For::kCheckpoint);
  if (BoardChanged()) TakeChanges(For::kBoard);
}

}  // namespace warpsmith::planner
