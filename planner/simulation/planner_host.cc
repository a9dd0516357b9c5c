#include "planner/simulation/planner_host.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/service/committer.h"
#include "planner/service/replies.h"

namespace warpsmith::planner::simulation {
namespace {

constexpr int64_t kTickMs = 1000;
constexpr int64_t kEventsPerCheckpoint = 40;

absl::Status Reset() { return absl::UnavailableError("connection reset"); }

}  // namespace

PlannerHost::PlannerHost(World* world, const Faults* faults, Checker* checker)
    : world_(world),
      faults_(faults),
      checker_(checker),
      keep_over_tasks_(world->Chance(0.5) ? world->Between(int64_t{0}, int64_t{12})
                                          : CoreOptions().keep_over_tasks) {
  Recover();
  world_->At(0, [this] { Tick(); });
}

// ---- the process --------------------------------------------------------------------------------

void PlannerHost::Recover() {
  store_ = std::make_unique<store::MemoryStore>(disk_);
  faulty_ = std::make_unique<store::FaultyStore>(store_.get(), [this](absl::string_view call) {
    if (call != "Commit") return store::Fault::kNone;
    if (world_->now_ms() < disk_full_until_ms_) return store::Fault::kUnavailable;
    if (!world_->Chance(faults_->unanswered)) return store::Fault::kNone;
    return world_->Chance(0.5) ? store::Fault::kExecutedTimeout : store::Fault::kTimeout;
  });
  const int64_t epoch = *store_->Lead();
  writer_ = std::make_unique<Writer>(faulty_.get(), epoch, *store_->LastRevision());
  clock_offset_ms_ = world_->Between(int64_t{0}, int64_t{1'000'000});
  asleep_until_ms_ = 0;
  service_ =
      std::make_unique<Service>(ServiceOptions{.core = {.keep_over_tasks = keep_over_tasks_},
                                               .events_per_checkpoint = kEventsPerCheckpoint},
                                static_cast<uint64_t>(epoch));
  const absl::Status loaded = service_->Load(*store_, PlannersNow());
  if (!loaded.ok()) checker_->Fail(absl::StrCat("the planner does not start: ", loaded.ToString()));
  checker_->Deaf(world_->now_ms(), /*long_enough=*/true);
  world_->Trace(absl::StrCat("planner is up at revision ", service_->core().state().revision()));
}

void PlannerHost::Crash() {
  ++crashes_;
  ++generation_;
  world_->Trace(absl::StrCat("planner dies, ", batch_.size() + writes_.size(), " writes with it"));
  // It may die when the disk has them and before anybody was told.
  if (commit_scheduled_ && world_->Chance(0.5)) {
    TakeBatch();
    writer_->Commit(batch_).IgnoreError();
    TellChecker();
  }
  batch_.clear();
  writes_.clear();
  commit_scheduled_ = false;
  commit_failures_ = 0;
  service_ = nullptr;
  for (auto& [call, waiting] : std::exchange(waiting_, {})) waiting.finish(Reset(), 0);
  world_->After(world_->Between(int64_t{100}, int64_t{30'000}), [this] { Recover(); });
}

void PlannerHost::InPlanner(std::function<void()> action) {
  world_->At(asleep_until_ms_, [this, generation = generation_, action = std::move(action)] {
    if (generation != generation_ || service_ == nullptr) return;
    // It fell asleep meanwhile.
    if (world_->now_ms() < asleep_until_ms_) return InPlanner(action);
    action();
    HandOut();
  });
}

void PlannerHost::Tick() {
  world_->After(kTickMs, [this] { Tick(); });
  if (service_ == nullptr || world_->now_ms() < asleep_until_ms_) return;
  const double seconds = kTickMs / 1000.0;
  if (world_->Chance(faults_->planner_crash * seconds)) return Crash();
  if (world_->Chance(faults_->planner_pause * seconds)) {
    ++pauses_;
    asleep_until_ms_ = world_->now_ms() + world_->Between(int64_t{1000}, int64_t{120'000});
    world_->Trace("planner stands still");
    checker_->Deaf(asleep_until_ms_, asleep_until_ms_ - world_->now_ms() > kLongestTickMs);
    // It may look at its clock before it hears what waits.
    if (world_->Chance(0.5)) InPlanner([this] { service_->Tick(PlannersNow()); });
    return;
  }
  if (world_->Chance(faults_->disk_full * seconds)) {
    disk_full_until_ms_ = world_->now_ms() + world_->Between(int64_t{1000}, int64_t{60'000});
    world_->Trace("the planner's disk is full");
  }
  InPlanner([this] {
    service_->Tick(PlannersNow());
    if (commit_failures_ > 0) return;
    for (const auto& [call, waiting] : waiting_) {  // parked: taken, and not answered yet
      if (waiting.handled_ms > 0) checker_->Heard(waiting.worker, {}, waiting.handled_ms);
    }
    checker_->Looked(world_->now_ms());
  });
}

// ---- calls --------------------------------------------------------------------------------------

int64_t PlannerHost::Call(const std::string& worker, Command command, Contents contents,
                          Finish finish) {
  const int64_t call = ++calls_;
  if (service_ == nullptr) {
    finish(absl::UnavailableError("connection refused"), 0);
    return call;
  }
  waiting_[call] = {std::move(finish), worker};
  auto held =
      std::make_shared<std::pair<Command, Contents>>(std::move(command), std::move(contents));
  InPlanner([this, call, held] {
    waiting_[call].handled_ms = world_->now_ms();
    service_->Handle(call, std::move(held->first), std::move(held->second), PlannersNow());
  });
  return call;
}

void PlannerHost::Cancel(int64_t call) {
  InPlanner([this, call] { service_->Cancel(call); });
}

int64_t PlannerHost::Synchronize(v1::SynchronizeRequest request, Done<v1::SynchronizeReply> done) {
  Contents contents;
  absl::StatusOr<planner::Synchronize> command = ToCommand(std::move(request), contents);
  if (!command.ok()) {
    done(command.status());
    return 0;
  }
  std::vector<std::string> held;
  for (const v1::LeaseStatus& lease : command->leases) {
    if (!lease.finished()) held.push_back(lease.lease_id());
  }
  std::string worker = command->worker.id();
  return Call(worker, *std::move(command), std::move(contents),
              [this, done = std::move(done), held = std::move(held), worker](
                  absl::StatusOr<Reply> answer, int64_t handled_ms) {
                // One that ends so was parked: it was heard until now.
                const bool parked =
                    absl::IsAborted(answer.status()) || absl::IsCancelled(answer.status());
                if (parked) checker_->Heard(worker, {}, world_->now_ms());
                if (!answer.ok()) return done(answer.status());
                checker_->Heard(worker, held, handled_ms);
                // A parked one is taken again as it ends.
                checker_->Heard(worker, {}, world_->now_ms());
                Damage damage;
                absl::StatusOr<v1::SynchronizeReply> reply =
                    Lender(store_.get()).Reply(std::get<SynchronizeAnswer>(*answer), damage);
                if (!damage.empty()) checker_->Fail("a task's blobs are gone");
                if (!reply.ok())
                  checker_->Fail(absl::StrCat("no reply: ", reply.status().ToString()));
                if (reply.ok()) {
                  // As it is read at the other end.
                  const std::string bytes = CanonicalBytes(*reply);
                  if (!reply->ParseFromString(bytes)) checker_->Fail("a reply cannot be read");
                  Note(bytes);
                }
                for (const Grant& lease : std::get<SynchronizeAnswer>(*answer).start) {
                  checker_->Granted(lease.task_id, lease.fence, handled_ms);
                }
                done(std::move(reply));
              });
}

void PlannerHost::Submit(const v1::SubmitRequest& request, Done<v1::Run> done) {
  Contents contents;
  absl::StatusOr<planner::Submit> command = ToCommand(request, contents);
  if (!command.ok()) return done(command.status());
  Call("", *std::move(command), std::move(contents),
       [this, done](absl::StatusOr<Reply> answer, int64_t) {
         if (!answer.ok()) return done(answer.status());
         const v1::Run& run = std::get<v1::Run>(*answer);
         checker_->ToldSubmitted(run.id());
         done(run);
       });
}

void PlannerHost::SetTask(const planner::SetTask& command) {
  Call("", command, {}, [](const absl::StatusOr<Reply>&, int64_t) {});
}

void PlannerHost::CancelRun(const planner::CancelRun& command) {
  Call("", command, {}, [](const absl::StatusOr<Reply>&, int64_t) {});
}

void PlannerHost::HoldWorker(const planner::HoldWorker& command) {
  Call("", command, {}, [](const absl::StatusOr<Reply>&, int64_t) {});
}

void PlannerHost::ReleaseWorker(const planner::ReleaseWorker& command) {
  Call("", command, {}, [](const absl::StatusOr<Reply>&, int64_t) {});
}

void PlannerHost::HandOut() {
  std::vector<Write> writes = service_->TakeWrites();
  std::move(writes.begin(), writes.end(), std::back_inserter(writes_));
  service_->TakeViews();  // nobody draws boards here
  if (!service_->lost().ok()) checker_->Fail(service_->lost().ToString());
  for (Answer& answer : service_->TakeAnswers()) {
    auto node = waiting_.extract(answer.call);
    if (node.empty()) {
      checker_->Fail(absl::StrCat("call ", answer.call, " is answered twice"));
    } else {
      node.mapped().finish(std::move(answer.reply), node.mapped().handled_ms);
    }
  }
  if (!writes_.empty() && !commit_scheduled_)
    ScheduleCommit(world_->Between(int64_t{0}, int64_t{30}));
}

// ---- the disk -----------------------------------------------------------------------------------

void PlannerHost::ScheduleCommit(int64_t pause_ms) {
  commit_scheduled_ = true;
  world_->After(pause_ms, [this, generation = generation_] {
    if (generation == generation_) InPlanner([this] { Commit(); });
  });
}

// Tried again it is the same, whatever came since.
void PlannerHost::TakeBatch() {
  if (!batch_.empty()) return;
  const auto end = writes_.begin() + static_cast<std::ptrdiff_t>(OneTransaction(writes_));
  batch_.assign(std::make_move_iterator(writes_.begin()), std::make_move_iterator(end));
  writes_.erase(writes_.begin(), end);
}

void PlannerHost::Commit() {
  commit_scheduled_ = false;
  TakeBatch();
  const absl::Status status = writer_->Commit(batch_);
  TellChecker();
  if (IsWorthAnotherTry(status)) {
    if (++commit_failures_ == kFailuresOfAStall) service_->Stalled(status);
    checker_->Deaf(world_->now_ms(), /*long_enough=*/false);
    return ScheduleCommit(world_->Between(int64_t{50}, int64_t{1000}));
  }
  commit_failures_ = 0;
  if (!status.ok()) return checker_->Fail(absl::StrCat("a commit is refused: ", status.ToString()));
  service_->Durable(batch_.back().number);
  batch_.clear();
}

// Of what the disk has and it does not know.
void PlannerHost::TellChecker() {
  while (true) {
    const auto records = store_->Read(checked_, store::kMaxReadEvents);
    for (const store::Record& record : *records) {
      v1::Event event;
      if (!event.ParseFromString(record.bytes)) checker_->Fail("an event cannot be read");
      if (world_->trace()) world_->Trace(absl::StrCat("  ", event.ShortDebugString()));
      checker_->Committed(event);
      batches_ += event.has_trials_recorded();
      Note(record.bytes);
      checked_ = record.revision;
    }
    if (records->size() < store::kMaxReadEvents) break;
  }
  if (store_->CountFacts()->count != batches_) {
    checker_->Fail(absl::StrCat(batches_, " batches of trials are recorded, and the store has ",
                                store_->CountFacts()->count));
  }
}

std::vector<v1::Task> PlannerHost::Archived() {
  std::vector<v1::Task> tasks;
  const absl::Status read = store_->ReadArchive(TaskKey(""), [&](const store::Entry& entry) {
    v1::TaskRecord record;
    if (!record.ParseFromString(entry.bytes)) checker_->Fail("an archived task cannot be read");
    tasks.push_back(record.task());
    return true;
  });
  if (!read.ok()) checker_->Fail(absl::StrCat("the archive: ", read.ToString()));
  return tasks;
}

std::string PlannerHost::StateOfLog() {
  State state;
  for (int64_t at = 0;;) {
    const auto records = *store_->Read(at, store::kMaxReadEvents);
    if (records.empty()) return CanonicalBytes(state.ToProto());
    for (const store::Record& record : records) {
      v1::Event event;
      event.ParseFromString(record.bytes);
      state.Apply(event);
    }
    at = records.back().revision;
  }
}

}  // namespace warpsmith::planner::simulation
