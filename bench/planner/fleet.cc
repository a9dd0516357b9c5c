#include "bench/planner/fleet.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/route.h"
#include "common/rpc/status.h"
#include "common/security/identity.h"
#include "common/security/tls.h"

namespace warpsmith::bench {
namespace {

constexpr char kMethod[] = "/warpsmith.v1.WorkerService/Synchronize";
// As the worker's outbox closes a batch.
constexpr int kMaxBatchTrials = 256;
// After a call that failed, as a worker's daemon.
constexpr int64_t kMinBackoffUs = 200'000, kMaxBackoffUs = 5'000'000;
constexpr int64_t kSecondUs = 1'000'000;

// Higher with time, so that each incumbent replaces the one before.
double SpeedupAt(int64_t now_us, int64_t start_us) {
  return 100 + static_cast<double>(now_us - start_us) * 1e-6;
}

template <typename List>
bool Names(const List& list, const std::string& id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

int64_t Heard(const v1::SynchronizeReply& reply, const std::string& lease_id) {
  for (const v1::Heard& heard : reply.heard()) {
    if (heard.lease_id() == lease_id) return heard.trials();
  }
  return 0;
}

}  // namespace

int64_t MonotonicUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string MachineName(int machine) { return absl::StrCat("bench-", machine); }

struct Fleet::Worker {
  int number = 0;
  std::optional<rpc::Route> route;
  std::string address;   // that is called
  std::string heard_at;  // the last that answered
  bool routed = false;   // the call is tried at one address after another
  int64_t backoff_us = kMinBackoffUs;
  bool was_there = false;                                           // the last call was answered
  int64_t asked_sync_ms = 0;                                        // by that answer
  std::map<std::string, std::unique_ptr<grpc::GenericStub>> stubs;  // by address
  v1::SynchronizeRequest head;                                      // its worker and session
  double share = 0;  // 0 to 1, spread over all workers alike
  bool had_lease = false;
  bool leased = false;
  LeaseKey lease;
  int64_t lease_us = 0;  // when it was granted
  int64_t next_trial = 0;
  int64_t told_us = 0;  // trials are told up to here
  bool has_incumbent = false;

  // Told, and not answered for yet.
  bool pending = false;
  std::string results;  // bytes of results
  int trials = 0;
  double speedup = 0;
  std::string trial_id;
  bool ends = false;

  // Of the call.
  int64_t due_us = 0;
  bool idle = false;  // it may be parked
  std::unique_ptr<grpc::ClientContext> context;
  grpc::ByteBuffer request, reply;
};

Fleet::Fleet(const Sample* sample, const FleetOptions& options)
    : sample_(*sample), options_(options) {
  const double spread_us = 1e6 * options.ramp_s;
  for (int i = 0; i < options.count; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->number = i;
    v1::WorkerInfo& info = *worker->head.mutable_worker();
    const int number = options.first + i;
    info.set_id(absl::StrCat(MachineName(number / kCards), "-cuda", number % kCards));
    worker->head.set_instance(absl::StrCat("i", number));
    worker->head.set_secret(absl::StrCat("secret of ", number));
    worker->route.emplace(options.address);
    info.set_arch("sm_90a");
    info.set_device_name("NVIDIA H200");
    info.set_device_bytes(int64_t{140} << 30);
    info.set_healthy(true);
    // Golden section: neighbours are far apart, whatever part of the fleet this process has.
    const double share = std::fmod(0.6180339887 * (options.first + i), 1.0);
    worker->share = std::fmod(1000 * share, 1.0);
    queue_.emplace(options.start_us + static_cast<int64_t>(share * spread_us), i);
    workers_.push_back(std::move(worker));
  }
}

Fleet::~Fleet() = default;

void Fleet::Count(const char* name, int64_t count) {
  const int64_t now_us = MonotonicUs();
  if (now_us >= options_.from_us && now_us < options_.until_us) tally_.counts[name] += count;
}

void Fleet::At(int64_t when_us, const Worker& worker) {
  queue_.emplace(when_us, worker.number);
  wake_.notify_one();
}

Tally Fleet::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (MonotonicUs() < options_.end_us) {
    const int64_t next_us =
        queue_.empty() ? options_.end_us : std::min(queue_.top().first, options_.end_us);
    if (next_us > MonotonicUs()) {
      wake_.wait_until(lock,
                       std::chrono::steady_clock::time_point(std::chrono::microseconds(next_us)));
      continue;
    }
    if (queue_.empty()) break;
    Worker& worker = *workers_[queue_.top().second];
    // A repetition is due when the call that failed was.
    if (worker.due_us == 0) worker.due_us = queue_.top().first;
    queue_.pop();
    ++under_way_;
    lock.unlock();
    Send(worker);
    lock.lock();
  }
  // Whoever waits still, for an answer or for this process to call: its age.
  const auto waits = [this](int64_t due_us) {
    if (due_us == 0 || due_us >= options_.until_us) return;
    tally_.latency_us.push_back(options_.until_us - due_us);
    ++tally_.counts["unanswered"];
  };
  for (const auto& worker : workers_) {
    if (!worker->idle) waits(worker->due_us);
  }
  for (; !queue_.empty(); queue_.pop()) {
    if (workers_[queue_.top().second]->due_us == 0) waits(queue_.top().first);
  }
  for (const auto& worker : workers_) {
    if (worker->context != nullptr) worker->context->TryCancel();
  }
  wake_.wait(lock, [this] { return under_way_ == 0; });
  return std::move(tally_);
}

void Fleet::Prepare(Worker& worker, int64_t now_us) {
  worker.pending = true;
  worker.results.clear();
  worker.trial_id.clear();
  worker.trials = 0;
  worker.speedup = 0;
  worker.ends = false;
  if (!worker.leased) return;
  const double seconds = static_cast<double>(now_us - worker.told_us) / kSecondUs;
  worker.trials = std::min(kMaxBatchTrials, static_cast<int>(seconds * options_.trials_per_second));
  worker.told_us = now_us;
  if (!worker.has_incumbent && worker.trials > 0) {
    worker.speedup = SpeedupAt(now_us, options_.start_us);
    worker.has_incumbent = true;
  }
  worker.ends = static_cast<double>(now_us - worker.lease_us) >= options_.lease_s * kSecondUs;
  if (worker.trials == 0) return;
  worker.trial_id = sample_.AppendResult(worker.lease, worker.next_trial, worker.trials,
                                         worker.speedup, worker.results);
  worker.next_trial += worker.trials;
}

void Fleet::Dial(Worker& worker) {
  worker.address = worker.route->address();
  std::unique_ptr<grpc::GenericStub>& stub = worker.stubs[worker.address];
  if (stub != nullptr) return;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options_.certificates.empty()) {
    const int machine = (options_.first + worker.number) / kCards;
    auto& known = credentials_[machine];
    if (known == nullptr) {
      const std::string name = absl::StrCat(options_.certificates, "/", MachineName(machine));
      auto identity = security::ReadIdentity(
          {.ca = options_.certificates + "/ca.crt", .cert = name + ".pem", .key = name + ".pem"},
          security::Needs::kCertificate, absl::Now());
      if (!identity.ok()) {
        std::fprintf(stderr, "%s\n", identity.status().ToString().c_str());
        std::abort();
      }
      known = security::ChannelCredentials(*identity, "", &absl::Now);
    }
    credentials = known;
  }
  stub = std::make_unique<grpc::GenericStub>(rpc::DialFresh(worker.address, credentials));
}

void Fleet::Send(Worker& worker) {
  const int64_t now_us = MonotonicUs();
  Dial(worker);
  const bool fresh = !worker.pending;
  if (fresh) Prepare(worker, now_us);
  v1::SynchronizeRequest head = worker.head;
  head.set_slots(!worker.leased || worker.ends ? 1 : 0);
  if (worker.leased) {
    v1::LeaseStatus& status = *head.add_leases();
    status.set_lease_id(worker.lease.lease_id);
    status.set_task_id(worker.lease.task_id);
    status.set_fence(worker.lease.fence);
    status.set_specialist("memory");
    status.set_seconds(static_cast<double>(now_us - worker.lease_us) / kSecondUs);
    status.set_finished(worker.ends);
  }
  std::string bytes = head.SerializeAsString();
  bytes += worker.results;
  const grpc::Slice slice(bytes);
  worker.request = grpc::ByteBuffer(&slice, 1);
  worker.reply.Clear();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    worker.idle = !worker.leased && !worker.head.session_id().empty();
    worker.context = std::make_unique<grpc::ClientContext>();
    rpc::SetDeadline(*worker.context, rpc::kParkMs + rpc::kCallTimeoutMs);
    Count("bytes_sent", static_cast<int64_t>(bytes.size()));
    if (fresh && worker.trials > 0) {
      TaskTally& task = tally_.tasks[worker.lease.task_id];
      task.trials_sent += worker.trials;
      task.speedup_sent = std::max(task.speedup_sent, worker.speedup);
    }
  }
  worker.stubs[worker.address]->UnaryCall(
      worker.context.get(), kMethod, {}, &worker.request, &worker.reply,
      [this, &worker](const grpc::Status& status) { Done(worker, status); });
}

void Fleet::Done(Worker& worker, const grpc::Status& status) {
  v1::SynchronizeReply reply;
  bool read = status.ok();
  size_t bytes = 0;
  if (read) {
    grpc::Slice slice;
    read = worker.reply.DumpToSingleSlice(&slice).ok() &&
           ReadReply({reinterpret_cast<const char*>(slice.begin()), slice.size()}, reply);
    bytes = slice.size();
  }
  const int64_t now_us = MonotonicUs();
  std::lock_guard<std::mutex> lock(mutex_);
  Count("bytes_received", static_cast<int64_t>(bytes));
  if (!read) {
    Refused(worker, status.ok() ? grpc::Status(grpc::StatusCode::DATA_LOSS, "no reply") : status);
    const bool at_once = status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    if (!worker.routed) worker.route->Begin();
    const bool lost = std::exchange(worker.was_there, false);
    const bool next = worker.route->Next(rpc::FromGrpc(status)) && !lost;
    worker.routed = next;
    // As a worker's daemon: later each time, or when it is told to.
    const double share = 0.5 + 0.5 * worker.share;
    int64_t pause_us = static_cast<int64_t>(static_cast<double>(worker.backoff_us) * share);
    if (const auto told = rpc::RetryAfter(rpc::FromGrpc(status))) {
      pause_us = static_cast<int64_t>(static_cast<double>(absl::ToInt64Microseconds(*told)) *
                                      (0.5 + share));
    }
    // A whole fleet that has lost its planner comes back as it called before.
    if (lost) {
      const double spread_us = 1e3 * static_cast<double>(worker.asked_sync_ms);
      std::uniform_real_distribution<> uniform;
      pause_us = std::max(pause_us, static_cast<int64_t>(uniform(random_) * spread_us));
    }
    if (!next) worker.backoff_us = std::min(2 * worker.backoff_us, kMaxBackoffUs);
    At(now_us + (at_once || next ? 0 : pause_us), worker);
  } else {
    const bool within = now_us >= options_.from_us && now_us < options_.until_us;
    const bool late = now_us >= options_.until_us && worker.due_us < options_.until_us;
    if (!worker.idle && (within || late)) tally_.latency_us.push_back(now_us - worker.due_us);
    Count(worker.idle ? "parked" : "calls");
    worker.routed = false;
    worker.backoff_us = kMinBackoffUs;
    worker.was_there = true;
    worker.asked_sync_ms = reply.next_sync_after_ms();
    if (!worker.heard_at.empty() && worker.heard_at != worker.address) {
      ++tally_.counts["moved"];
      int64_t& last = tally_.last_moved_us;
      last = std::max(last, now_us);
    }
    worker.heard_at = worker.address;
    Learn(worker, reply, now_us);
    worker.pending = false;
    const int64_t interval_us = options_.interval_s > 0
                                    ? static_cast<int64_t>(options_.interval_s * kSecondUs)
                                    : reply.next_sync_after_ms() * 1'000;
    // Cadence is kept: a call that was answered late does not put off the next. What was due
    // meanwhile is not made up for, as no worker does.
    const bool in_step = !worker.idle && now_us - worker.due_us < interval_us;
    const int64_t last_us = options_.interval_s > 0 && in_step ? worker.due_us : now_us;
    tally_.asked_sync_ms =
        std::max(tally_.asked_sync_ms, static_cast<int64_t>(reply.next_sync_after_ms()));
    worker.due_us = 0;
    At(worker.leased ? last_us + interval_us : now_us, worker);
  }
  worker.context.reset();
  --under_way_;
  wake_.notify_one();
}

void Fleet::Learn(Worker& worker, const v1::SynchronizeReply& reply, int64_t now_us) {
  worker.head.set_session_id(reply.session_id());
  if (worker.leased && Names(reply.recorded(), worker.lease.lease_id)) {
    TaskTally& task = tally_.tasks[worker.lease.task_id];
    const bool heard =
        worker.trials == 0 || Heard(reply, worker.lease.lease_id) >= worker.next_trial - 1;
    if (!heard) Count("trials_unheard", worker.trials);
    if (heard) task.trials += worker.trials;
    if (worker.speedup > 0 && Names(reply.recorded(), worker.trial_id)) {
      task.speedup = std::max(task.speedup, worker.speedup);
      Count("incumbents");
    }
    if (heard) Count("trials", worker.trials);
    if (worker.ends) {
      Count("ends");
      worker.leased = false;
    }
  }
  if (worker.leased && Names(reply.drop(), worker.lease.lease_id)) {
    // One that has ended was heard of before, and the answer lost; its task is another's by now.
    Count(worker.ends ? "ended_before" : "leases_lost");
    worker.leased = false;
  }
  for (const v1::Lease& lease : reply.start()) {
    if (worker.leased) break;
    Count("grants");
    worker.leased = true;
    worker.lease = {lease.id(), lease.task_id(), lease.fence()};
    worker.lease_us = worker.idle ? now_us : worker.due_us;
    // First leases are of all lengths, so that later ones do not end all at once.
    if (!worker.had_lease) {
      worker.lease_us -= static_cast<int64_t>(worker.share * options_.lease_s * kSecondUs);
    }
    worker.had_lease = true;
    worker.told_us = now_us;
    worker.next_trial = 1;
    worker.has_incumbent = false;
  }
}

void Fleet::Refused(Worker& worker, const grpc::Status& status) {
  if (MonotonicUs() >= options_.until_us) return;  // the planner is killed
  if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
    Count("sessions_ended");
    worker.head.clear_session_id();
  }
  const std::string kind = absl::StrCat("errors_", status.error_code());
  if (tally_.counts[kind]++ == 0) {
    tally_.first_errors.push_back(absl::StrCat(kind, ": ", status.error_message()));
  }
}

}  // namespace warpsmith::bench
