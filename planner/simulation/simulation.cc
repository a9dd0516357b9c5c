#include "planner/simulation/simulation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/problem/worker_state.h"

namespace warpsmith::planner::simulation {
namespace {

constexpr int64_t kLimitMs = 20'000'000;  // from when faults stop: by then all must be at rest
constexpr int64_t kTickMs = 1000;
constexpr int kTasksPerSet = 5'000;  // of a large fleet
constexpr size_t kMostSpokenOf = 16;
// A planner that could lead does, where none leads, so long after the counter was last moved.
constexpr int64_t kFoundMs = 10'000;
// Likewise, however the counter moves.
constexpr int64_t kLongestMs = 30'000;
// A client's call of the planner.
constexpr int64_t kCallLimitMs = 10'000;
// Of the chances of a few workers, where each is to see everything in minutes, those of a large
// fleet: of workers and messages, and of the planner.
constexpr double kFleetsShare = 0.02;
constexpr double kFleetsPlannersShare = 0.2;

Faults DrawFaults(World& world, bool few) {
  // Some seeds are quiet, some stormy, each in its own way.
  const auto of = [&](double most) { return world.Chance(0.3) ? 0.0 : most * world.Share(); };
  const auto planners = [&](double most) { return of(few ? most : most * kFleetsPlannersShare); };
  const auto some = [&](double most) { return of(few ? most : most * kFleetsShare); };
  Faults faults;
  faults.planner_crash = planners(0.05);
  faults.planner_pause = planners(0.02);
  faults.disk_full = planners(0.02);
  faults.unanswered = of(0.2);
  faults.outbox_error = some(0.05);
  if (world.Chance(0.15)) return faults;  // nothing but the planner's own
  faults.stranger = of(0.2);
  faults.worker_death = some(0.02);
  faults.worker_pause = some(0.02);
  faults.drain = some(0.01);
  faults.sickness = 0.5;
  faults.partition = some(0.01);
  faults.power_loss = of(0.5);
  faults.lost = some(0.2);
  faults.late = some(0.1);
  faults.repeated = some(0.1);
  faults.card = some(0.005);
  return faults;
}

// Of planners that share a store: beside those, and as much their own.
void DrawSharedFaults(World& world, Faults& faults) {
  const auto of = [&](double most) { return world.Chance(0.3) ? 0.0 : most * world.Share(); };
  faults.planner_leave = of(0.01);
  faults.store_away = of(0.02);
  faults.store_slow = of(0.01);
  faults.strand_stuck = of(0.01);
}

v1::Problem ProblemOf(const std::string& name, int workloads) {
  v1::Problem problem;
  problem.set_name(name);
  for (const char* line : {"input x: f32[N] ~ normal", "y: f32[n: N] = x[n] * 2", "output y"}) {
    problem.add_graph(line);
  }
  for (int w = 0; w < workloads; ++w) {
    v1::Workload& workload = *problem.add_workloads();
    workload.set_name(absl::StrCat("w", w));
    (*workload.mutable_dims())["N"] = 64;
  }
  return problem;
}

}  // namespace

Simulation::Simulation(uint64_t seed, const Scale& scale, bool trace)
    : scale_(scale), world_(seed), checker_(scale.workers + 1), store_(&world_, &checker_) {
  world_.set_trace(trace);
  faults_ = DrawFaults(world_, scale.few());
  planners_fault_ = nobody_is_lost_ = faults_.OfPlannerAlone();
  shared_ = scale.few() && seed % 3 == 0;
  PlannerHost::Settings settings{"p0", shared_};
  if (world_.Chance(0.5)) settings.keep_over_tasks = world_.Between(int64_t{0}, int64_t{12});
  int64_t planners = 1;
  if (shared_) {
    DrawSharedFaults(world_, faults_);
    // A worker may wait for one planner that does not answer after the other.
    nobody_is_lost_ &= faults_.planner_pause == 0 && faults_.strand_stuck == 0;
    planners = world_.Chance(0.1) ? 1 : world_.Between(int64_t{2}, int64_t{3});
    if (world_.Chance(0.5)) store_.set_kept_events(world_.Between(int64_t{0}, int64_t{200}));
    if (world_.Chance(0.1)) stale_at_ms_ = world_.Between(int64_t{30'000}, scale.faulty_ms);
    world_.At(0, [this] { TickShared(); });
  }
  for (int64_t i = 0; i < planners; ++i) {
    settings.address = absl::StrCat("p", i);
    planners_.Add(std::make_unique<PlannerHost>(&world_, &faults_, &checker_, &store_, settings));
  }
  for (const auto& host : planners_.hosts()) {
    host->set_others([this](const PlannerHost* one) {
      return std::any_of(
          planners_.hosts().begin(), planners_.hosts().end(),
          [&](const auto& other) { return other.get() != one && other->BelievesToLead(); });
    });
  }
  people_.emplace(planners_.addresses());
  const int64_t workers = scale.few() ? world_.Between(int64_t{1}, int64_t{6}) : scale.workers;
  for (int64_t i = 0; i < workers; ++i) {
    AddWorker(absl::StrCat("w", i), i > 0 && world_.Chance(0.3) ? "host" : "sm_90a");
  }
  // Of another machine, and by the name of one that is there.
  if (world_.Chance(0.3)) AddWorker("w0", "sm_90a");
  submits_left_ = scale.few() ? static_cast<int>(world_.Between(int64_t{1}, int64_t{3}))
                              : (scale.tasks + kTasksPerSet - 1) / kTasksPerSet;
  world_.At(0, [this] { Tick(); });
}

void Simulation::AddWorker(const std::string& id, const std::string& arch) {
  workers_.push_back(std::make_unique<WorkerHost>(
      absl::StrCat("m", workers_.size()), id, arch, world_.Chance(scale_.few() ? 0.15 : 0.01),
      &world_, &faults_, &planners_, &checker_, &natures_));
}

// In a large fleet little goes wrong with each task: what kills its worker is given to three.
Nature Simulation::DrawNature() {
  const bool few = scale_.few();
  const double poor = few ? 0.15 : 0.02;
  Nature nature;
  nature.light_us = 10;
  nature.best_speedup = world_.Chance(0.1) ? 0 : world_.Between(0.5, 10.0);
  nature.find_rate = few ? world_.Between(0.05, 1.0) : world_.Between(0.005, 0.1);
  nature.kills = world_.Chance(poor) && !planners_fault_ ? 0.5 : 0;
  nature.fails = world_.Chance(poor) ? 0.7 : 0;
  nature.permanent = world_.Chance(0.5);
  return nature;
}

int Simulation::deaths() const {
  int deaths = 0;
  for (const auto& worker : workers_) deaths += worker->deaths();
  return deaths;
}

int Simulation::refusals() const {
  int refusals = 0;
  for (const auto& worker : workers_) refusals += worker->refusals();
  return refusals;
}

PlannerHost::Counts Simulation::planners() const {
  PlannerHost::Counts counts;
  for (const auto& host : planners_.hosts()) counts.Add(host->counts());
  return counts;
}

// ---- planners that share a store ----------------------------------------------------------------

void Simulation::TickShared() {
  world_.After(kTickMs, [this] { TickShared(); });
  if (world_.Chance(0.3)) Read();
  // At times nobody reaches the store.
  const bool away = world_.Chance(faults_.store_away / 3);
  const bool slow = world_.Chance(faults_.store_slow / 3);
  const int64_t until_ms = now_ms() + world_.Between(int64_t{1000}, int64_t{60'000});
  for (const auto& host : planners_.hosts()) {
    if (store_.settles()) continue;
    if (away) host->LoseStore(until_ms);
    if (slow) host->SlowStore(until_ms);
  }
  LookForLeader();
  if (stale_at_ms_ >= 0 && now_ms() >= stale_at_ms_) TakeStaleCopy();
}

// Who could lead does so in time, whatever has become of the others.
void Simulation::LookForLeader() {
  if (store_.history() == StoreHost::History::kStale) {
    led_ms_ = now_ms();
    return;
  }
  if (const PlannerHost* const leader = planners_.Leader(); leader != nullptr) {
    longest_without_ms_ = std::max(longest_without_ms_, now_ms() - led_ms_);
    led_ms_ = now_ms();
    if (!lost_history()) return;
    // Who led before hears of it with its next beat.
    led_again_ = leader->led_ms() >= store_.stale_ms();
    if (led_again_ && leader->core()->store() != store_.Token()) {
      checker_.Fail(leader->address() + " leads another history");
    }
    return;
  }
  for (const auto& host : planners_.hosts()) {
    const int64_t well_ms = host->well_since_ms();
    if (well_ms < 0) continue;
    const int64_t free_ms = now_ms() - std::max(led_ms_, well_ms);
    if (free_ms > kLongestMs || std::min(free_ms, now_ms() - store_.moved_ms()) > kFoundMs) {
      checker_.Fail(
          absl::StrCat("nobody leads for ", free_ms, " ms, in which ", host->address(), " could"));
    }
  }
}

// Whichever planner answers knows all that was durable when it was asked, and nothing that is not.
void Simulation::Read() {
  const auto& hosts = planners_.hosts();
  PlannerHost& host = *hosts[static_cast<size_t>(
      world_.Between(int64_t{0}, static_cast<int64_t>(hosts.size()) - 1))];
  const int64_t asked = store_.last();
  host.List(
      [this, &host, asked, history = store_.history()](const absl::StatusOr<v1::ListReply>& reply) {
        if (!reply.ok() || store_.history() != history) return;
        const int64_t last = store_.last();
        if (history == StoreHost::History::kWhole &&
            (reply->revision() < asked || reply->revision() > last)) {
          checker_.Fail(absl::StrCat(host.address(), " answers from revision ", reply->revision(),
                                     ", and the log's end was ", asked, " and is ", last));
        }
      });
}

// A replica that was behind takes the store's place; a minute later a person goes on with it.
void Simulation::TakeStaleCopy() {
  if (world_.Chance(0.2)) {  // nothing is lost, and a person believes so
    stale_at_ms_ = -1;
    return store_.AcceptLoss();
  }
  store_.TakeCopy();
  const int64_t age_ms = world_.Chance(0.5) ? world_.Between(int64_t{10}, int64_t{1000})
                                            : world_.Between(int64_t{1000}, int64_t{30'000});
  stale_at_ms_ = now_ms() + age_ms + 1000;  // once more, if nothing was lost
  world_.After(age_ms, [this] {
    // What nobody has seen that is there nobody can miss.
    const PlannerHost* const leader = planners_.Leader();
    if (leader == nullptr || lost_history()) return;
    const int64_t well_ms = leader->well_since_ms();
    if (well_ms < 0 || well_ms > now_ms() || !store_.BringBackCopy()) return;
    stale_at_ms_ = -1;
    world_.After(world_.Between(int64_t{20'000}, int64_t{120'000}), [this] {
      store_.AcceptLoss();
      for (const auto& host : planners_.hosts()) host->StartAgain();
    });
  });
}

// ---- people -------------------------------------------------------------------------------------

void Simulation::Say(planner::Command command) {
  planners_.At(people_->address()).Command(std::move(command), [this](const absl::Status& status) {
    if (!status.ok()) people_->Next(status);
  });
}

void Simulation::Tick() {
  world_.After(kTickMs, [this] { Tick(); });
  const PlannerHost* const leader = shared_ ? planners_.Leader() : planners_.hosts().front().get();
  if (leader == nullptr || leader->core() == nullptr) return;
  const State& state = leader->core()->state();
  if (submits_left_ > 0 && world_.Chance(0.1)) SubmitSet();
  // One that is held is released in the end, and a quarantined one may be.
  const double share = scale_.few() ? 1 : kFleetsShare;
  for (const auto& [id, worker] : state.workers()) {
    if (problem::IsSetAside(worker)) {
      if (world_.Chance(0.01)) Say(ReleaseWorker{id, "a person said so"});
    } else if (now_ms() < scale_.faulty_ms && world_.Chance(0.0005 * share)) {
      Say(HoldWorker{id, "a person said so"});
    }
  }
  const auto& tasks = state.tasks();
  if (world_.Chance(faults_.stranger)) SpeakOfAnother(state);
  if (now_ms() >= scale_.faulty_ms || tasks.empty()) return;
  if (world_.Chance(0.02 * share)) {
    auto run = state.runs().begin();
    std::advance(run, world_.Between(int64_t{0}, static_cast<int64_t>(state.runs().size()) - 1));
    const auto priority = static_cast<int>(world_.Between(int64_t{-2}, int64_t{2}));
    return Say(SetPriority{run->second.run().id(), priority, "a person said so"});
  }
  if (!world_.Chance(scale_.few() ? 0.005 : 0.1)) return;
  auto task = tasks.begin();
  std::advance(task, world_.Between(int64_t{0}, static_cast<int64_t>(tasks.size()) - 1));
  const std::string reason = "a person said so";
  if (world_.Chance(0.1 * share)) return Say(CancelRun{task->second.task().run_id(), reason});
  const v1::TaskState to = world_.Chance(0.3)   ? v1::HELD
                           : world_.Chance(0.3) ? v1::CANCELLED
                                                : v1::QUEUED;
  Say(SetTask{task->first, to, reason});
}

// A worker that takes no work says that it has, or has ended, what another one has.
void Simulation::SpeakOfAnother(const State& state) {
  v1::SynchronizeRequest request;
  request.mutable_worker()->set_id("stranger");
  request.mutable_worker()->set_arch("sm_90a");
  request.mutable_worker()->set_healthy(true);
  request.set_session_id(stranger_session_);
  request.set_instance("stranger");
  const auto& tasks = state.tasks();
  auto task = tasks.begin();
  if (!scale_.few() && !tasks.empty()) {
    std::advance(task, world_.Between(int64_t{0}, static_cast<int64_t>(tasks.size()) - 1));
  }
  for (size_t seen = 0; seen < kMostSpokenOf && task != tasks.end(); ++seen, ++task) {
    const v1::TaskRecord& record = task->second;
    if (!record.has_lease() || world_.Chance(0.5)) continue;
    v1::LeaseStatus& status = *request.add_leases();
    status.set_lease_id(record.lease().id());
    status.set_task_id(task->first);
    status.set_fence(record.lease().fence());
    status.set_finished(world_.Chance(0.5));
    status.set_converged(world_.Chance(0.5));
  }
  planners_.At(people_->address())
      .Synchronize(request, [this](const absl::StatusOr<v1::SynchronizeReply>& reply) {
        stranger_session_ = reply.ok() ? reply->session_id() : "";
      });
}

void Simulation::SubmitSet() {
  // Said again it is the same set.
  World set(static_cast<uint64_t>(submits_left_));
  v1::SubmitRequest request;
  request.set_request_id(absl::StrCat("request ", submits_left_));
  request.set_policy("rules");
  const bool few = scale_.few();
  request.set_seconds_per_task(static_cast<double>(few ? set.Between(int64_t{2}, int64_t{150})
                                                       : set.Between(int64_t{30}, int64_t{1'200})));
  request.mutable_problems()->set_name("set");
  if (!world_.Chance(0.3)) request.set_arch("sm_90a");
  // w0 is of that kind, and has that label.
  if (!request.arch().empty() && world_.Chance(0.3)) request.add_needs("rack=0");
  if (world_.Chance(0.5)) request.set_submitter(world_.Chance(0.5) ? "ann" : "bob");
  request.set_priority(static_cast<int32_t>(world_.Between(int64_t{-1}, int64_t{1})));
  // A problem in three has three workloads.
  const int64_t count =
      few ? set.Between(int64_t{1}, int64_t{8}) : std::min(scale_.tasks, kTasksPerSet) * 3 / 5;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("p", submits_left_, "_", i);
    const int workloads = i % 3 == 2 ? 3 : 1;
    *request.mutable_problems()->add_problems() = ProblemOf(name, workloads);
    for (int w = 0; w < workloads; ++w) {
      const std::string of = absl::StrCat(name, ":w", w);
      if (natures_.count(of) > 0) continue;
      natures_[of] = DrawNature();
    }
  }
  people_->Begin();
  TrySubmit(std::make_shared<const v1::SubmitRequest>(std::move(request)));
}

void Simulation::TrySubmit(std::shared_ptr<const v1::SubmitRequest> request) {
  const auto answered = std::make_shared<bool>(false);
  if (shared_) {
    world_.After(kCallLimitMs, [this, answered] {
      if (!std::exchange(*answered, true)) people_->Next(absl::DeadlineExceededError("no answer"));
    });
  }
  planners_.At(people_->address())
      .Submit(*request,
              [this, request, answered, left = submits_left_](const absl::StatusOr<v1::Run>& run) {
                if (std::exchange(*answered, true)) return;
                if (people_->Next(run.status())) return TrySubmit(request);
                // Until it has heard of success the client says it again; with several
                // architectures there, with one of them.
                if (run.ok() && !world_.Chance(faults_.lost) && left == submits_left_)
                  --submits_left_;
              });
}

bool Simulation::AllAtRest() const {
  const PlannerHost* const leader = planners_.Leader();
  if (submits_left_ > 0 || leader == nullptr || !leader->Settled()) return false;
  const auto& runs = leader->core()->state().runs();
  return std::all_of(runs.begin(), runs.end(),
                     [](const auto& entry) { return entry.second.run().done(); });
}

// Whoever has read all of the log has the state that it makes.
void Simulation::CheckFollowers() {
  const std::string state = store_.StateOfLog();
  for (const auto& host : planners_.hosts()) {
    if (host->core() == nullptr || host->core()->state().revision() != store_.last()) continue;
    // One that led may hold what was refused, and not know it yet.
    if (host->BelievesToLead() && host.get() != planners_.Leader()) continue;
    if (CanonicalBytes(host->core()->state().ToProto()) == state) continue;
    checker_.Fail(absl::StrCat(host->address(),
                               ": the log applied to an empty state does not give ",
                               "the planner's state"));
  }
}

std::vector<std::string> Simulation::Run() {
  while (checker_.violations().empty() && now_ms() < scale_.faulty_ms + kLimitMs) {
    if (now_ms() >= scale_.faulty_ms) faults_ = Faults{};
    world_.Step();
    if (led_again_) return checker_.violations();
    if (now_ms() >= scale_.faulty_ms && !lost_history() && AllAtRest()) break;
  }
  if (!checker_.violations().empty()) return checker_.violations();
  const PlannerHost* const leader = planners_.Leader();
  if (leader == nullptr) return {"no planner is there at the end"};
  std::map<std::string, Checker::Final> finals;
  const auto add = [&](const v1::Task& task) {
    const Checker::Final final{v1::TaskState_Name(task.state()), task.speedup(), task.fence(),
                               task.seconds_spent()};
    if (!finals.emplace(task.id(), final).second) checker_.Fail(task.id() + " is there twice");
  };
  for (const auto& [id, record] : leader->core()->state().tasks()) add(record.task());
  for (const v1::Task& task : store_.Archived()) add(task);
  checker_.Ended(finals);
  if (nobody_is_lost_) checker_.NobodyWasLost();
  CheckFollowers();
  return checker_.violations();
}

}  // namespace warpsmith::planner::simulation
