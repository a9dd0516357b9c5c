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
// After so long no answer of a store is waited for: of who leads, and of a commit.
constexpr int64_t kStandingLimitMs = 2'000;
constexpr int64_t kCommitLimitMs = 5'000;
constexpr int64_t kLeaveMs = 5'000;    // what is not written by then stays unwritten
constexpr int64_t kSlowestMs = 4'000;  // one way
// Of what is asked of a store beside commits, this part of their share is not answered.
constexpr double kLooksShare = 0.05;
constexpr double kOthersShare = 0.2;

absl::Status Reset() { return absl::UnavailableError("connection reset"); }

bool NoAnswer(const absl::Status& status) { return absl::IsDeadlineExceeded(status); }
template <typename T>
bool NoAnswer(const absl::StatusOr<T>& result) {
  return NoAnswer(result.status());
}

}  // namespace

void PlannerHost::Counts::Add(const Counts& other) {
  crashes += other.crashes;
  pauses += other.pauses;
  left += other.left;
  takeovers += other.takeovers;
  rivals += other.rivals;
  deposed += other.deposed;
  refused += other.refused;
  untold += other.untold;
  gave_up += other.gave_up;
  away += other.away;
  slow += other.slow;
  stuck += other.stuck;
}

PlannerHost::PlannerHost(World* world, const Faults* faults, Checker* checker, StoreHost* store,
                         Settings settings)
    : world_(world),
      faults_(faults),
      checker_(checker),
      store_(store),
      settings_(std::move(settings)) {
  Start();
  world_->At(0, [this] { Tick(); });
}

// ---- the process --------------------------------------------------------------------------------

void PlannerHost::StartAfter(int64_t ms) {
  starting_ = true;
  world_->After(ms, [this] { Start(); });
}

void PlannerHost::Start() {
  starting_ = false;
  link_ = store_->Open([this](absl::string_view call) { return Plan(call); });
  asleep_until_ms_ = stuck_until_ms_ = 0;
  still_at_answer_ms_ = still_at_takeover_ms_ = 0;
  leaving_ = false;
  epoch_ = 0;
  role_ = std::make_unique<Role>();
  settings_.shared ? Join() : Recover();
}

void PlannerHost::Recover() {
  epoch_ = *link_->store.Lead();
  writer_ = std::make_shared<Writer>(&link_->faulty, epoch_, *link_->store.LastRevision());
  clock_offset_ms_ = world_->Between(int64_t{0}, int64_t{1'000'000});
  service_ = std::make_unique<Service>(
      ServiceOptions{.core = {.keep_over_tasks = settings_.keep_over_tasks},
                     .events_per_checkpoint = kEventsPerCheckpoint},
      static_cast<uint64_t>(epoch_));
  const absl::Status loaded = service_->Load(link_->store, PlannersNow());
  if (!loaded.ok()) checker_->Fail(absl::StrCat("the planner does not start: ", loaded.ToString()));
  role_->LeadAlone();
  checker_->Deaf(world_->now_ms(), /*long_enough=*/true);
  world_->Trace(absl::StrCat("planner is up at revision ", service_->core().state().revision()));
}

void PlannerHost::Join() {
  clock_offset_ms_ = world_->Between(int64_t{0}, int64_t{1'000'000});
  service_ = std::make_unique<Service>(
      ServiceOptions{.core = {.keep_over_tasks = settings_.keep_over_tasks},
                     .events_per_checkpoint = kEventsPerCheckpoint},
      world_->Random());
  const absl::Status followed = service_->Follow(link_->faulty, /*checkpoint=*/0);
  if (!followed.ok()) {
    if (!IsWorthAnotherTry(followed)) {
      checker_->Fail(absl::StrCat(address(), " does not start: ", followed.ToString()));
    }
    End();
    StartAfter(1000);
    return;
  }
  candidacy_ = std::make_unique<Candidacy>(this);
  role_->Follow();
  up_ms_ = world_->now_ms();
  world_->Trace(
      absl::StrCat(address(), " follows at revision ", service_->core().state().revision()));
  Go(Candidacy::kLook);
}

void PlannerHost::End() {
  ++generation_;
  batch_.clear();
  writes_.clear();
  commit_scheduled_ = false;
  commit_failures_ = 0;
  service_ = nullptr;
  role_ = nullptr;
  candidacy_ = nullptr;
  for (auto& [call, waiting] : std::exchange(waiting_, {})) waiting.finish(Reset(), 0);
}

void PlannerHost::Crash() {
  ++counts_.crashes;
  world_->Trace(
      absl::StrCat(address(), " dies, ", batch_.size() + writes_.size(), " writes with it"));
  // It may die when the disk has them and before anybody was told. What is under way to a store
  // that is shared comes there.
  if (!settings_.shared && commit_scheduled_ && world_->Chance(0.5)) {
    TakeBatch();
    writer_->Commit(batch_).IgnoreError();
    store_->TellChecker();
  }
  End();
  StartAfter(world_->Between(int64_t{100}, int64_t{30'000}));
}

// What was accepted is written, and the next one need not wait.
void PlannerHost::Leave() {
  ++counts_.left;
  leaving_ = true;
  world_->Trace(address() + " is told to end");
  InPlanner([this] { service_->End(); });
  Linger(world_->now_ms() + kLeaveMs);
}

void PlannerHost::Linger(int64_t until_ms) {
  InProcess(100, [this, until_ms] {
    if (!Settled() && world_->now_ms() < until_ms) return Linger(until_ms);
    const auto leave = [this](const absl::Status&, int64_t) {
      End();
      StartAfter(world_->Between(int64_t{100}, int64_t{10'000}));
    };
    if (!role_->leads()) return leave(absl::OkStatus(), 0);
    Ask<absl::Status>(
        [epoch = epoch_](store::Leadership& leadership) { return leadership.Resign(epoch); },
        leave);
  });
}

void PlannerHost::BeginAnew(const absl::Status& why) {
  ++counts_.deposed;
  world_->Trace(absl::StrCat(address(), " begins anew: ", why.ToString()));
  End();
  StartAfter(world_->Between(int64_t{100}, int64_t{1'000}));
}

void PlannerHost::GiveUp(const absl::Status& why) {
  ++counts_.gave_up;
  world_->Trace(absl::StrCat(address(), " gives up: ", why.ToString()));
  checker_->Broken(absl::StrCat(address(), " gives up, and nothing was lost: ", why.ToString()));
  End();
  // At times it hears only now of what it asked before a person went on with it.
  if (store_->history() == StoreHost::History::kStale && !world_->Chance(0.5)) return;
  // Whoever watches over it starts it again: it knows nothing any more.
  world_->After(world_->Between(int64_t{1000}, int64_t{10'000}), [this] { StartAgain(); });
}

void PlannerHost::StartAgain() {
  if (!starting_ && service_ == nullptr) Start();
}

void PlannerHost::InProcess(int64_t pause_ms, std::function<void()> action) {
  const int64_t at_ms = std::max(world_->now_ms() + pause_ms, asleep_until_ms_);
  world_->At(at_ms, [this, generation = generation_, action = std::move(action)] {
    if (generation != generation_ || service_ == nullptr) return;
    if (asleep()) return InProcess(0, action);
    action();
  });
}

void PlannerHost::InPlanner(std::function<void()> action) {
  world_->At(StrandFreeAt(), [this, generation = generation_, action = std::move(action)] {
    if (generation != generation_ || service_ == nullptr) return;
    // It fell asleep meanwhile.
    if (world_->now_ms() < StrandFreeAt()) return InPlanner(action);
    action();
    if (generation == generation_) HandOut();
  });
}

bool PlannerHost::Leads() const {
  return service_ != nullptr && !leaving_ && world_->now_ms() >= StrandFreeAt() &&
         role_->MayAnswer(PlannersNow().monotonic_ms).ok();
}

int64_t PlannerHost::well_since_ms() const {
  if (service_ == nullptr || leaving_ || world_->now_ms() < StrandFreeAt()) return -1;
  return std::max({up_ms_, StrandFreeAt(), store_failed_ms_, store_away_until_ms_,
                   standing_away_until_ms_, store_slow_until_ms_});
}

void PlannerHost::StandStill(int64_t ms) {
  asleep_until_ms_ = std::max(asleep_until_ms_, world_->now_ms() + ms);
  world_->Trace(absl::StrCat(address(), " stands still until ", asleep_until_ms_, " ms"));
  if (IsLeader()) checker_->Deaf(StrandFreeAt(), ms > kLongestTickMs);
  // It may look at its clock before it hears what waits.
  if (role_->leads() && world_->Chance(0.5)) InPlanner([this] { TickService(); });
}

// True: it does nothing more now.
bool PlannerHost::DrawFaults() {
  const double seconds = kTickMs / 1000.0;
  if (world_->Chance(faults_->planner_crash * seconds)) {
    Crash();
    return true;
  }
  if (world_->Chance(faults_->planner_pause * seconds)) {
    ++counts_.pauses;
    const int64_t ms = world_->Between(int64_t{1000}, int64_t{120'000});
    if (!settings_.shared || world_->Chance(0.5)) {
      StandStill(ms);
      return true;
    }
    (world_->Chance(0.5) ? still_at_answer_ms_ : still_at_takeover_ms_) = ms;
  }
  if (world_->Chance(faults_->disk_full * seconds)) {
    store_->FillUp(world_->now_ms() + world_->Between(int64_t{1000}, int64_t{60'000}));
    world_->Trace("the planner's disk is full");
  }
  return settings_.shared && DrawStoresFaults(seconds);
}

bool PlannerHost::DrawStoresFaults(double seconds) {
  if (!leaving_ && world_->Chance(faults_->planner_leave * seconds)) Leave();
  if (world_->Chance(faults_->store_away * seconds)) {
    LoseStore(world_->now_ms() + world_->Between(int64_t{1000}, int64_t{60'000}));
  }
  if (world_->Chance(faults_->store_slow * seconds)) {
    SlowStore(world_->now_ms() + world_->Between(int64_t{1000}, int64_t{120'000}));
  }
  // That way is a connection of its own.
  if (world_->Chance(3 * faults_->store_away * seconds)) {
    standing_away_until_ms_ = world_->now_ms() + world_->Between(int64_t{1000}, int64_t{30'000});
    world_->Trace(address() + " is not told who leads");
  }
  if (!world_->Chance(faults_->strand_stuck * seconds)) return false;
  ++counts_.stuck;
  stuck_until_ms_ = world_->now_ms() + world_->Between(int64_t{1000}, int64_t{60'000});
  world_->Trace(absl::StrCat(address(), " is stuck until ", stuck_until_ms_, " ms"));
  if (IsLeader()) checker_->Deaf(StrandFreeAt(), /*long_enough=*/false);
  return true;
}

// False: it may answer nothing, and counts no silence.
bool PlannerHost::TickService() {
  alive_ms_ = PlannersNow().monotonic_ms;
  if (!role_->MayAnswer(alive_ms_).ok()) return false;
  service_->Tick(PlannersNow());
  return true;
}

void PlannerHost::Tick() {
  world_->After(kTickMs, [this] { Tick(); });
  if (service_ == nullptr || world_->now_ms() < StrandFreeAt()) return;
  if (!store_->settles() && DrawFaults()) return;
  if (!role_->leads()) return;
  InPlanner([this] {
    const bool heard = TickService();
    if (!IsLeader()) return;
    if (!heard) return checker_->Deaf(world_->now_ms(), /*long_enough=*/false);
    if (commit_failures_ > 0) return;
    for (const auto& [call, waiting] : waiting_) {  // parked: taken, and not answered yet
      if (waiting.handled_ms > 0) checker_->Heard(waiting.worker, {}, waiting.handled_ms);
    }
    checker_->Looked(world_->now_ms());
  });
}

// ---- calls --------------------------------------------------------------------------------------

int64_t PlannerHost::Call(const std::string& worker, planner::Command command, Contents contents,
                          Finish finish) {
  const int64_t call = ++calls_;
  if (service_ == nullptr) {
    finish(absl::UnavailableError("connection refused"), 0);
    return call;
  }
  waiting_[call] = {std::move(finish), worker};
  auto held = std::make_shared<std::pair<planner::Command, Contents>>(std::move(command),
                                                                      std::move(contents));
  InPlanner([this, call, held] {
    if (absl::Status may = role_->MayAnswer(PlannersNow().monotonic_ms); !may.ok()) {
      return waiting_.extract(call).mapped().finish(may, 0);
    }
    waiting_[call].handled_ms = world_->now_ms();
    service_->Handle(call, std::move(held->first), std::move(held->second), PlannersNow());
  });
  return call;
}

void PlannerHost::Cancel(int64_t call) {
  InPlanner([this, call] { service_->Cancel(call); });
}

// What is said goes its way, unless the process falls asleep or dies before.
template <typename R>
void PlannerHost::Send(const Done<R>& done, absl::StatusOr<R> reply) {
  if (!settings_.shared) return done(std::move(reply));
  world_->After(world_->Between(int64_t{0}, int64_t{20}),
                [this, generation = generation_, done, reply = std::move(reply)] {
                  if (generation != generation_) return done(Reset());
                  if (!asleep()) return done(reply);
                  InProcess(0, [done, reply] { done(reply); });
                });
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
                    Lender(&link_->faulty).Reply(std::get<SynchronizeAnswer>(*answer), damage);
                if (!damage.empty()) checker_->Broken("a task's blobs are gone");
                const bool away = settings_.shared && IsWorthAnotherTry(reply.status());
                if (!reply.ok() && !away) {
                  checker_->Broken(absl::StrCat("no reply: ", reply.status().ToString()));
                }
                if (reply.ok()) {
                  // As it is read at the other end.
                  const std::string bytes = CanonicalBytes(*reply);
                  if (!reply->ParseFromString(bytes)) checker_->Fail("a reply cannot be read");
                  store_->Note(bytes);
                }
                for (const Grant& lease : std::get<SynchronizeAnswer>(*answer).start) {
                  checker_->Granted(lease.task_id, lease.fence, handled_ms);
                }
                Send(done, std::move(reply));
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
         Send<v1::Run>(done, run);
       });
}

void PlannerHost::List(Done<v1::ListReply> done) {
  ListTasks first;
  first.page_tasks = 1;
  Call("", first, {}, [this, done](absl::StatusOr<Reply> answer, int64_t) {
    if (!answer.ok()) return done(answer.status());
    Send<v1::ListReply>(done, std::get<v1::ListReply>(*answer));
  });
}

void PlannerHost::Command(planner::Command command, Heard done) {
  Call("", std::move(command), {},
       [done](const absl::StatusOr<Reply>& answer, int64_t) { done(answer.status()); });
}

// It says something, and must be the one to say it.
void PlannerHost::CheckMayAnswer() {
  if (!settings_.shared) return;
  if (store_->history() == StoreHost::History::kStale) {
    if (led_ms_ > store_->stale_ms()) checker_->Fail(address() + " answers from a stale copy");
  } else if (store_->epoch() != epoch_ && led_ms_ >= store_->stale_ms()) {
    checker_->Fail(absl::StrCat(address(), " leads since epoch ", epoch_, " and answers in epoch ",
                                store_->epoch()));
  }
}

void PlannerHost::HandOut() {
  std::vector<Write> writes = service_->TakeWrites();
  std::move(writes.begin(), writes.end(), std::back_inserter(writes_));
  service_->TakeViews();  // nobody draws boards here
  if (!service_->lost().ok()) return GiveUp(service_->lost());
  const std::vector<Answer> answers = service_->TakeAnswers();
  const absl::Status may = role_->MayAnswer(PlannersNow().monotonic_ms);
  for (const Answer& answer : answers) {
    auto node = waiting_.extract(answer.call);
    if (node.empty()) {
      checker_->Fail(absl::StrCat("call ", answer.call, " is answered twice"));
      continue;
    }
    if (may.ok() && answer.reply.ok()) CheckMayAnswer();
    counts_.untold += !may.ok();
    node.mapped().finish(may.ok() ? answer.reply : may, node.mapped().handled_ms);
  }
  if (!writes_.empty() && !commit_scheduled_)
    ScheduleCommit(world_->Between(int64_t{0}, int64_t{30}));
}

// ---- who leads ----------------------------------------------------------------------------------

// A message that is on its way comes there, whatever becomes of who sent it.
template <typename Result>
void PlannerHost::Ask(std::function<Result(store::Leadership&)> ask,
                      std::function<void(Result, int64_t sent_ms)> take) {
  const int64_t sent_ms = PlannersNow().monotonic_ms;
  const int64_t there_ms = OneWay(), back_ms = OneWay();
  const bool late = there_ms + back_ms > kStandingLimitMs;
  world_->After(there_ms, [this, ask = std::move(ask), take, sent_ms, there_ms, back_ms, late,
                           link = link_, generation = generation_] {
    Result result = ask(link->faulty);
    if (generation != generation_) return;
    if (still_at_answer_ms_ > 0) StandStill(std::exchange(still_at_answer_ms_, 0));
    if (late) return;
    const int64_t wait_ms = NoAnswer(result) ? kStandingLimitMs - there_ms : back_ms;
    InProcess(wait_ms, [take, sent_ms, result = std::move(result)] { take(result, sent_ms); });
  });
  if (!late) return;
  store_failed_ms_ = world_->now_ms() + kStandingLimitMs;
  InProcess(kStandingLimitMs,
            [take, sent_ms] { take(absl::DeadlineExceededError("too late"), sent_ms); });
}

void PlannerHost::Go(Candidacy::Next next) {
  if (leaving_) return;
  switch (next) {
    case Candidacy::kLook:
      return InProcess(absl::ToInt64Milliseconds(kBetweenLooks), [this] {
        Ask<absl::StatusOr<store::Standing>>(
            [](store::Leadership& leadership) { return leadership.Look(); },
            [this](const absl::StatusOr<store::Standing>& standing, int64_t) {
              InPlanner([this, standing, now_ms = PlannersNow().monotonic_ms] {
                Go(candidacy_->Looked(standing, now_ms));
              });
            });
      });
    case Candidacy::kTakeOver:
      if (still_at_takeover_ms_ > 0) {
        StandStill(std::exchange(still_at_takeover_ms_, 0));
        return InProcess(0, [this] { Go(Candidacy::kTakeOver); });
      }
      return Ask<absl::StatusOr<int64_t>>(
          [this, seen = candidacy_->seen()](store::Leadership& leadership) {
            absl::StatusOr<int64_t> epoch = leadership.LeadAfter(seen, address());
            store_->Moved();
            return epoch;
          },
          [this](const absl::StatusOr<int64_t>& epoch, int64_t asked_ms) {
            InPlanner([this, epoch, asked_ms] {
              if (!leaving_) Go(candidacy_->TookOver(epoch, asked_ms));
            });
          });
    case Candidacy::kBeat:
      return InProcess(absl::ToInt64Milliseconds(kBetweenBeats), [this] {
        if (!candidacy_->MayBeat(PlannersNow().monotonic_ms)) return Go(Candidacy::kBeat);
        if (candidacy_->Doubts(PlannersNow().monotonic_ms)) {
          return Ask<absl::StatusOr<store::Standing>>(
              [](store::Leadership& leadership) { return leadership.Look(); },
              [this](const absl::StatusOr<store::Standing>& standing, int64_t) {
                Go(candidacy_->LookedAgain(standing));
              });
        }
        Ask<absl::Status>(
            [this, epoch = candidacy_->epoch()](store::Leadership& leadership) {
              absl::Status moved = leadership.Beat(epoch, address());
              if (!store::IsStaleEpoch(moved)) store_->Moved();
              return moved;
            },
            [this](const absl::Status& moved, int64_t sent_ms) {
              Go(candidacy_->Beaten(moved, sent_ms));
            });
      });
    case Candidacy::kDeposed:
      return BeginAnew(candidacy_->why());
    case Candidacy::kFatal:
      return GiveUp(candidacy_->why());
  }
}

absl::Status PlannerHost::CatchUp(const store::Standing& standing) {
  role_->Name(standing.leader);
  alive_ms_ = PlannersNow().monotonic_ms;
  return planner::CatchUp(*service_, link_->faulty, standing);
}

absl::Status PlannerHost::Lead(int64_t epoch, int64_t asked_ms) {
  const absl::StatusOr<int64_t> last = link_->faulty.LastRevision();
  if (!last.ok()) return last.status();
  writer_ = std::make_shared<Writer>(&link_->faulty, epoch, *last);
  if (absl::Status led = TakeOver(*service_, link_->faulty, PlannersNow()); !led.ok()) return led;
  alive_ms_ = PlannersNow().monotonic_ms;
  role_->Lead(asked_ms);
  epoch_ = epoch;
  led_ms_ = world_->now_ms();
  ++counts_.takeovers;
  counts_.rivals += another_leads_(this);
  if (store_->epoch() == epoch) checker_->Deaf(world_->now_ms(), /*long_enough=*/true);
  world_->Trace(absl::StrCat(address(), " leads, epoch ", epoch, ", at revision ",
                             service_->core().state().revision()));
  return absl::OkStatus();
}

// ---- the store ----------------------------------------------------------------------------------

void PlannerHost::LoseStore(int64_t until_ms) {
  ++counts_.away;
  store_away_until_ms_ = until_ms;
  world_->Trace(address() + " does not reach the store");
}

void PlannerHost::SlowStore(int64_t until_ms) {
  ++counts_.slow;
  store_slow_until_ms_ = until_ms;
  world_->Trace(address() + " reaches the store slowly");
}

store::Fault PlannerHost::Plan(absl::string_view call) {
  const bool commit = call == "Commit";
  if (settings_.shared && world_->now_ms() < store_away_until_ms_) {
    return world_->Chance(0.5) ? store::Fault::kUnavailable : store::Fault::kTimeout;
  }
  const bool standing = call == "Look" || call == "Beat" || call == "LeadAfter";
  if (standing && world_->now_ms() < standing_away_until_ms_) return store::Fault::kTimeout;
  if (commit && store_->full()) return store::Fault::kUnavailable;
  double unanswered = commit ? faults_->unanswered : 0;
  if (settings_.shared && call == "Look") unanswered = kLooksShare * faults_->unanswered;
  if (settings_.shared && (call == "Beat" || call == "LeadAfter" || call == "SaveCheckpoint")) {
    unanswered = kOthersShare * faults_->unanswered;
  }
  if (unanswered == 0 && !commit) return store::Fault::kNone;
  if (!world_->Chance(unanswered)) return store::Fault::kNone;
  if (!commit) store_failed_ms_ = world_->now_ms();
  // A checkpoint that is not saved is tried again with the next commit, and what it archives is not
  // found until then.
  return call == "SaveCheckpoint" || world_->Chance(0.5) ? store::Fault::kExecutedTimeout
                                                         : store::Fault::kTimeout;
}

int64_t PlannerHost::OneWay() {
  return world_->now_ms() < store_slow_until_ms_ ? world_->Between(int64_t{0}, kSlowestMs)
                                                 : world_->Between(int64_t{0}, int64_t{3});
}

void PlannerHost::ScheduleCommit(int64_t pause_ms) {
  commit_scheduled_ = true;
  world_->After(pause_ms, [this, generation = generation_] {
    if (generation != generation_) return;
    InPlanner([this] { settings_.shared ? SendCommit() : Commit(); });
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
  TakeBatch();
  const absl::Status status = writer_->Commit(batch_);
  store_->TellChecker();
  Committed(status);
}

// It comes there, whatever becomes of who sent it: at times when the same batch was sent again, or
// when another one leads.
void PlannerHost::SendCommit() {
  TakeBatch();
  const int64_t there_ms = OneWay(), back_ms = OneWay();
  const bool late = there_ms + back_ms > kCommitLimitMs;
  const std::shared_ptr<Writer> writer = late ? std::make_shared<Writer>(*writer_) : writer_;
  world_->After(there_ms, [this, writer, there_ms, back_ms, late, link = link_,
                           batch = std::make_shared<const std::vector<Write>>(batch_),
                           generation = generation_] {
    const absl::Status status = writer->Commit(*batch);
    store_->TellChecker();
    counts_.refused += store::IsStaleEpoch(status);
    if (late || generation != generation_) return;
    InProcess(NoAnswer(status) ? kCommitLimitMs - there_ms : back_ms,
              [this, status] { InPlanner([this, status] { Committed(status); }); });
  });
  if (!late) return;
  InProcess(kCommitLimitMs,
            [this] { InPlanner([this] { Committed(absl::DeadlineExceededError("too late")); }); });
}

void PlannerHost::Committed(const absl::Status& status) {
  commit_scheduled_ = false;
  if (IsWorthAnotherTry(status)) {
    if (++commit_failures_ == kFailuresOfAStall) service_->Stalled(status);
    if (IsLeader()) checker_->Deaf(world_->now_ms(), /*long_enough=*/false);
    return ScheduleCommit(world_->Between(int64_t{50}, int64_t{1000}));
  }
  commit_failures_ = 0;
  if (settings_.shared && store::IsStaleEpoch(status)) return BeginAnew(status);
  if (absl::IsDataLoss(status)) return GiveUp(status);
  if (!status.ok()) return checker_->Fail(absl::StrCat("a commit is refused: ", status.ToString()));
  service_->Saved(writer_->saved());
  service_->Durable(batch_.back().number);
  batch_.clear();
}

}  // namespace warpsmith::planner::simulation
