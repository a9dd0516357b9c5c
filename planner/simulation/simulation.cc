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
  return faults;
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
    : scale_(scale), world_(seed), checker_(scale.workers + 1) {
  world_.set_trace(trace);
  faults_ = DrawFaults(world_, scale.few());
  planners_fault_ = faults_.OfPlannerAlone();
  planner_ = std::make_unique<PlannerHost>(&world_, &faults_, &checker_);
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
      &world_, &faults_, planner_.get(), &checker_, &natures_));
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

// People.
void Simulation::Tick() {
  world_.After(kTickMs, [this] { Tick(); });
  if (planner_->core() == nullptr) return;
  if (submits_left_ > 0 && world_.Chance(0.1)) SubmitSet();
  // One that is held is released in the end, and a quarantined one may be.
  const double share = scale_.few() ? 1 : kFleetsShare;
  for (const auto& [id, worker] : planner_->core()->state().workers()) {
    if (problem::IsSetAside(worker)) {
      if (world_.Chance(0.01)) planner_->ReleaseWorker({id, "a person said so"});
    } else if (now_ms() < scale_.faulty_ms && world_.Chance(0.0005 * share)) {
      planner_->HoldWorker({id, "a person said so"});
    }
  }
  const auto& tasks = planner_->core()->state().tasks();
  if (world_.Chance(faults_.stranger)) SpeakOfAnother();
  if (now_ms() >= scale_.faulty_ms || tasks.empty()) return;
  if (!world_.Chance(scale_.few() ? 0.005 : 0.1)) return;
  auto task = tasks.begin();
  std::advance(task, world_.Between(int64_t{0}, static_cast<int64_t>(tasks.size()) - 1));
  const std::string reason = "a person said so";
  if (world_.Chance(0.1 * share))
    return planner_->CancelRun({task->second.task().run_id(), reason});
  const v1::TaskState to = world_.Chance(0.3)   ? v1::HELD
                           : world_.Chance(0.3) ? v1::CANCELLED
                                                : v1::QUEUED;
  planner_->SetTask({task->first, to, reason});
}

// A worker that takes no work says that it has, or has ended, what another one has.
void Simulation::SpeakOfAnother() {
  v1::SynchronizeRequest request;
  request.mutable_worker()->set_id("stranger");
  request.mutable_worker()->set_arch("sm_90a");
  request.mutable_worker()->set_healthy(true);
  request.set_session_id(stranger_session_);
  request.set_instance("stranger");
  const auto& tasks = planner_->core()->state().tasks();
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
  planner_->Synchronize(request, [this](const absl::StatusOr<v1::SynchronizeReply>& reply) {
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
  planner_->Submit(request, [this, left = submits_left_](const absl::StatusOr<v1::Run>& run) {
    // Until it has heard of success the client says it again; with several architectures there,
    // with one of them.
    if (run.ok() && !world_.Chance(faults_.lost) && left == submits_left_) --submits_left_;
  });
}

bool Simulation::AllAtRest() const {
  if (submits_left_ > 0 || !planner_->Settled()) return false;
  const auto& runs = planner_->core()->state().runs();
  return std::all_of(runs.begin(), runs.end(),
                     [](const auto& entry) { return entry.second.run().done(); });
}

std::vector<std::string> Simulation::Run() {
  while (checker_.violations().empty() && now_ms() < scale_.faulty_ms + kLimitMs) {
    if (now_ms() >= scale_.faulty_ms) faults_ = Faults{};
    world_.Step();
    if (now_ms() >= scale_.faulty_ms && AllAtRest()) break;
  }
  if (!checker_.violations().empty()) return checker_.violations();
  if (planner_->core() == nullptr) return {"the planner is not there at the end"};
  std::map<std::string, Checker::Final> finals;
  const auto add = [&](const v1::Task& task) {
    const Checker::Final final{v1::TaskState_Name(task.state()), task.speedup(), task.fence(),
                               task.seconds_spent()};
    if (!finals.emplace(task.id(), final).second) checker_.Fail(task.id() + " is there twice");
  };
  for (const auto& [id, record] : planner_->core()->state().tasks()) add(record.task());
  for (const v1::Task& task : planner_->Archived()) add(task);
  checker_.Ended(finals);
  if (planners_fault_) checker_.NobodyWasLost();
  std::vector<std::string> violations = checker_.violations();
  if (planner_->StateOfLog() != CanonicalBytes(planner_->core()->state().ToProto())) {
    violations.push_back("the log applied to an empty state does not give the planner's state");
  }
  return violations;
}

}  // namespace warpsmith::planner::simulation
