#include "planner/service/planner.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/memory.h"
#include "common/problem/task_name.h"
#include "planner/board/edit.h"
#include "planner/service/board_edits.h"
#include "planner/service/convert.h"
#include "planner/service/log.h"
#include "planner/service/replies.h"

namespace warpsmith::planner {
namespace {

ServiceOptions ForService(const PlannerOptions& options) {
  ServiceOptions service{.core = options.core,
                         .events_per_checkpoint = options.events_per_checkpoint,
                         .board = !options.board_path.empty()};
  service.observer = [metrics = options.metrics](absl::Span<const v1::Event> events,
                                                 const State& state) {
    TellDecided(events, state);
    if (metrics == nullptr) return;
    for (const v1::Event& event : events) metrics->Decided(event, state);
  };
  return service;
}

static_assert(std::size(kMethods) == std::variant_size_v<Command>);

// Ends a call whose answer of type T is part of a reply of type R.
template <typename R, typename T, typename Fill>
auto Filling(std::function<void(absl::StatusOr<R>)> done, Fill fill) {
  return [done = std::move(done), fill](absl::StatusOr<Reply> answer) {
    if (!answer.ok()) return done(answer.status());
    R reply;
    fill(std::get<T>(*std::move(answer)), reply);
    done(std::move(reply));
  };
}

// A page that is there is of this store's history, or of none: what another store knew would be
// written over, and a database that was taken away is best noticed now.
absl::Status CheckBoard(const std::string& path, const std::string& store_token) {
  const absl::StatusOr<std::string> page = base::ReadFile(path);
  if (!page.ok()) return absl::OkStatus();  // none is there yet, or writing it will say what is
  const auto id_of = [](const std::string& token) { return token.substr(0, token.find('.')); };
  const std::string theirs = id_of(board::StoreOf(*page)), ours = id_of(store_token);
  if (theirs.empty() || theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "'", path, "' is the board of the store ", theirs, ", and the one in its folder is ", ours,
      ": the database was removed or replaced. Put it back, or move the board ",
      "away to go on with this one"));
}

constexpr char kSynchronize[] = "/warpsmith.v1.WorkerService/Synchronize";
constexpr char kSubmit[] = "/warpsmith.v1.PlannerService/Submit";
constexpr char kSetTask[] = "/warpsmith.v1.PlannerService/SetTask";
constexpr char kCancelRun[] = "/warpsmith.v1.PlannerService/CancelRun";
constexpr char kSetPriority[] = "/warpsmith.v1.PlannerService/SetPriority";

// The submitter whose runs alone the caller may change; "": it may change all.
std::string OnlyOf(const security::Caller& caller, const char* method) {
  return security::IsOwnOnly(caller, method) ? caller.name : "";
}

// Edits of one page that are told each by itself, where they were done; and those that are
// remembered, of all pages.
constexpr int kMostToldDone = 5;
constexpr size_t kMaxDone = 10'000;

}  // namespace

// A page that somebody has changed, and what becomes of it. Of the board's thread.
struct Planner::Heeding {
  absl::Time at;
  board::Edited edited;
  size_t left = 0;  // commands under way
  std::vector<std::pair<board::Edit, absl::Status>> outcomes;
  std::vector<board::Unread> unread;
};

Planner::Planner(store::Store* store, const PlannerOptions& options, Clock clock, uint64_t seed,
                 Committer::OnFatal on_fatal)
    : store_(store),
      options_(options),
      clock_(std::move(clock)),
      on_fatal_(std::move(on_fatal)),
      service_(ForService(options), seed),
      lender_(store),
      file_(options_.board_path),
      collector_(store, options.collector, options.metrics),
      drawing_("board", kMaxQueuedCalls, Executor::Priority::kLow),
      collecting_("collector", kMaxQueuedCalls),
      background_("background", kMaxQueuedCalls),
      strand_("core", kMaxQueuedCalls) {
  if (options_.metrics == nullptr) return;
  options_.metrics->Allow(
      {.workers = options_.core.max_workers, .tasks = kMaxTasks, .uncommitted = kMaxUncommitted});
}

absl::Status Planner::BeginWriting(int64_t epoch) {
  absl::StatusOr<int64_t> last = store_->LastRevision();
  if (!last.ok()) return last.status();
  absl::StatusOr<store::Identity> identity = store_->Identify();
  if (!identity.ok()) return identity.status();
  if (!identity->upgraded) {
    spdlog::info(
        "the store is of a version before, which can be gone back to: until `warpsmith upgrade "
        "finish` {}",
        identity->archives ? "what is large goes through the database, too"
                           : "runs that are over stay, and what submitters have used is not "
                             "remembered over a restart");
  }
  committer_ = std::make_unique<Committer>(
      Writer(store_, epoch, *last, identity->archives),
      Committer::Callbacks{
          .on_durable =
              [this](int64_t number) { OnStrand([this, number] { service_.Durable(number); }); },
          .on_stalled =
              [this](const absl::Status& status) {
                OnStrand([this, status] { service_.Stalled(status); });
              },
          .on_fatal = on_fatal_,
          .on_saved =
              [this](int64_t revision) {
                OnStrand([this, revision] { service_.Saved(revision); });
              },
          .on_failed = options_.metrics == nullptr ? std::function<void()>()
                                                   : [this] { options_.metrics->CommitFailed(); },
          .on_committed =
              options_.metrics == nullptr
                  ? std::function<void(absl::Duration, size_t)>()
                  : [this](absl::Duration took,
                           size_t events) { options_.metrics->Committed(took, events); }});
  epoch_ = epoch;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Planner>> Planner::Start(store::Store* store,
                                                        const PlannerOptions& options, Clock clock,
                                                        Committer::OnFatal on_fatal) {
  absl::StatusOr<int64_t> epoch = store->Lead();
  if (!epoch.ok()) return epoch.status();
  std::unique_ptr<Planner> planner(new Planner(store, options, std::move(clock),
                                               static_cast<uint64_t>(*epoch), std::move(on_fatal)));
  const absl::Status started = planner->OnStrandNow([&]() -> absl::Status {
    if (absl::Status status = planner->BeginWriting(*epoch); !status.ok()) return status;
    return planner->service_.Load(*store, planner->clock_());
  });
  if (!started.ok()) return started;
  if (absl::Status status = planner->BeginDrawing(); !status.ok()) return status;
  planner->role_.LeadAlone();
  planner->Report();
  return planner;
}

absl::StatusOr<std::unique_ptr<Planner>> Planner::Follow(store::Store* store,
                                                         const PlannerOptions& options, Clock clock,
                                                         Committer::OnFatal on_fatal) {
  std::random_device random;
  std::unique_ptr<Planner> planner(
      new Planner(store, options, std::move(clock), random(), std::move(on_fatal)));
  const absl::Status followed =
      planner->OnStrandNow([&] { return planner->service_.Follow(*store, /*checkpoint=*/0); });
  if (!followed.ok()) return followed;
  if (absl::Status status = planner->BeginDrawing(); !status.ok()) return status;
  planner->role_.Follow();
  planner->drawing_.PostAlways([drawer = planner.get()] { drawer->WriteBoard(); });
  telemetry::Log(told::kCaughtUp, {{"revision", planner->service_.core().state().revision()}});
  return planner;
}

absl::Status Planner::CatchUp(const store::Standing& standing) {
  role_.Name(standing.leader);
  return OnStrandNow([&] { return planner::CatchUp(service_, *store_, standing); });
}

absl::Status Planner::Lead(int64_t epoch, int64_t asked_ms) {
  const absl::Status led = OnStrandNow([&]() -> absl::Status {
    if (absl::Status status = BeginWriting(epoch); !status.ok()) return status;
    return TakeOver(service_, *store_, clock_());
  });
  if (!led.ok()) return led;
  role_.Lead(asked_ms);
  Report();
  return led;
}

// Who could not start has nothing to leave: its board would be an empty page.
absl::Status Planner::BeginDrawing() {
  const std::string& token = service_.core().store();
  if (!options_.board_path.empty()) {
    if (absl::Status status = CheckBoard(options_.board_path, token); !status.ok()) return status;
  }
  absl::Notification drawn;
  drawing_.PostAlways([&] {
    picture_.BeOf(token);
    file_.Begin();
    may_write_board_ = true;
    for (const std::string& kept : file_.Kept()) {
      picture_.Report(absl::StrCat("of before: '", kept, "' has a page that somebody changed, of ",
                                   "which something was not done, or may not have been; remove it ",
                                   "when it is not wanted"));
    }
    drawn.Notify();
  });
  drawn.WaitForNotification();
  return OnStrandNow([] { return absl::OkStatus(); });  // what there is to draw is handed out
}

void Planner::Report() const {
  const State& state = service_.core().state();
  telemetry::Log(told::kRestored, {{"revision", state.revision()},
                                   {"checkpoint", service_.saved_revision()},
                                   {"runs", state.runs().size()},
                                   {"tasks", state.tasks().size()},
                                   {"workers", state.LiveWorkers()}});
}

absl::Status Planner::OnStrandNow(const std::function<absl::Status()>& action) {
  absl::Status result;
  absl::Notification done;
  const bool posted = OnStrand([&] {
    result = action();
    alive_ms_ = clock_().monotonic_ms;
  });
  if (!posted) return Leaving();
  strand_.PostAlways([&] { done.Notify(); });
  done.WaitForNotification();
  return result;
}

Planner::~Planner() { Stop(); }

bool Planner::OnStrand(std::function<void()> action, bool always) {
  auto with_effects = [this, action = std::move(action)] {
    action();
    HandOut();
  };
  return always ? strand_.PostAlways(std::move(with_effects)) : strand_.Post(with_effects);
}

void Planner::Call(int64_t call, Command command, Contents contents, Finish finish) {
  PlannerMetrics* const metrics = options_.metrics;
  if (metrics != nullptr) {
    finish = [metrics, method = command.index(),
              finish = std::move(finish)](absl::StatusOr<Reply> reply) {
      metrics->Answered(method, reply.status());
      finish(std::move(reply));
    };
  }
  if (draining_) return finish(Leaving());  // the strand may be gone already
  if (!role_.leads()) {
    return finish(role_.Following(std::holds_alternative<planner::Synchronize>(command)));
  }
  // In one piece, which the strand's copies of its action share.
  struct Held {
    Command command;
    Contents contents;
    Finish finish;
    base::Instant came;
  };
  const auto held =
      std::make_shared<Held>(Held{std::move(command), std::move(contents), std::move(finish),
                                  metrics == nullptr ? base::Instant() : base::Now()});
  const bool posted = OnStrand(
      [this, call, held, metrics] {
        if (metrics != nullptr) metrics->TookUp(base::Now() - held->came);
        if (absl::Status may = MayAnswer(); !may.ok()) return held->finish(may);
        finishes_[call] = std::move(held->finish);
        service_.Handle(call, std::move(held->command), std::move(held->contents), clock_());
      },
      /*always=*/false);
  if (!posted) held->finish(draining_ ? Leaving() : TooBusy(kQueueRetry));
}

void Planner::HandOut() {
  if (!service_.lost().ok()) return on_fatal_(service_.lost());
  for (Write& write : service_.TakeWrites()) committer_->Enqueue(std::move(write));
  for (View& view : service_.TakeViews()) Take(std::move(view));
  std::vector<planner::Answer> answers = service_.TakeAnswers();
  if (answers.empty()) return;
  const absl::Status may = MayAnswer();
  for (planner::Answer& answer : answers) {
    auto node = finishes_.extract(answer.call);
    if (!node.empty()) node.mapped()(may.ok() ? std::move(answer.reply) : may);
  }
}

// ---- workers -----------------------------------------------------------------------------------

void Planner::Synchronize(int64_t call, const security::Caller& caller,
                          const v1::SynchronizeRequest& request, Done<v1::SynchronizeReply> done) {
  const bool own_only = security::IsOwnOnly(caller, kSynchronize);
  if (own_only && !security::IsWorkerOf(caller.name, request.worker().id())) {
    return done(absl::PermissionDeniedError(absl::StrCat(
        security::Describe(caller), " may not speak as worker '", request.worker().id(),
        "': start it with --name ", caller.name, ", or ", caller.name, "-cuda0 and so on")));
  }
  Contents contents;
  absl::StatusOr<planner::Synchronize> command = ToCommand(request, contents);
  if (!command.ok()) return done(command.status());
  if (own_only) command->owner.set_certificate(caller.name);
  Call(call, *std::move(command), std::move(contents), [this, done](absl::StatusOr<Reply> answer) {
    if (!answer.ok()) return done(answer.status());
    Answer(std::get<SynchronizeAnswer>(*std::move(answer)), done);
  });
}

void Planner::Answer(SynchronizeAnswer answer, const Done<v1::SynchronizeReply>& done) {
  const bool starts = !answer.start.empty();
  auto reply = [this, answer = std::move(answer), done] {
    Damage damage;
    done(lender_.Reply(answer, damage));
    // It is nobody's work until a person has seen to the store.
    for (const auto& [task_id, status] : damage) HoldDamaged(task_id, status);
  };
  // Leases are read from the store.
  if (starts) {
    background_.PostAlways(std::move(reply));
  } else {
    reply();
  }
}

void Planner::HoldDamaged(const std::string& task_id, const absl::Status& damage) {
  const std::string reason = absl::StrCat("the store is damaged: ", damage.message());
  telemetry::Log(told::kDamaged,
                 {{"task", task_id}, {"reason", reason}, {"run", problem::RunOf(task_id)}});
  Call(NewCall(), planner::SetTask{task_id, v1::HELD, reason, ""}, {},
       [](const absl::StatusOr<Reply>&) {});
}

void Planner::CheckNext() {
  const std::map<std::string, v1::TaskRecord>& tasks = service_.core().state().tasks();
  if (tasks.empty()) return;
  auto next = tasks.upper_bound(checked_);
  if (next == tasks.end()) next = tasks.begin();
  checked_ = next->first;
  const v1::Task& task = next->second.task();
  // Of others it changes nothing: a worker's next kernel takes the place of a damaged one, and what
  // is held, has failed or was cancelled is given to nobody.
  if (task.state() != v1::QUEUED && task.state() != v1::CONVERGED) return;
  drawing_.Post(
      [this, id = task.id(), problem = task.problem_blob(), kernel = task.incumbent_blob()] {
        for (const std::string& blob : {problem, kernel}) {
          if (blob.empty()) continue;
          const absl::Status read = store_->Get(blob).status();
          if (absl::IsDataLoss(read)) return HoldDamaged(id, read);
        }
      });
}

void Planner::Cancel(int64_t call) {
  OnStrand([this, call] { service_.Cancel(call); });
}

// ---- people ------------------------------------------------------------------------------------

void Planner::Submit(const security::Caller& caller, const v1::SubmitRequest& request,
                     Done<v1::SubmitReply> done) {
  const std::string only_of = OnlyOf(caller, kSubmit);
  if (!only_of.empty() && !request.submitter().empty() && request.submitter() != only_of) {
    return done(absl::PermissionDeniedError(
        absl::StrCat(security::Describe(caller), " may not submit for '", request.submitter(),
                     "': leave --submitter out")));
  }
  if (!only_of.empty() && request.weight() != 0) {
    return done(absl::PermissionDeniedError(
        absl::StrCat(security::Describe(caller),
                     " may not say its own weight among others: an operator does, by submitting "
                     "something with --submitter ",
                     only_of, " --weight")));
  }
  // Validating thousands of graphs takes its time, so it is done in the background first.
  const bool posted = background_.Post([this, request, only_of, done] {
    Contents contents;
    absl::StatusOr<planner::Submit> command = ToCommand(request, contents);
    if (!command.ok()) return done(command.status());
    if (!only_of.empty()) command->submitter = only_of;
    Call(NewCall(), *std::move(command), std::move(contents),
         Filling<v1::SubmitReply, v1::Run>(
             done, [](v1::Run run, v1::SubmitReply& reply) { *reply.mutable_run() = run; }));
  });
  if (!posted) done(TooBusy(kQueueRetry));
}

void Planner::SetTask(const security::Caller& caller, const v1::SetTaskRequest& request,
                      Done<v1::SetTaskReply> done) {
  Call(NewCall(),
       planner::SetTask{request.task_id(), request.state(), request.reason(),
                        OnlyOf(caller, kSetTask)},
       {}, Filling<v1::SetTaskReply, v1::Task>(done, [](v1::Task task, v1::SetTaskReply& reply) {
         *reply.mutable_task() = task;
       }));
}

void Planner::CancelRun(const security::Caller& caller, const v1::CancelRunRequest& request,
                        Done<v1::CancelRunReply> done) {
  Call(NewCall(),
       planner::CancelRun{request.run_id(), request.reason(), OnlyOf(caller, kCancelRun)}, {},
       Filling<v1::CancelRunReply, v1::CancelRunReply>(
           done, [](v1::CancelRunReply answer, v1::CancelRunReply& reply) { reply = answer; }));
}

void Planner::SetPriority(const security::Caller& caller, const v1::SetPriorityRequest& request,
                          Done<v1::SetPriorityReply> done) {
  planner::SetPriority command{request.run_id(), std::nullopt, request.reason(),
                               OnlyOf(caller, kSetPriority)};
  if (request.has_priority()) command.priority = request.priority();
  Call(NewCall(), std::move(command), {},
       Filling<v1::SetPriorityReply, v1::Run>(
           done, [](v1::Run run, v1::SetPriorityReply& reply) { *reply.mutable_run() = run; }));
}

void Planner::HoldWorker(const v1::HoldWorkerRequest& request, Done<v1::HoldWorkerReply> done) {
  Call(NewCall(), planner::HoldWorker{request.worker_id(), request.reason()}, {},
       Filling<v1::HoldWorkerReply, v1::WorkerInfo>(
           done, [](v1::WorkerInfo worker, v1::HoldWorkerReply& reply) {
             *reply.mutable_worker() = worker;
           }));
}

void Planner::ReleaseWorker(const v1::ReleaseWorkerRequest& request,
                            Done<v1::ReleaseWorkerReply> done) {
  Call(NewCall(), planner::ReleaseWorker{request.worker_id(), request.reason()}, {},
       Filling<v1::ReleaseWorkerReply, v1::WorkerInfo>(
           done, [](v1::WorkerInfo worker, v1::ReleaseWorkerReply& reply) {
             *reply.mutable_worker() = worker;
           }));
}

void Planner::List(const v1::ListRequest& request, Done<v1::ListReply> done) {
  if (request.page_tasks() < 0) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("pages of ", request.page_tasks(), " tasks: give 1 or more, or 0 for all")));
  }
  const ListTasks command{request.run_id(), request.page_tasks(), request.after_task(),
                          request.archived()};
  Call(NewCall(), command, {}, [this, done](absl::StatusOr<Reply> answer) {
    if (!answer.ok()) return done(answer.status());
    if (auto* list = std::get_if<v1::ListReply>(&*answer)) return done(std::move(*list));
    background_.PostAlways([this, done, archive = std::get<ArchiveAnswer>(*std::move(answer))] {
      v1::ListReply reply = archive.reply;
      const absl::Status read = AddArchived(archive.list, *store_, reply);
      done(read.ok() ? absl::StatusOr<v1::ListReply>(std::move(reply)) : read);
    });
  });
}

void Planner::GetTask(const v1::GetTaskRequest& request, Done<v1::GetTaskReply> done) {
  Call(NewCall(), planner::GetTask{request.task_id(), request.with_trials()}, {},
       [this, done](absl::StatusOr<Reply> answer) {
         if (!answer.ok()) return done(answer.status());
         background_.PostAlways([this, done, task = std::get<TaskAnswer>(*std::move(answer))] {
           if (!task.archived) return done(MakeReply(task.task, task.with_trials, *store_));
           absl::StatusOr<v1::Task> archived = ArchivedTask(task.task.id(), *store_);
           if (!archived.ok()) return done(archived.status());
           done(MakeReply(*archived, task.with_trials, *store_));
         });
       });
}

void Planner::GetBoard(Done<v1::GetBoardReply> done) {
  Call(NewCall(), planner::GetBoard{}, {}, [this, done](const absl::StatusOr<Reply>& answer) {
    if (!answer.ok()) return done(answer.status());
    drawing_.PostAlways([this, done] {
      v1::GetBoardReply reply;
      picture_.BeCopy(!role_.leads());
      reply.set_markdown(board::Render(picture_));
      reply.set_path(options_.board_path);
      reply.set_revision(picture_.revision());
      done(std::move(reply));
    });
  });
}

void Planner::Take(View view) {
  drawing_.PostAlways([this, view = std::move(view)]() mutable {
    picture_.Take(*view.changes);
    if (options_.metrics != nullptr) options_.metrics->Changed(*view.changes, base::Now());
    if (options_.on_view) options_.on_view(view);
    const bool many = view.changes->records.tasks_size() >= kManyTasks;
    view.changes = nullptr;
    if (many) base::ReturnFreedMemory();
    if (view.progress.has_value()) picture_.Show(*view.progress);
    if (view.draw) WriteBoard();
    if (view.draw && options_.metrics != nullptr) options_.metrics->Drawn(picture_);
  });
}

void Planner::WriteBoard() {
  if (options_.board_path.empty() || !may_write_board_) return;
  picture_.BeCopy(!role_.leads());
  std::string page = board::Render(picture_);
  if (page == board_) return;
  const absl::Status status = file_.Write(page);
  const bool edited = absl::IsAborted(status);  // what was written there goes first
  if (status.ok()) {
    board_ = std::move(page);
  } else {
    if (!board_failed_ && !edited) {
      telemetry::Log(told::kBoardFailed, {{"reason", status.ToString()}});
    }
    OnStrand([this] { service_.BoardFailed(); });
  }
  board_failed_ = !status.ok() && !edited;
}

void Planner::LookAtBoard(base::Instant now) {
  looks_ = false;
  if (options_.board_path.empty() || draining_) return;  // whoever starts next reads it
  std::optional<board::Edited> edited = file_.Take(now);
  if (!edited.has_value()) return;
  // There is a page again, whatever becomes of what was written on this one.
  board_.clear();
  WriteBoard();
  Heed(*std::move(edited));
}

void Planner::Heed(board::Edited edited) {
  const auto heeding = std::make_shared<Heeding>();
  heeding->at = absl::Now();
  heeding->edited = std::move(edited);
  const absl::StatusOr<std::string>& page = heeding->edited.page;
  const auto leave = [&](std::string why) { heeding->unread.push_back({0, "", std::move(why)}); };
  board::Edits edits;
  if (!page.ok()) {
    leave(std::string(page.status().message()));
  } else if (!role_.leads() || board::IsCopy(*page)) {
    leave(
        "this page was a copy, or is one now: write it on the board of the planner that leads, or "
        "with `warpsmith board edit`");
  } else {
    edits = board::ReadEdits(*page, heeding->edited.base);
    heeding->unread = std::move(edits.unread);
    if (heeding->edited.base.empty() && heeding->unread.empty()) {
      leave(
          "the page that was changed is of long ago, or of before a restart: verbs in state cells "
          "alone were read");
    }
  }
  heeding->left = edits.edits.size();
  if (heeding->left == 0) return EndHeeding(*heeding);
  for (const board::Edit& edit : edits.edits) {
    const auto end = [this, heeding, edit](const absl::Status& outcome) {
      heeding->outcomes.emplace_back(edit, outcome);
      if (--heeding->left == 0) EndHeeding(*heeding);
    };
    // A buffer that is saved again has the verbs of before in it.
    std::string named = absl::StrCat(board::EndOf(*page), " ", Describe(edit), ": ", edit.reason);
    if (done_.count(named) > 0) {
      end(absl::AlreadyExistsError("it was done when this page was saved before"));
      continue;
    }
    absl::StatusOr<Command> command = CommandOf(edit, picture_);
    if (!command.ok()) {
      end(command.status());
      continue;
    }
    Call(NewCall(), *std::move(command), {},
         [this, edit, named, end](const absl::StatusOr<Reply>& reply) {
           drawing_.PostAlways([this, named, end, outcome = OutcomeOf(edit, reply)] {
             if (outcome.ok()) done_.insert(named);
             if (done_.size() > kMaxDone) done_.erase(done_.begin());
             end(outcome);
           });
         });
  }
}

// What went wrong comes last, so that it stands first.
void Planner::EndHeeding(const Heeding& heeding) {
  int done = 0;
  for (const auto& [edit, outcome] : heeding.outcomes) {
    if (!outcome.ok()) continue;
    const std::string line = ReportOf(edit, outcome, heeding.at);
    ++done <= kMostToldDone ? Report(line) : telemetry::Log(told::kBoard, {{"text", line}});
  }
  if (done > kMostToldDone) {
    Report(absl::StrCat(done - kMostToldDone, " more of the same page were done"));
  }
  bool complete = heeding.unread.empty();
  for (const auto& [edit, outcome] : heeding.outcomes) {
    complete &= outcome.ok() || absl::IsAlreadyExists(outcome);
    if (!outcome.ok()) Report(ReportOf(edit, outcome, heeding.at));
  }
  for (const board::Unread& unread : heeding.unread) Report(ReportOf(unread, heeding.at));
  if (complete) {
    file_.Discard(heeding.edited);
  } else {
    Report(
        ReportOf(board::Unread{0, "", "the whole page is in " + heeding.edited.kept}, heeding.at));
  }
  WriteBoard();
}

void Planner::Report(std::string line) {
  telemetry::Log(told::kBoard, {{"text", line}});
  picture_.Report(std::move(line));
}

// ---- time and the end --------------------------------------------------------------------------

void Planner::Tick() {
  if (!looks_.exchange(true)) {
    const base::Instant now(absl::Milliseconds(clock_().monotonic_ms));
    drawing_.PostAlways([this, now] { LookAtBoard(now); });
  }
  if (!role_.leads()) return;
  OnStrand(
      [this] {
        alive_ms_ = clock_().monotonic_ms;
        // It hears nobody meanwhile, and no silence of then counts.
        const bool may = MayAnswer().ok();
        if (may) service_.Tick(clock_());
        if (may) CheckNext();
        if (may) Collect();
        CountStanding(may);
      },
      /*always=*/false);
}

void Planner::Collect() {
  if (collects_.exchange(true)) return;
  const absl::Time now = absl::FromUnixMillis(clock_().unix_ms);
  collecting_.PostAlways([this, epoch = epoch_, now] {
    collector_.Step(epoch, now);
    collects_ = false;
  });
}

void Planner::CountStanding(bool may_answer) {
  if (options_.metrics == nullptr) return;
  options_.metrics->Ticked({.leads = role_.leads() && may_answer,
                            .epoch = epoch_,
                            .revision = service_.core().state().revision(),
                            .checkpoint_revision = service_.saved_revision(),
                            .parked = service_.parked(),
                            .uncommitted = service_.uncommitted()});
}

void Planner::Release() {
  if (role_.leads()) OnStrand([this] { service_.Release(clock_()); });
}

void Planner::Drain() {
  draining_ = true;
  OnStrand([this] { service_.Drain(); });
}

void Planner::Stop() {
  if (std::exchange(stopped_, true)) return;
  Drain();
  absl::Notification last_is_written;
  if (role_.leads()) OnStrand([this] { service_.End(); });
  strand_.PostAlways([&] { last_is_written.Notify(); });
  last_is_written.WaitForNotification();
  // Each hands on to the next: whatever is under way is answered.
  if (committer_ != nullptr) committer_->Stop();
  strand_.Stop();
  collector_.Stop();
  collecting_.Stop();
  background_.Stop();
  drawing_.Stop();
}

}  // namespace warpsmith::planner
