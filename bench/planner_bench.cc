// What one planner carries: the real warpsmith-planner with its real store behind real sockets, and
// simulated workers in other processes, each with a connection of its own.
//
//   warpsmith show softmax_rows:wide -o json > wide.json       # of a run, for its trials
//   warpsmith-bench-planner --like wide.json --workers 100,1000,10000 --tasks 1000,10000,100000
//   warpsmith-bench-planner --core --tasks 1000,10000,100000   # commands of the core alone
//
// Each worker calls every --interval seconds, tells the trials that it made since and, once a
// lease, an incumbent; leases end after --lease seconds and others are asked for in the same call.
// Every task had a first slice before, so that a grant brings a problem and an incumbent. At the
// end of the window the planner is killed, started again, and asked for all that it had
// acknowledged.
//
// Latency is the client's, from when a call was due to its answer, repetitions included. Calls that
// a planner may park (of workers without a lease) are counted apart.
#include <httplib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bench/planner/core_bench.h"
#include "bench/planner/fleet.h"
#include "bench/planner/history.h"
#include "bench/planner/planner_process.h"
#include "bench/planner/sample.h"
#include "bench/planner/tally.h"
#include "common/base/file.h"
#include "common/base/install.h"
#include "common/problem/problem.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/security/authority.h"
#include "common/security/identity.h"
#include "common/security/tls.h"
#include "common/store/redis/redis_store.h"
#include "common/store/sqlite_store.h"
#include "planner/core/core.h"
#include "planner/service/convert.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"
#include "warpsmith/v1/planner.grpc.pb.h"

namespace warpsmith::bench {
namespace {

constexpr char kArch[] = "sm_90a";
// A run of the largest size is validated and stored in one call.
constexpr int64_t kPatientMs = 10 * 60'000;
// Workers come no faster: on two cores, clients included, more connections a second time out and
// are dialled again, until nothing else is done.
constexpr double kConnectionsPerSecond = 250;
// What is read whole after a restart.
constexpr int kTasksReadWhole = 100;
constexpr int kHistoryTrials = 40;
constexpr int kHistoryBatch = 1'000;  // tasks to one commit
constexpr int kServedAtOnce = 5 * planner::kMaxTasksPerRun;

struct Options {
  std::vector<int> workers = {100}, tasks = {1'000};
  std::vector<std::string> like;
  std::string problems = "problems/models.json", planner, folder;
  int clients = 2;
  double warmup_s = 20, seconds = 60, interval_s = 10, lease_s = 20, trials_per_second = 4;
  double task_seconds = 600;
  int64_t cubin_bytes = 50'000;
  int served = 0;
  bool core = false;
  bool redis = false, tls = false;
  bool storm = false;
  bool scrape = false;
  // Of a client's process.
  bool client = false;
  FleetOptions fleet;
};

template <typename Stub, typename Request, typename Reply>
absl::StatusOr<Reply> Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Reply*),
                           const Request& request) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, kPatientMs);
  Reply reply;
  const grpc::Status status = (stub.*method)(&context, request, &reply);
  if (!status.ok()) return rpc::FromGrpc(status);
  return reply;
}

using PlannerStub = v1::PlannerService::Stub;

std::unique_ptr<PlannerStub> Dial(const PlannerProcess& planner) {
  return v1::PlannerService::NewStub(planner.Dial());
}

// ---- a planner with tasks ----------------------------------------------------------------------

// The set's problems again and again, each under a name of its own, as tasks of one workload.
v1::ProblemSet SetOf(const v1::ProblemSet& real, int first, int count) {
  v1::ProblemSet set;
  set.set_name("bench");
  for (int i = first; i < first + count; ++i) {
    v1::Problem& problem = *set.add_problems() = real.problems(i % real.problems_size());
    problem.set_name(absl::StrCat(problem.name(), "-", i));
    problem.mutable_workloads()->DeleteSubrange(1, problem.workloads_size() - 1);
  }
  return set;
}

absl::Status Submit(const Options& options, const v1::ProblemSet& real, int tasks,
                    PlannerStub& stub) {
  for (int made = 0; made < tasks;) {
    const int count = std::min(planner::kMaxTasksPerRun, tasks - made);
    v1::SubmitRequest request;
    *request.mutable_problems() = SetOf(real, made, count);
    request.set_arch(kArch);
    request.set_seconds_per_task(options.task_seconds);
    const auto reply = Call(stub, &PlannerStub::Submit, request);
    if (!reply.ok()) return reply.status();
    made += count;
  }
  return absl::OkStatus();
}

// Of the runs from the `first` on.
absl::StatusOr<std::vector<v1::Task>> ListTasks(PlannerStub& stub, int first, int tasks) {
  std::vector<v1::Task> all;
  // Run by run: together they outgrow a message.
  for (int number = first; static_cast<int>(all.size()) < tasks; ++number) {
    v1::ListRequest request;
    request.set_run_id(absl::StrCat("r", number));
    auto reply = Call(stub, &PlannerStub::List, request);
    if (!reply.ok()) return reply.status();
    all.insert(all.end(), reply->tasks().begin(), reply->tasks().end());
  }
  return all;
}

// Where the planner's state is: a folder, or a Redis server of the bench's own beside one.
struct State {
  std::string dir;
  std::unique_ptr<support::RedisServer> redis;  // null: SQLite in `dir`
  std::string shared;

  std::string certificates;  // an authority's folder; "": no TLS
  bool scraped = false;      // its metrics are, as by Prometheus

  std::vector<std::string> Flags() const {
    std::vector<std::string> flags;
    if (redis != nullptr) flags = {"--redis", redis->address(), "--shared", shared};
    if (scraped) flags.insert(flags.end(), {"--listen-http", "127.0.0.1:0"});
    if (certificates.empty()) return flags;
    const std::string name = certificates + "/planner";
    for (const auto& [flag, path] :
         {std::pair<const char*, std::string>("--tls-ca", certificates + "/ca.crt"),
          {"--tls-cert", name + ".pem"},
          {"--tls-key", name + ".pem"},
          {"--tls-crl", certificates + "/crl.pem"}}) {
      flags.insert(flags.end(), {flag, path});
    }
    return flags;
  }
  // As an operator.
  std::shared_ptr<grpc::Channel> Dial(const std::string& address) const {
    if (certificates.empty()) return rpc::DialFresh(address);
    const std::string name = certificates + "/operator";
    const auto identity = security::ReadIdentity(
        {.ca = certificates + "/ca.crt", .cert = name + ".pem", .key = name + ".pem"},
        security::Needs::kCertificate, absl::Now());
    if (!identity.ok()) {
      std::fprintf(stderr, "%s\n", identity.status().ToString().c_str());
      std::abort();
    }
    return rpc::DialFresh(address, security::ChannelCredentials(*identity, "", &absl::Now));
  }
  absl::StatusOr<std::unique_ptr<store::Store>> Open() const {
    if (redis == nullptr) return store::SqliteStore::Open(dir);
    store::RedisStore::Options options;
    options.server.address = redis->address();
    options.folder = shared;
    return store::RedisStore::Open(options);
  }
};

// Writes every task's first slice into the log of a planner that is not running. The incumbents'
// blobs are few, and shared.
absl::Status AddHistory(const State& state, const Sample& sample,
                        const std::vector<v1::Task>& tasks) {
  constexpr int kDistinct = 100;
  auto store = state.Open();
  if (!store.ok()) return store.status();
  auto epoch = (*store)->Lead();
  if (!epoch.ok()) return epoch.status();
  auto last = (*store)->LastRevision();
  if (!last.ok()) return last.status();
  std::vector<std::string> incumbents;
  std::vector<v1::SealedTrials> batches;
  for (int i = 0; i < kDistinct; ++i) {
    const std::string id = absl::StrCat("earlier-", i);
    auto incumbent = (*store)->Put(sample.IncumbentBytes(id, 1.5));
    if (!incumbent.ok()) return incumbent.status();
    incumbents.push_back(*incumbent);
    batches.push_back(sample.Sealed({id, id, 1}, 1, kHistoryTrials));
  }
  store::Batch commit{*epoch, *last, {}, {}, {}};
  for (size_t i = 0; i < tasks.size(); ++i) {
    const double speedup = 1 + static_cast<double>(i * 7919 % 1000) / 1000;
    const std::string name = absl::StrCat(tasks[i].id(), "#1/1-", kHistoryTrials);
    commit.facts.push_back(planner::FactsOf(tasks[i].id(), name, batches[i % kDistinct]));
    for (const v1::Event& event :
         FirstSlice(tasks[i], incumbents[i % kDistinct], name, kHistoryTrials, speedup,
                    absl::ToUnixMillis(absl::Now()))) {
      commit.events.push_back(event.SerializeAsString());
    }
    if (i + 1 < tasks.size() && (i + 1) % kHistoryBatch != 0) continue;
    if (absl::Status status = (*store)->Commit(commit); !status.ok()) return status;
    commit.after += static_cast<int64_t>(commit.events.size());
    commit.events.clear();
    commit.facts.clear();
  }
  return (*store)->Close();
}

// An authority with certificates for a planner, an operator and the machines of so many workers.
absl::Status Certify(const std::string& folder, int workers) {
  using security::Role;
  security::Authority authority(folder);
  absl::Status status = authority.Init("bench", security::kAuthorityLife, absl::Now());
  if (!status.ok()) return status;
  std::vector<security::Wanted> wanted = {
      {.name = {Role::kPlanner, "planner"}, .hosts = {"127.0.0.1"}},
      {.name = {Role::kOperator, "operator"}}};
  for (int machine = 0; machine * kCards < workers; ++machine) {
    wanted.push_back({.name = {Role::kWorker, MachineName(machine)}});
  }
  for (const security::Wanted& each : wanted) {
    status = authority.Issue(each, absl::Now()).status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

int RunsOf(int tasks) { return (tasks + planner::kMaxTasksPerRun - 1) / planner::kMaxTasksPerRun; }

// Tasks that have all been worked on, and were cancelled then: what a planner has served before.
absl::Status Serve(const Options& options, const Sample& sample, const v1::ProblemSet& problems,
                   const State& state, PlannerProcess& planner) {
  for (int done = 0; done < options.served; done += kServedAtOnce) {
    const int count = std::min(kServedAtOnce, options.served - done);
    const int first = 1 + RunsOf(done);
    if (absl::Status status = planner.Start(); !status.ok()) return status;
    auto stub = Dial(planner);
    if (absl::Status status = Submit(options, problems, count, *stub); !status.ok()) return status;
    auto listed = ListTasks(*stub, first, count);
    if (!listed.ok()) return listed.status();
    if (absl::Status status = planner.Stop(); !status.ok()) return status;
    if (absl::Status status = AddHistory(state, sample, *listed); !status.ok()) return status;
    if (absl::Status status = planner.Start(); !status.ok()) return status;
    stub = Dial(planner);
    for (int run = first; run < first + RunsOf(count); ++run) {
      v1::CancelRunRequest request;
      request.set_run_id(absl::StrCat("r", run));
      const auto reply = Call(*stub, &PlannerStub::CancelRun, request);
      if (!reply.ok()) return reply.status();
    }
    if (absl::Status status = planner.Stop(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---- the load ----------------------------------------------------------------------------------

struct Measured {
  int workers = 0, tasks = 0;
  Tally tally;
  double seconds = 0;      // of the window
  double submit_s = 0;     // all tasks, through Submit
  double start_s = 0;      // with what was prepared
  double board_ms = 0;     // GetBoard, nothing else going on
  double planner_cpu = 0;  // processors, in the window
  double clients_cpu = 0;
  Usage planner_end;
  double recovery_s = 0;  // from its start after the kill until it serves
  std::string ended;      // the planner by itself, under load
  int64_t lost = 0;       // tasks that lack something acknowledged
  int64_t twice = 0;      // tasks that count more than was sent
  int64_t losses = 0;     // of leases, of all tasks
};

std::vector<std::string> ClientWords(const Options& options, const std::string& program,
                                     const FleetOptions& fleet) {
  std::vector<std::string> words = {program, "--client"};
  const auto add = [&words](const char* name, const auto& value) {
    words.push_back(name);
    words.push_back(absl::StrCat(value));
  };
  add("--address", fleet.address);
  if (!fleet.certificates.empty()) add("--certificates", fleet.certificates);
  add("--first", fleet.first);
  add("--count", fleet.count);
  add("--ramp", fleet.ramp_s);
  add("--start-us", fleet.start_us);
  add("--from-us", fleet.from_us);
  add("--until-us", fleet.until_us);
  add("--end-us", fleet.end_us);
  add("--interval", options.interval_s);
  add("--lease", options.lease_s);
  add("--trials-per-second", options.trials_per_second);
  add("--cubin-bytes", options.cubin_bytes);
  for (const std::string& path : options.like) add("--like", path);
  return words;
}

void SleepUntil(int64_t us) {
  const int64_t left = us - MonotonicUs();
  if (left > 0) usleep(static_cast<useconds_t>(left));
}

double CpuOf(const std::vector<std::unique_ptr<e2e::Process>>& processes) {
  double seconds = 0;
  for (const auto& process : processes) seconds += UsageOf(process->pid()).cpu_seconds;
  return seconds;
}

// A line of INFO.
std::string InfoOf(const support::RedisServer& redis, const std::string& name) {
  const std::string info = redis.Do({"INFO", "persistence"});
  const size_t at = info.find(name + ":");
  if (at == std::string::npos) return "?";
  const size_t begin = at + name.size() + 1;
  return info.substr(begin, info.find('\r', begin) - begin);
}

// Asks for a planner's metrics as often as Prometheus does, until the end of the window.
class Scraper {
 public:
  Scraper(const std::string& dir, int64_t from_us, int64_t until_us)
      : thread_([this, dir, from_us, until_us] {
          const std::string address(absl::StripAsciiWhitespace(
              base::ReadFile(dir + "/planner.http").value_or("nowhere")));
          for (int64_t at_us = from_us; at_us < until_us; at_us += kScrapeUs) {
            SleepUntil(at_us);
            const int64_t asked_us = MonotonicUs();
            const auto reply = httplib::Client("http://" + address).Get("/metrics");
            if (!reply || reply->status != 200) {
              ++failed_;
              continue;
            }
            ms_.push_back(1e-3 * static_cast<double>(MonotonicUs() - asked_us));
            bytes_ = reply->body.size();
          }
        }) {}
  // Waits for its end.
  void Report() {
    thread_.join();
    std::sort(ms_.begin(), ms_.end());
    std::fprintf(stderr, "%zu scrapes, %d failed: %zu bytes, median %.1f ms, longest %.1f ms\n",
                 ms_.size(), failed_, bytes_, ms_.empty() ? 0 : ms_[ms_.size() / 2],
                 ms_.empty() ? 0 : ms_.back());
  }

 private:
  static constexpr int64_t kScrapeUs = 15'000'000;
  std::vector<double> ms_;
  int failed_ = 0;
  size_t bytes_ = 0;
  std::thread thread_;
};

// Runs the workers; the planner is killed at the end of the window.
absl::Status Load(const Options& options, const State& state, PlannerProcess& planner,
                  PlannerProcess* follower, Measured& measured) {
  FleetOptions fleet;
  fleet.address = planner.address();
  if (follower != nullptr) absl::StrAppend(&fleet.address, ",", follower->address());
  fleet.certificates = state.certificates;
  fleet.ramp_s = std::max(options.interval_s, measured.workers / kConnectionsPerSecond);
  // Processes start and read their samples first.
  fleet.start_us = MonotonicUs() + 2'000'000;
  fleet.from_us = fleet.start_us + static_cast<int64_t>(1e6 * (fleet.ramp_s + options.warmup_s));
  fleet.until_us = fleet.from_us + static_cast<int64_t>(1e6 * options.seconds);
  fleet.end_us = fleet.until_us + 1'000'000;
  const std::string program = absl::StrCat(base::ProgramFolder(), "/warpsmith-bench-planner");
  std::vector<std::unique_ptr<e2e::Process>> clients;
  for (int i = 0; i < options.clients; ++i) {
    fleet.first = measured.workers * i / options.clients;
    fleet.count = measured.workers * (i + 1) / options.clients - fleet.first;
    clients.push_back(std::make_unique<e2e::Process>(ClientWords(options, program, fleet)));
  }
  SleepUntil(fleet.from_us);
  std::optional<Scraper> scraper;
  if (options.scrape) scraper.emplace(state.dir, fleet.from_us, fleet.until_us);
  const Usage before = UsageOf(planner.pid());
  const double clients_before = CpuOf(clients);
  const Usage redis_before = state.redis ? UsageOf(state.redis->pid()) : Usage();
  // A rewrite of Redis' log belongs to the window.
  SleepUntil((fleet.from_us + fleet.until_us) / 2);
  if (state.redis != nullptr) state.redis->Do({"BGREWRITEAOF"});
  int64_t killed_us = 0;
  if (follower != nullptr) {
    killed_us = MonotonicUs();
    planner.Kill();
  }
  SleepUntil(fleet.until_us);
  PlannerProcess& last = follower != nullptr ? *follower : planner;
  if (state.redis != nullptr) {
    const Usage redis = UsageOf(state.redis->pid());
    std::fprintf(stderr, "Redis: %.2f CPUs without its rewrites, RSS %.0f MiB, log %s bytes\n",
                 (redis.cpu_seconds - redis_before.cpu_seconds) / options.seconds,
                 static_cast<double>(redis.rss_bytes) / (1 << 20),
                 InfoOf(*state.redis, "aof_current_size").c_str());
    std::fprintf(stderr, "Redis' rewrites: %s in all, the last one %s\n",
                 InfoOf(*state.redis, "aof_rewrites").c_str(),
                 InfoOf(*state.redis, "aof_last_bgrewrite_status").c_str());
  }
  measured.planner_end = UsageOf(last.pid());
  measured.seconds = options.seconds;
  measured.clients_cpu = (CpuOf(clients) - clients_before) / options.seconds;
  measured.planner_cpu =
      (measured.planner_end.cpu_seconds - (follower != nullptr ? 0 : before.cpu_seconds)) /
      options.seconds;
  if (scraper) scraper->Report();
  measured.ended = last.Ending();
  last.Kill();
  for (const auto& client : clients) {
    const e2e::Finished ended = client->Wait(absl::Minutes(2));
    if (ended.code != 0) {
      return absl::InternalError(
          absl::StrCat("a client ended with exit status ", ended.code, ": ", ended.err));
    }
    measured.tally.Merge(Tally::Read(ended.out));
  }
  if (follower != nullptr) {
    std::fprintf(stderr,
                 "%lld answers of another planner than before; the last worker heard of it %.2f s "
                 "after the leader was killed\n",
                 static_cast<long long>(measured.tally.counts["moved"]),
                 1e-6 * static_cast<double>(measured.tally.last_moved_us - killed_us));
  }
  return absl::OkStatus();
}

// What the planner acknowledged is there, and nothing counts twice.
absl::Status Check(PlannerStub& stub, int first_run, Measured& measured) {
  const auto tasks = ListTasks(stub, first_run, measured.tasks);
  if (!tasks.ok()) return tasks.status();
  int read = 0;
  for (const v1::Task& task : *tasks) {
    const auto found = measured.tally.tasks.find(task.id());
    if (found == measured.tally.tasks.end()) continue;
    const TaskTally& told = found->second;
    const int64_t trials = task.trials() - kHistoryTrials;
    bool lost = trials < told.trials || task.speedup() < told.speedup;
    measured.twice += trials > told.trials_sent;
    measured.losses += task.losses();
    if (!lost && ++read <= kTasksReadWhole) {
      v1::GetTaskRequest request;
      request.set_task_id(task.id());
      request.set_with_trials(true);
      const auto whole = Call(stub, &PlannerStub::GetTask, request);
      if (!whole.ok()) return whole.status();
      std::set<std::string> ids;
      for (const v1::Trial& trial : whole->trials().trials()) ids.insert(trial.id());
      lost = static_cast<int64_t>(ids.size()) != task.trials() ||
             (told.speedup > 0 && whole->incumbent().speedup() != task.speedup());
    }
    measured.lost += lost;
  }
  return absl::OkStatus();
}

double SecondsSince(int64_t start_us) {
  return 1e-6 * static_cast<double>(MonotonicUs() - start_us);
}

absl::StatusOr<Measured> Measure(const Options& options, const Sample& sample,
                                 const v1::ProblemSet& problems, int workers, int tasks) {
  support::TemporaryFolder temporary;
  State state;
  state.dir = options.folder.empty() ? temporary / "planner" : options.folder;
  if (options.redis) {
    state.redis = std::make_unique<support::RedisServer>();
    state.shared = temporary / "shared";
  }
  Measured measured;
  measured.workers = workers;
  measured.tasks = tasks;
  if (options.tls) {
    state.certificates = temporary / "certificates";
    if (absl::Status status = Certify(state.certificates, workers); !status.ok()) return status;
  }
  state.scraped = options.scrape;
  const auto dial = [&state](const std::string& address) { return state.Dial(address); };
  PlannerProcess planner(options.planner, state.dir, state.Flags(), dial);
  std::optional<PlannerProcess> follower;
  if (options.storm) {
    follower.emplace(options.planner, temporary / "follower", state.Flags(), dial);
  }
  absl::Status served = Serve(options, sample, problems, state, planner);
  if (!served.ok()) return served;
  const int first_run = 1 + RunsOf(options.served);
  if (absl::Status status = planner.Start(); !status.ok()) return status;
  int64_t start_us = MonotonicUs();
  auto stub = Dial(planner);
  if (absl::Status status = Submit(options, problems, tasks, *stub); !status.ok()) return status;
  measured.submit_s = SecondsSince(start_us);
  auto listed = ListTasks(*stub, first_run, tasks);
  if (!listed.ok()) return listed.status();
  if (absl::Status status = planner.Stop(); !status.ok()) return status;
  if (absl::Status status = AddHistory(state, sample, *listed); !status.ok()) return status;
  start_us = MonotonicUs();
  if (absl::Status status = planner.Start(); !status.ok()) return status;
  measured.start_s = SecondsSince(start_us);
  stub = Dial(planner);
  start_us = MonotonicUs();
  auto board = Call(*stub, &PlannerStub::GetBoard, v1::GetBoardRequest());
  if (!board.ok()) return board.status();
  measured.board_ms = 1e3 * SecondsSince(start_us);
  if (follower) {
    if (absl::Status status = follower->Start(/*leads=*/false); !status.ok()) return status;
  }
  absl::Status loaded = Load(options, state, planner, follower ? &*follower : nullptr, measured);
  if (!loaded.ok()) return loaded;
  start_us = MonotonicUs();
  if (absl::Status status = planner.Start(); !status.ok()) return status;
  measured.recovery_s = SecondsSince(start_us);
  stub = Dial(planner);
  if (absl::Status status = Check(*stub, first_run, measured); !status.ok()) return status;
  planner.Kill();
  return measured;
}

// ---- the table ---------------------------------------------------------------------------------

void PrintHead() {
  std::printf(
      "| workers | tasks | calls/s | p50 ms | p99 ms | max ms | unanswered | parked/s | grants/s | "
      "workers lost | leases lost | trials/s | MB/s in | MB/s out | planner CPUs | clients CPUs | "
      "RSS MiB | start s | recovery s | board ms | submit s | acknowledged and lost, counted twice "
      "|\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
      "--:|\n");
}

void Print(Measured measured) {
  auto& counts = measured.tally.counts;
  auto& latency = measured.tally.latency_us;
  const auto rate = [&](const char* name) {
    return static_cast<double>(counts[name]) / measured.seconds;
  };
  const auto ms = [&](double share) {
    return 1e-3 * static_cast<double>(Percentile(latency, share));
  };
  std::printf(
      "| %d | %d | %.0f | %.1f | %.1f | %.1f | %lld | %.1f | %.1f | %lld | %lld | %.0f | %.1f | "
      "%.1f | %.2f | %.2f | %.0f | %.2f | %.2f | %.0f | %.1f | %lld, %lld |\n",
      measured.workers, measured.tasks, rate("calls"), ms(0.5), ms(0.99), ms(1),
      static_cast<long long>(counts["unanswered"]), rate("parked"), rate("grants"),
      static_cast<long long>(counts["sessions_ended"]),
      static_cast<long long>(counts["leases_lost"]), rate("trials"), 1e-6 * rate("bytes_sent"),
      1e-6 * rate("bytes_received"), measured.planner_cpu, measured.clients_cpu,
      static_cast<double>(measured.planner_end.rss_bytes) / (1 << 20), measured.start_s,
      measured.recovery_s, measured.board_ms, measured.submit_s,
      static_cast<long long>(measured.lost), static_cast<long long>(measured.twice));
  std::fflush(stdout);
  std::fprintf(stderr, "%d workers, %d tasks: the planner asked for a call every %.1f s at most\n",
               measured.workers, measured.tasks,
               1e-3 * static_cast<double>(measured.tally.asked_sync_ms));
  std::fprintf(stderr, "%lld leases were lost, as the tasks tell\n",
               static_cast<long long>(measured.losses));
  if (!measured.ended.empty()) {
    std::fprintf(stderr, "the planner ended by itself, %s\n", measured.ended.c_str());
  }
  std::set<std::string> errors(measured.tally.first_errors.begin(),
                               measured.tally.first_errors.end());
  for (const auto& [name, count] : counts) {
    if (name.rfind("errors_", 0) == 0) {
      std::fprintf(stderr, "%s: %lld\n", name.c_str(), static_cast<long long>(count));
    }
  }
  for (const std::string& error : errors) std::fprintf(stderr, "first %s\n", error.c_str());
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(Options options) {
  if (options.core) {
    MeasureCore(options.tasks, options.workers.back());
    return 0;
  }
  absl::StatusOr<int64_t> files = rpc::RaiseFileLimit();
  if (!files.ok()) return Fail(files.status());
  auto sample = Sample::Read(options.like, options.cubin_bytes);
  if (!sample.ok()) return Fail(sample.status());
  if (options.client) {
    std::cout << Fleet(&*sample, options.fleet).Run().Write();
    return 0;
  }
  auto problems = problem::LoadSet(options.problems);
  if (!problems.ok()) return Fail(problems.status());
  std::printf("a trial: %lld bytes, sealed with 39 others %.0f; an incumbent: %lld bytes\n\n",
              static_cast<long long>(sample->MeanTrialBytes()), sample->SealedBytesPerTrial(40),
              static_cast<long long>(sample->MeanIncumbentBytes()));
  PrintHead();
  bool whole = true;
  for (const int tasks : options.tasks) {
    for (const int workers : options.workers) {
      auto measured = Measure(options, *sample, *problems, workers, tasks);
      if (!measured.ok()) {
        std::printf("| %d | %d | %s |\n", workers, tasks, measured.status().ToString().c_str());
        whole = false;
        continue;
      }
      whole &= measured->lost == 0 && measured->twice == 0;
      Print(*std::move(measured));
    }
  }
  return whole ? 0 : 2;
}

}  // namespace
}  // namespace warpsmith::bench

int main(int argc, char** argv) {
  using namespace warpsmith::bench;
  Options options;
  options.planner = absl::StrCat(warpsmith::base::ProgramFolder(), "/warpsmith-planner");
  CLI::App app("What one planner carries");
  app.add_option("--workers", options.workers)->delimiter(',')->capture_default_str();
  app.add_option("--tasks", options.tasks)->delimiter(',')->capture_default_str();
  app.add_option("--like", options.like,
                 "what `warpsmith show TASK -o json` printed: a file for "
                 "each task whose trials and incumbent are taken");
  app.add_option("--problems", options.problems, "problem set (JSON)")->capture_default_str();
  app.add_option("--planner", options.planner, "program")->capture_default_str();
  app.add_option("--dir", options.folder, "the planner's folder, kept; one configuration only");
  app.add_option("--clients", options.clients, "processes")->capture_default_str();
  app.add_option("--warmup", options.warmup_s, "seconds before the window, after all came")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "of the window")->capture_default_str();
  app.add_option("--interval", options.interval_s, "seconds between calls; 0: as the planner asks")
      ->capture_default_str();
  app.add_option("--lease", options.lease_s, "seconds")->capture_default_str();
  app.add_option("--trials-per-second", options.trials_per_second)->capture_default_str();
  app.add_option("--task-seconds", options.task_seconds, "budget")->capture_default_str();
  app.add_option("--cubin-bytes", options.cubin_bytes, "added to each incumbent")
      ->capture_default_str();
  app.add_option("--served", options.served,
                 "tasks of earlier runs, worked on and over, before the first")
      ->capture_default_str();
  app.add_flag("--redis", options.redis, "a planner on a Redis server, which is started, too");
  app.add_flag("--scrape", options.scrape,
               "its metrics are asked for every 15 s; without, it counts nothing");
  app.add_flag("--tls", options.tls, "by TLS, with a certificate for each eight workers");
  app.add_flag("--storm", options.storm,
               "with --redis: the planner is killed in the middle of the window, and all go to "
               "another one that followed it");
  app.add_flag("--core", options.core, "only commands of the core, without processes");
  // How the program starts its clients.
  app.add_flag("--client", options.client)->group("");
  app.add_option("--address", options.fleet.address)->group("");
  app.add_option("--certificates", options.fleet.certificates)->group("");
  app.add_option("--first", options.fleet.first)->group("");
  app.add_option("--count", options.fleet.count)->group("");
  app.add_option("--ramp", options.fleet.ramp_s)->group("");
  app.add_option("--start-us", options.fleet.start_us)->group("");
  app.add_option("--from-us", options.fleet.from_us)->group("");
  app.add_option("--until-us", options.fleet.until_us)->group("");
  app.add_option("--end-us", options.fleet.end_us)->group("");
  CLI11_PARSE(app, argc, argv);
  options.redis |= options.storm;
  options.fleet.interval_s = options.interval_s;
  options.fleet.lease_s = options.lease_s;
  options.fleet.trials_per_second = options.trials_per_second;
  return Run(std::move(options));
}
