#include "planner/simulation/worker_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"
#include "planner/service/convert.h"

namespace warpsmith::planner::simulation {
namespace {

constexpr int64_t kStepMs = 1000;
constexpr int64_t kMostBetweenCallsMs = 10'000;
constexpr int64_t kIdleTimeoutMs = 40'000;
constexpr int64_t kBusyTimeoutMs = 10'000;
constexpr int64_t kDrainMs = 15'000;

}  // namespace

WorkerHost::WorkerHost(std::string machine, std::string id, std::string arch, bool sick,
                       World* world, const Faults* faults, const Planners* planners,
                       Checker* checker, const Natures* natures)
    : machine_(std::move(machine)),
      id_(std::move(id)),
      arch_(std::move(arch)),
      sick_(sick),
      world_(world),
      faults_(faults),
      planners_(planners),
      checker_(checker),
      natures_(natures) {
  const auto plan = [this](absl::string_view) {
    if (!world_->Chance(faults_->outbox_error)) return daemon::FileFault::kNone;
    return world_->Chance(0.5) ? daemon::FileFault::kPart : daemon::FileFault::kFails;
  };
  disk_.set_plan(plan);
  instances_.set_plan(plan);
  Start();
  world_->After(world_->Between(int64_t{0}, int64_t{3000}), [this] { Tick(); });
}

void WorkerHost::Start() {
  auto file = disk_.Open();
  if (!file.ok()) return checker_->Fail(absl::StrCat(id_, ": ", file.status().ToString()));
  auto outbox = daemon::Outbox::Open(*std::move(file));
  auto lineage =
      daemon::Lineage::Open(*instances_.Open(), absl::StrCat(machine_, "n", ++instances_drawn_),
                            absl::StrCat("secret of ", machine_));
  if (!outbox.ok() || !lineage.ok()) {  // its disk does not answer: it tries again
    world_->After(1000, [this] { Start(); });
    return;
  }
  outbox_ = *std::move(outbox);
  lineage_ = *std::move(lineage);
  v1::WorkerInfo info;
  info.set_id(id_);
  info.set_arch(arch_);
  info.set_healthy(true);
  info.add_labels(absl::StrCat("rack=", (id_.back() - '0') % 2));  // of w0 rack=0
  session_ = std::make_unique<daemon::Session>(info, *lineage_, *outbox_);
  route_.emplace(planners_->addresses());
  clock_offset_ms_ = world_->Between(int64_t{0}, int64_t{1'000'000'000});
  next_call_ms_ = world_->now_ms();
}

void WorkerHost::Die() {
  ++deaths_;
  world_->Trace(machine_ + " dies");
  Vanish();
  if (world_->Chance(faults_->power_loss)) {
    for (daemon::MemoryFile* disk : {&disk_, &instances_}) {
      disk->LosePower(static_cast<int>(world_->Between(int64_t{0}, int64_t{disk->unsynced()})));
    }
  }
}

void WorkerHost::Drain() {
  world_->Trace(machine_ + " is told to leave");
  session_->set_draining();
  stop_ = true;
  drain_by_ms_ = world_->now_ms() + kDrainMs;
  next_call_ms_ = world_->now_ms();
}

void WorkerHost::BreakCard() {
  card_failed_ = search_.has_value();
  stop_ = true;
  next_call_ms_ = world_->now_ms();
  if (world_->Chance(0.5)) return world_->Trace(id_ + " has lost what its card did");
  world_->Trace(id_ + " has a card that fails");
  card_broken_ = true;
  const std::string fault = absl::StrCat("Xid ", world_->Between(int64_t{46}, int64_t{48}));
  session_->set_health({.healthy = false, .reason = fault, .fault = fault});
}

void WorkerHost::Vanish() {
  ++generation_;
  session_ = nullptr;
  outbox_ = nullptr;
  lineage_ = nullptr;
  ended_.clear();
  search_.reset();
  stop_ = calling_ = told_draining_ = card_failed_ = card_broken_ = false;
  drain_by_ms_ = 0;
  world_->After(world_->Between(int64_t{500}, int64_t{60'000}), [this] { Start(); });
}

void WorkerHost::Tick() {
  world_->After(kStepMs, [this] { Tick(); });
  if (session_ == nullptr || world_->now_ms() < asleep_until_ms_) return;
  const double seconds = kStepMs / 1000.0;
  if (world_->Chance(faults_->worker_death * seconds)) return Die();
  if (world_->Chance(faults_->worker_pause * seconds)) {
    asleep_until_ms_ = world_->now_ms() + world_->Between(int64_t{1000}, int64_t{150'000});
    world_->Trace(id_ + " stands still");
    return;
  }
  if (drain_by_ms_ == 0 && world_->Chance(faults_->drain * seconds)) Drain();
  if (!card_broken_ && world_->Chance(faults_->card * seconds)) BreakCard();
  // Somebody mends it and starts its worker anew.
  if (card_broken_ && world_->Chance(0.01 * seconds)) return Die();
  const bool drained = told_draining_ && session_->settled();
  if (drain_by_ms_ > 0 && (drained || world_->now_ms() >= drain_by_ms_)) return Vanish();
  if (world_->Chance(faults_->partition * seconds)) {
    parted_until_ms_ = world_->now_ms() + world_->Between(int64_t{5'000}, int64_t{120'000});
    world_->Trace(id_ + " has no network");
  }
  if (search_) {
    const double kills = search_->nature->kills + (sick_ ? faults_->sickness : 0);
    if (world_->Chance(kills * seconds)) return Die();
    Work();
  }
  if (calling_ && world_->now_ms() >= call_until_ms_) {
    calling_ = false;
    session_->Late();
    if (world_->Chance(0.5) && called_ != nullptr) called_->Cancel(call_);
    route_->Next(absl::DeadlineExceededError("no answer came"));
    next_call_ms_ = world_->now_ms() + world_->Between(int64_t{0}, int64_t{2000});
  }
  if (!calling_ && world_->now_ms() >= next_call_ms_) Call();
}

// ---- the lease ----------------------------------------------------------------------------------

void WorkerHost::Work() {
  Search& search = *search_;
  const Nature& nature = *search.nature;
  if (Now() >= session_->FenceAt()) stop_ = true;
  if (card_failed_) {
    return End({.status = absl::InternalError("the judge failed"),
                .reason = "the card",
                .seconds = search.seconds,
                .interrupted = true});
  }
  if (stop_ && search.heeds) return End({.reason = "stopped", .seconds = search.seconds});
  if (search.seconds == 0 && world_->Chance(nature.fails)) {
    return End({.status = absl::InternalError("cannot work on it"),
                .permanent = nature.permanent,
                .seconds = 0.5});
  }
  search.seconds += kStepMs / 1000.0;
  if (search.heeds) {
    checker_->Works(Process(), search.lease.task_id(), search.lease.fence(), search.started_ms,
                    world_->now_ms());
  }
  session_->Progress("memory", search.seconds);
  if (world_->Chance(0.3)) {
    v1::Trial trial;
    trial.set_id(absl::StrCat(search.lease.id(), "/", ++search.trials));
    trial.set_specialist("memory");
    trial.set_verdict(v1::SLOWER);
    trial.set_source_digest(absl::StrCat("source of ", trial.id()));
    session_->OnTrial(trial);
  }
  if (world_->Chance(nature.find_rate * kStepMs / 1000.0)) Find();
  const bool converged = search.speedup > 0 && world_->Chance(0.005);
  if (!converged && search.seconds < search.lease.seconds()) return;
  // Measured again at the end.
  if (search.improved) Tell(search.speedup * world_->Between(0.9, 1.1));
  End({.converged = converged, .reason = "its time is over", .seconds = search.seconds});
}

void WorkerHost::Find() {
  Search& search = *search_;
  if (search.speedup >= search.nature->best_speedup) return;
  search.speedup += (search.nature->best_speedup - search.speedup) * world_->Between(0.1, 1.0);
  search.beaten = std::exchange(search.best, absl::StrCat(search.lease.id(), "/", ++search.trials));
  search.improved = true;
  // What is told of a time differs from minute to minute by more than what was found.
  Tell(world_->Chance(0.1) ? search.speedup / 2 : search.speedup);
  next_call_ms_ = std::min(next_call_ms_, world_->now_ms() + 100);
}

void WorkerHost::Tell(double speedup) {
  v1::Incumbent incumbent;
  incumbent.set_speedup(speedup);
  incumbent.set_beat_trial_id(search_->beaten);
  incumbent.set_light_us(search_->nature->light_us);
  incumbent.mutable_trial()->set_id(search_->best);
  incumbent.mutable_trial()->set_specialist("memory");
  incumbent.mutable_trial()->mutable_timing()->set_median_us(100 / speedup);
  v1::Baseline& baseline = *incumbent.mutable_baselines()->add_baselines();
  baseline.set_name("op_by_op");
  baseline.set_accurate(true);
  baseline.mutable_times()->set_graph_us(100);
  session_->OnIncumbent(incumbent);
}

void WorkerHost::End(daemon::Ended ended) {
  checker_->Ends(search_->lease.task_id(), search_->lease.fence(), ended.interrupted);
  ended_.insert(search_->lease.id());
  session_->End(ended);
  search_.reset();
  card_failed_ = false;
  stop_ = drain_by_ms_ > 0;
  next_call_ms_ = world_->now_ms();
}

// ---- the planner --------------------------------------------------------------------------------

void WorkerHost::Call() {
  calling_ = true;
  const auto call = std::make_shared<OneCall>();
  call->number = ++call_number_;
  call->request = session_->Request();
  call->told = ToldBy(call->request);
  call->sent = Now();
  const int64_t timeout = call->request.slots() > 0 ? kIdleTimeoutMs : kBusyTimeoutMs;
  call_until_ms_ = world_->now_ms() + timeout;
  if (world_->Chance(faults_->repeated)) {
    // A duplicate: nobody waits for its answer.
    world_->After(world_->Between(int64_t{0}, int64_t{120'000}),
                  [call, planner = &planners_->At(route_->address())] {
                    planner->Synchronize(call->request,
                                         [](const absl::StatusOr<v1::SynchronizeReply>&) {});
                  });
  }
  route_->Begin();
  Try(call);
}

void WorkerHost::Try(std::shared_ptr<const OneCall> call) {
  // The answer finds this process, if it still waits for it; when it stands still, later.
  const auto take = [this, call,
                     generation = generation_](absl::StatusOr<v1::SynchronizeReply> reply) {
    if (reply.ok() && (Parted() || world_->Chance(faults_->lost))) return;
    const int64_t at = world_->now_ms() + world_->Between(int64_t{0}, int64_t{50});
    world_->At(std::max(at, asleep_until_ms_), [this, call, generation, reply = std::move(reply)] {
      if (generation != generation_ || session_ == nullptr) return;
      if (!calling_ || call->number != call_number_) return;
      if (route_->Next(reply.status())) return Try(call);
      Answered(call->told, call->sent, reply);
    });
  };
  if (Parted() || world_->Chance(faults_->lost)) return;
  const bool late = world_->Chance(faults_->late);
  world_->After(
      world_->Between(int64_t{0}, int64_t{late ? 120'000 : 50}),
      [this, call, take, generation = generation_, planner = &planners_->At(route_->address())] {
        const int64_t number = planner->Synchronize(call->request, take);
        if (generation != generation_ || call->number != call_number_) return;
        called_ = planner;
        call_ = number;
      });
}

WorkerHost::Told WorkerHost::ToldBy(const v1::SynchronizeRequest& request) const {
  Told told;
  told.draining = request.worker().draining();
  for (const v1::LeaseStatus& lease : request.leases()) {
    if (lease.finished()) told.finished.push_back(lease);
  }
  for (const v1::LeaseResult& sent : request.results()) {
    if (sent.trials().trials_size() > 0) {
      checker_->Fail(id_ + " sends trials that are not sealed");
    }
    v1::LeaseResult& result = told.results.emplace_back();
    result.set_lease_id(sent.lease_id());
    result.set_task_id(sent.task_id());
    result.set_fence(sent.fence());
    if (sent.has_incumbent()) *result.mutable_incumbent() = sent.incumbent();
  }
  return told;
}

void WorkerHost::Answered(const Told& told, base::Instant sent,
                          const absl::StatusOr<v1::SynchronizeReply>& reply) {
  calling_ = false;
  if (!reply.ok()) {
    if (absl::IsFailedPrecondition(reply.status()) || absl::IsAborted(reply.status())) {
      session_->Forget();
    }
    if (absl::IsInvalidArgument(reply.status())) {
      checker_->Fail(absl::StrCat(id_, ": ", reply.status().ToString()));
    }
    const int64_t after =
        absl::ToInt64Milliseconds(rpc::RetryAfter(reply.status()).value_or(absl::ZeroDuration()));
    next_call_ms_ = world_->now_ms() + after + world_->Between(int64_t{100}, 3000 + after / 2);
    return;
  }
  Check(told, *reply);
  const bool held = session_->holds_lease();
  daemon::Session::Orders orders = session_->Take(*reply, sent, Now());
  next_call_ms_ =
      world_->now_ms() + std::min(absl::ToInt64Milliseconds(orders.next_sync), kMostBetweenCallsMs);
  if (session_->more_to_tell()) next_call_ms_ = world_->now_ms();
  told_draining_ = told.draining;
  if (held && orders.stop) stop_ = true;
  if (!orders.start) return;
  if (ended_.count(orders.start->id()) > 0) {
    checker_->Broken(
        absl::StrCat(machine_, " starts ", orders.start->id(), ", which it has ended"));
  }
  const v1::Problem& problem = orders.start->problem();
  search_.emplace();
  search_->lease = *std::move(orders.start);
  search_->nature = &natures_->at(absl::StrCat(problem.name(), ":", problem.workloads(0).name()));
  search_->heeds = world_->Chance(0.7);
  search_->started_ms = world_->now_ms();
  stop_ = drain_by_ms_ > 0;
  card_failed_ = card_broken_;
  // Where the incumbent does not run here it begins with nothing.
  if (world_->Chance(0.1)) return;
  search_->best = search_->lease.incumbent().trial().id();
  search_->speedup = search_->lease.incumbent().speedup();
}

// What the planner promised by an answer that arrived.
void WorkerHost::Check(const Told& told, const v1::SynchronizeReply& reply) {
  const auto has = [](const auto& list, const std::string& id) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  for (const v1::LeaseResult& sent : told.results) {
    if (!has(reply.recorded(), sent.lease_id())) continue;
    for (const v1::Heard& heard : reply.heard()) {
      if (heard.lease_id() != sent.lease_id()) continue;
      checker_->ToldHeard(sent.task_id(), sent.fence(), heard.trials());
    }
    Contents contents;
    if (!sent.has_incumbent() || !has(reply.recorded(), sent.incumbent().trial().id())) continue;
    checker_->ToldRecorded(sent.task_id(), AddBlob(sent.incumbent(), contents),
                           sent.incumbent().speedup(), sent.incumbent().beat_trial_id());
  }
  for (const v1::LeaseStatus& sent : told.finished) {
    if (has(reply.recorded(), sent.lease_id())) {
      checker_->ToldFinished(sent.task_id(), sent.fence());
    }
  }
  refusals_ += reply.drop_size();
  for (const v1::Lease& lease : reply.start()) {
    checker_->ToldStart(lease.task_id(), lease.fence(), id_, Process());
  }
}

}  // namespace warpsmith::planner::simulation
