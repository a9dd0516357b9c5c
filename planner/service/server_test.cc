// The service in this process: a real server on a real socket, a real store, simulated time.
#include "planner/service/server.h"

#include <netinet/in.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/file.h"
#include "common/rpc/health.h"
#include "common/store/sqlite_store.h"
#include "planner/service/planner.h"
#include "planner/service/served.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

using testing::AddResult;
using testing::AddStatus;
using testing::Client;
using testing::Folder;
using testing::Served;
using testing::SyncOf;
using testing::Take;

// A call that is parked: under way, and counted by the planner as its worker's.
std::future<absl::StatusOr<v1::SynchronizeReply>> ParkedCall(
    Client& client, const v1::SynchronizeRequest& request) {
  return std::async(std::launch::async, [&client, request] { return client.Synchronize(request); });
}

}  // namespace

// What List says of the run, page by page.
std::string Pages(Client& client, const std::string& run_id, int page_tasks, int* pages) {
  v1::ListRequest request;
  request.set_run_id(run_id);
  request.set_page_tasks(page_tasks);
  std::string text;
  for (*pages = 1;; ++*pages) {
    const auto page = client.List(request);
    REQUIRE(page.ok());
    CHECK((page_tasks == 0 || page->tasks_size() <= page_tasks));
    CHECK(page->runs_size() == (*pages == 1 ? 1 : 0));
    for (const v1::Run& run : page->runs()) text += run.ShortDebugString() + "\n";
    for (const v1::Task& task : page->tasks()) text += task.ShortDebugString() + "\n";
    if (page->more_after().empty()) return text;
    request.set_after_task(page->more_after());
  }
}

TEST_CASE("a run in the archive is listed, shown and named as it was, after a restart, too") {
  Folder folder;
  auto served = std::make_unique<Served>(folder);
  auto client = std::make_unique<Client>(served->address());
  REQUIRE(client->Submit(12, "q").ok());
  REQUIRE(client->Submit(1, "other").ok());
  std::string session;
  const v1::Lease lease = Take(*client, "w", session);
  v1::SynchronizeRequest report = SyncOf("w", session, 0);
  AddStatus(lease, 7, true, report);
  AddResult(lease, "t1", 2, report);
  REQUIRE(client->Synchronize(report).ok());
  REQUIRE(client->CancelRun("r1").ok());
  int pages = 0;
  const std::string run = Pages(*client, "r1", 0, &pages);
  CHECK(pages == 1);
  CHECK(Pages(*client, "r1", 5, &pages) == run);
  CHECK(pages == 3);
  CHECK(Pages(*client, "r1", 12, &pages) == run);
  CHECK(pages == 1);
  v1::ListRequest wrong;
  wrong.set_page_tasks(-1);
  CHECK(absl::IsInvalidArgument(client->List(wrong).status()));
  const std::string task = client->GetTask("r1/p0@host")->ShortDebugString();
  CHECK(client->List()->archived_runs() == 0);

  for (int starts = 0; starts < 2; ++starts) {
    client = nullptr;
    served->Close();
    CoreOptions options;
    options.keep_over_tasks = 0;
    served = std::make_unique<Served>(folder, "127.0.0.1:0", options);
    client = std::make_unique<Client>(served->address());
    served->Pass(1000);
    const auto list = client->List();
    REQUIRE(list.ok());
    CHECK(list->archived_runs() == 1);
    REQUIRE(list->runs_size() == 1);
    CHECK(list->runs(0).id() == "r2");
    CHECK(list->tasks_size() == 1);
    v1::ListRequest archived;
    archived.set_archived(true);
    REQUIRE(client->List(archived)->runs_size() == 1);
    CHECK(client->List(archived)->runs(0).id() == "r1");
    CHECK(Pages(*client, "r1", 0, &pages) == run);
    CHECK(Pages(*client, "r1", 5, &pages) == run);
    CHECK(pages == 3);
    CHECK(Pages(*client, "r1", 12, &pages) == run);
    CHECK(pages == 1);
    CHECK(client->GetTask("r1/p0@host")->ShortDebugString() == task);
    CHECK(absl::IsNotFound(client->GetTask("r1/p@host").status()));
    CHECK(absl::IsFailedPrecondition(client->SetTask("r1/p0@host", v1::QUEUED).status()));
    CHECK(client->Submit(12, "q")->run().id() == "r1");
    // Its worker is told to leave it.
    const auto late = client->Synchronize(report);
    CHECK((!late.ok() || late->drop_size() == 1));
    CHECK(absl::StrContains(client->GetBoard()->markdown(), "1 in the archive"));
  }
}

TEST_CASE("from submit to result, board and restart, over a socket") {
  Folder folder;
  const bool unix_socket = GENERATE(false, true);
  const std::string listen = unix_socket ? "unix:" + folder.path() + "/socket" : "127.0.0.1:0";
  auto served = std::make_unique<Served>(folder, listen);
  auto client = std::make_unique<Client>(served->address());
  const auto run = client->Submit(2, "q");
  INFO(run.status().ToString());
  REQUIRE(run.ok());
  CHECK(client->Submit(2, "q")->run().id() == run->run().id());

  std::string session;
  const v1::Lease lease = Take(*client, "w", session);
  CHECK(lease.task_id() == "r1/p0@host");
  CHECK(lease.problem().name() == "p0");
  CHECK(lease.policy() == "rules");
  CHECK_FALSE(lease.has_incumbent());
  v1::SynchronizeRequest report = SyncOf("w", session, 0);
  AddStatus(lease, 7, true, report);
  AddResult(lease, "t1", 2, report);
  for (int i = 0; i < 3; ++i) {
    const auto recorded = client->Synchronize(report);
    REQUIRE(recorded.ok());
    CHECK(std::vector<std::string>(recorded->recorded().begin(), recorded->recorded().end()) ==
          std::vector<std::string>{lease.id(), "t1"});
  }

  CHECK(client->SetPriority("r1", 12)->run().priority() == 12);

  const auto listed = client->List();
  REQUIRE(listed.ok());
  REQUIRE(listed->tasks_size() == 2);
  CHECK(listed->tasks(0).trials() == 1);

  served->Close();
  served = std::make_unique<Served>(folder, listen);
  client = std::make_unique<Client>(served->address());
  const auto task = client->GetTask("r1/p0@host");
  REQUIRE(task.ok());
  CHECK(task->task().speedup() == 2);
  CHECK(task->task().baseline_name() == "op_by_op");
  CHECK(task->task().trials() == 1);
  CHECK(task->incumbent().trial().id() == "t1");
  CHECK(task->problem().name() == "p0");
  REQUIRE(task->trials().trials_size() == 1);
  CHECK(task->trials().trials(0).action() == "vector_bytes 4 -> 16");

  // The old session goes on, and the next lease starts from what is known.
  auto held = client->SetTask("r1/p1@host", v1::HELD);
  REQUIRE(held.ok());
  CHECK(held->task().state() == v1::HELD);
  const auto next = client->Synchronize(SyncOf("w", session));
  REQUIRE(next.ok());
  REQUIRE(next->start_size() == 1);
  CHECK(next->start(0).fence() == 2);
  CHECK(next->start(0).incumbent().speedup() == 2);
  REQUIRE(next->start(0).judged_sources_size() == 1);
  CHECK(next->start(0).judged_sources(0) == base::Sha256Hex("source of t1"));

  const auto board = client->GetBoard();
  REQUIRE(board.ok());
  CHECK_THAT(board->markdown(), Catch::Contains("| p0 | leased | w |") &&
                                    Catch::Contains("1.00x to 2.00x: memory") &&
                                    Catch::Contains("policy rules, priority 12.\n"));
  CHECK(board->revision() > 0);
  served->Close();
  CHECK(*base::ReadFile(folder.path() + "/board.md") == board->markdown());
}

TEST_CASE("a lease carries its workload alone, and the problem is kept whole") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  v1::SubmitRequest request;
  *request.mutable_problems() = testing::SetOf(1);
  v1::Problem& problem = *request.mutable_problems()->mutable_problems(0);
  problem.mutable_workloads(0)->set_name("small");
  *problem.add_workloads() = problem.workloads(0);
  problem.mutable_workloads(1)->set_name("large");
  (*problem.mutable_workloads(1)->mutable_dims())["N"] = 4096;
  request.set_arch("host");
  REQUIRE(client.Submit(request)->run().task_ids_size() == 2);

  const std::string session = client.Synchronize(SyncOf("w", "", 2))->session_id();
  const auto reply = client.Synchronize(SyncOf("w", session, 2));
  REQUIRE(reply.ok());
  REQUIRE(reply->start_size() == 2);
  for (const v1::Lease& lease : reply->start()) {
    REQUIRE(lease.problem().workloads_size() == 1);
    const std::string& workload = lease.problem().workloads(0).name();
    CHECK(lease.task_id() == "r1/p0:" + workload + "@host");
    CHECK(lease.problem().workloads(0).dims().at("N") == (workload == "large" ? 4096 : 64));
  }
  CHECK(client.GetTask("r1/p0:large@host")->problem().workloads_size() == 2);
  CHECK_THAT(client.GetBoard()->markdown(), Catch::Contains("| p0:small | leased | w |"));
}

TEST_CASE("an idle worker's call is parked until there is work") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  const auto joined = client.Synchronize(SyncOf("w", ""));
  REQUIRE(joined.ok());
  CHECK(joined->start_size() == 0);
  const auto request = SyncOf("w", joined->session_id());

  auto parked = ParkedCall(client, request);
  REQUIRE(client.Submit(1).ok());
  const auto woken = parked.get();
  REQUIRE(woken.ok());
  CHECK(woken->start_size() == 1);
}

TEST_CASE(
    "a parked call ends when its time is over, its session is called again, or its caller goes") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  const std::string session = client.Synchronize(SyncOf("w", ""))->session_id();
  const auto request = SyncOf("w", session);
  Planner& planner = served.planner();
  // Straight at the planner, so that the order of calls is certain.
  std::promise<absl::StatusOr<v1::SynchronizeReply>> first, second, third;
  planner.Synchronize(planner.NewCall(), security::Caller{}, request,
                      [&](auto reply) { first.set_value(reply); });
  planner.Synchronize(planner.NewCall(), security::Caller{}, request,
                      [&](auto reply) { second.set_value(reply); });
  CHECK(first.get_future().get().status().code() == absl::StatusCode::kAborted);
  REQUIRE(client.List().ok());  // behind the second call: it is parked before time moves
  served.now_ms += CoreOptions{}.park_ms;
  planner.Tick();
  const auto over = second.get_future().get();
  REQUIRE(over.ok());
  CHECK(over->start_size() == 0);
  const int64_t call = planner.NewCall();
  planner.Synchronize(call, security::Caller{}, request,
                      [&](auto reply) { third.set_value(reply); });
  planner.Cancel(call);
  CHECK(third.get_future().get().status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("a client that goes away while parked costs nothing and leaves no lease behind") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  const std::string session = client.Synchronize(SyncOf("w", ""))->session_id();
  CHECK(client.Synchronize(SyncOf("w", session), 50).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
  REQUIRE(client.Submit(1).ok());
  // Whether the planner noticed or not: the lease is there for the worker when it calls again.
  const auto reply = client.Synchronize(SyncOf("w", session));
  REQUIRE(reply.ok());
  REQUIRE(reply->start_size() == 1);
  CHECK(reply->start(0).fence() == 1);
}

TEST_CASE("errors have their codes and say what to do") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  v1::SubmitRequest bad;
  *bad.mutable_problems() = testing::SetOf(1);
  bad.mutable_problems()->mutable_problems(0)->set_graph(1, "y: f32[n: N] = z[n]");
  CHECK(client.Submit(bad).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(client.GetTask("r9/x@host").status().code() == absl::StatusCode::kNotFound);
  CHECK(client.List("r9").status().code() == absl::StatusCode::kNotFound);
  CHECK(client.Synchronize(SyncOf("w", "old")).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(client.Synchronize(SyncOf("", "")).status().code() == absl::StatusCode::kInvalidArgument);
  v1::SynchronizeRequest large = SyncOf("w", "");
  for (int i = 0; i <= kMaxLeases; ++i) large.add_leases();
  CHECK(client.Synchronize(large).status().code() == absl::StatusCode::kInvalidArgument);
}

// Calls `then` with the message, each of its strings (of lists the first) being `text` in turn.
void EachString(google::protobuf::Message& whole, google::protobuf::Message& part,
                const std::string& text, const std::function<void(const std::string&)>& then) {
  using google::protobuf::FieldDescriptor;
  const auto& reflection = *part.GetReflection();
  for (int i = 0; i < part.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = part.GetDescriptor()->field(i);
    if (field->is_map()) continue;
    if (field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated()) {
      const std::string before = reflection.GetString(part, field);
      reflection.SetString(&part, field, text);
      then(field->full_name());
      reflection.SetString(&part, field, before);
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      reflection.AddString(&part, field, text);
      then(field->full_name());
      reflection.RemoveLast(&part, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      if (reflection.FieldSize(part, field) == 0) continue;
      EachString(whole, *reflection.MutableRepeatedMessage(&part, field, 0), text, then);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!reflection.HasField(part, field)) continue;
      EachString(whole, *reflection.MutableMessage(&part, field), text, then);
    }
  }
}

TEST_CASE("no string of a request is too long for the planner") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  const std::string text(20 << 20, 'x');  // larger than an event may be
  int strings = 0;
  const auto lives = [&](const std::string& field) {
    INFO(field);
    ++strings;
    REQUIRE(client.List().ok());
    REQUIRE(served.fatal.ok());
  };
  v1::SubmitRequest submit;
  *submit.mutable_problems() = testing::SetOf(1);
  submit.set_arch("host");
  EachString(submit, submit, text, [&](const std::string& field) {
    (void)client.Submit(submit);
    lives(field);
  });
  REQUIRE(client.Submit(1).ok());
  std::string session;
  const v1::Lease lease = Take(client, "w", session);
  for (const bool joins : {false, true}) {
    v1::SynchronizeRequest request = SyncOf("w", joins ? "" : session, 0);
    AddStatus(lease, 1, false, request);
    AddResult(lease, "t", 2, request);
    EachString(request, request, text, [&](const std::string& field) {
      (void)client.Synchronize(request);
      lives(field);
    });
    // What only a newer planner would know.
    v1::WorkerInfo& worker = *request.mutable_worker();
    worker.GetReflection()->MutableUnknownFields(&worker)->AddLengthDelimited(1000, text);
    CHECK(client.Synchronize(request).ok());
    lives("unknown");
    worker.DiscardUnknownFields();
    request.mutable_leases(0)->set_finished(true);
    for (std::string* said : {request.mutable_leases(0)->mutable_failure(),
                              request.mutable_leases(0)->mutable_reason()}) {
      *said = text;
      const auto reply = client.Synchronize(request);
      CHECK(reply.ok());
      lives("end of a lease");
    }
  }
  v1::SetTaskRequest hold;
  hold.set_task_id(lease.task_id());
  hold.set_state(v1::HELD);
  EachString(hold, hold, text, [&](const std::string& field) {
    (void)client.SetTask(hold);
    lives(field);
  });
  v1::SetPriorityRequest prioritize;
  prioritize.set_run_id("r1");
  prioritize.set_priority(1);
  EachString(prioritize, prioritize, text, [&](const std::string& field) {
    (void)client.SetPriority(prioritize);
    lives(field);
  });
  v1::ReleaseWorkerRequest release;
  release.set_worker_id("w");
  EachString(release, release, text, [&](const std::string& field) {
    (void)client.ReleaseWorker(release);
    lives(field);
  });
  CHECK(strings > 60);
}

TEST_CASE("the trials of very many specialists are counted together") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(1).ok());
  std::string session;
  const v1::Lease lease = Take(client, "w", session);
  v1::SynchronizeRequest request = SyncOf("w", session, 0);
  v1::LeaseResult& result = *request.add_results();
  result.set_lease_id(lease.id());
  result.set_task_id(lease.task_id());
  result.set_fence(lease.fence());
  for (int i = 0; i < kMaxTrialsInBatch; ++i) {
    v1::Trial& trial = *result.mutable_trials()->add_trials();
    trial.set_id(absl::StrCat("t", i));
    trial.set_specialist(absl::StrCat(i, std::string(2'000, 's')));  // 20 MB of names
  }
  REQUIRE(client.Synchronize(request).ok());
  REQUIRE(served.fatal.ok());
  CHECK(client.GetTask(lease.task_id())->task().trials() == kMaxTrialsInBatch);
}

TEST_CASE("a trial that was faster than light is known by its id") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(1).ok());
  std::string session;
  const v1::Lease lease = Take(client, "w", session);
  v1::SynchronizeRequest request = SyncOf("w", session, 0);
  AddResult(lease, "t1", 2, request);
  v1::Trial& trial = *request.mutable_results(0)->mutable_trials()->add_trials();
  trial.set_id("t2");
  trial.set_verdict(v1::IMPLAUSIBLE);
  trial.set_reason("too fast");
  REQUIRE(client.Synchronize(request).ok());
  CHECK(client.GetTask(lease.task_id())->task().implausible() == "trial t2: too fast");
}

TEST_CASE("workers that fall silent lose their leases at the planner's time") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  REQUIRE(client.Submit(1).ok());
  std::string session;
  Take(client, "w", session);
  served.Pass(CoreOptions{}.lease_ttl_ms);
  auto list = client.List();
  CHECK(list->tasks(0).state() == v1::QUEUED);
  CHECK(list->tasks(0).losses() == 1);
  served.Pass(CoreOptions{}.park_ms);
  CHECK(client.List()->workers_size() == 0);
}

TEST_CASE("a quarantined worker is told so, is listed while it is gone, and released") {
  Folder folder;
  auto served = std::make_unique<Served>(folder);
  auto client = std::make_unique<Client>(served->address());
  REQUIRE(client->Submit(4).ok());
  const auto join = [&](const std::string& worker) {
    return client->Synchronize(SyncOf(worker, "", 0))->session_id();
  };
  join("other");  // for whom is what the first one loses
  std::string session = join("w");
  for (int i = 0; i < 3; ++i) {
    CHECK(client->Synchronize(SyncOf("w", session))->start_size() == 1);
    session = join("w");
  }
  const std::string why = client->Synchronize(SyncOf("w", session))->quarantine();
  CHECK_THAT(why, Catch::Contains("r1/p2@host (started anew)"));
  CHECK_THAT(client->GetBoard()->markdown(), Catch::Contains("**quarantined**: r1/p0@host"));

  // Neither its end nor the planner's changes that.
  served->Pass(100'000);
  client = nullptr;
  served->Close();
  served = std::make_unique<Served>(folder);
  client = std::make_unique<Client>(served->address());
  auto list = client->List();
  REQUIRE(list->workers_size() == 1);
  CHECK(list->workers(0).quarantined());
  CHECK(list->workers(0).lost());
  CHECK(list->workers(0).ledger_size() == 3);
  CHECK(client->Synchronize(SyncOf("w", join("w")))->quarantine() == why);

  v1::ReleaseWorkerRequest release;
  release.set_worker_id("v");
  const auto unknown = client->ReleaseWorker(release);
  CHECK(unknown.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(unknown.status().message()), Catch::Contains("warpsmith workers"));
  release.set_worker_id("w");
  for (int i = 0; i < 2; ++i) {  // said again it is the same
    const auto released = client->ReleaseWorker(release);
    REQUIRE(released.ok());
    CHECK_FALSE(released->worker().quarantined());
  }
  const auto reply = client->Synchronize(SyncOf("w", join("w")));
  CHECK(reply->quarantine().empty());
  CHECK(reply->start_size() == 1);
}

TEST_CASE("a second server cannot share the port, and the health service tells the truth") {
  Folder folder, other;
  Served served(folder);
  CHECK(rpc::CheckHealth(served.address(), 10'000).ok());
  auto store = *store::SqliteStore::Open(other.path());
  auto planner = *Planner::Start(
      store.get(), {}, [] { return Now{}; }, [](const absl::Status&) {});
  const auto second =
      Server::Start(planner.get(), {.listen = served.address()}, [](const absl::Status&) {});
  CHECK(second.status().code() == absl::StatusCode::kUnavailable);
  planner->Stop();
  const std::string address = served.address();
  served.Close();
  CHECK_FALSE(rpc::CheckHealth(address, 10'000).ok());
}

// Holds as many connections to a port of this machine as it can, until it is told to go.
class Flood {
 public:
  explicit Flood(const std::string& address) {
    sockaddr_in to{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    child_ = fork();
    if (child_ != 0) return;
    for (int i = 0; i < 200; ++i) {
      const int held = socket(AF_INET, SOCK_STREAM, 0);
      if (held >= 0) connect(held, reinterpret_cast<sockaddr*>(&to), sizeof to);
    }
    pause();
    _exit(0);
  }
  ~Flood() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

TEST_CASE("a server whose listener went deaf says so, and one that has room again does not") {
  Folder folder;
  auto store = *store::SqliteStore::Open(folder.path());
  auto planner = *Planner::Start(
      store.get(), {}, [] { return Now{}; }, [](const absl::Status&) {});
  std::atomic<int> deaf{0};
  auto server = *Server::Start(planner.get(),
                               {.listen = "127.0.0.1:0",
                                .check = absl::Milliseconds(100),
                                .check_timeout = absl::Milliseconds(2500)},
                               [&](const absl::Status&) { ++deaf; });
  rlimit limit;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit old = limit;
  const int next = dup(0);
  close(next);
  limit.rlim_cur = static_cast<rlim_t>(next) + 30;
  const bool too_many = GENERATE(false, true);
  {
    if (too_many) REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Flood flood(server->address());
    absl::SleepFor(absl::Seconds(2));
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
  const auto end = absl::Now() + absl::Seconds(too_many ? 60 : 4);
  while (deaf == 0 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(50));
  CHECK(deaf == (too_many ? 1 : 0));
  server->Shutdown();
  planner->Stop();
}

TEST_CASE("a server says that all is well while its planner goes on, if that leads") {
  Folder folder;
  auto store = *store::SqliteStore::Open(folder.path());
  std::atomic<int64_t> now_ms{1'000'000};
  absl::Mutex strand;  // the clock is asked on it
  auto planner = *Planner::Start(
      store.get(), {},
      [&] {
        absl::MutexLock lock(&strand);
        return Now{++now_ms, now_ms};
      },
      [](const absl::Status&) {});
  std::atomic<int> well{0};
  auto server = *Server::Start(planner.get(),
                               {.listen = "127.0.0.1:0",
                                .tick = absl::Milliseconds(5),
                                .check = absl::Milliseconds(5),
                                .on_well = [&] { ++well; }},
                               [](const absl::Status&) {});
  const auto more = [&](absl::Duration limit) {
    const int before = well;
    const base::Instant end = base::Now() + limit;
    while (well < before + 3 && base::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return well - before;
  };
  server->SetServing(true);
  CHECK(more(absl::Seconds(30)) >= 3);
  {
    absl::MutexLock stuck(&strand);
    CHECK(more(absl::Milliseconds(300)) <= 2);  // what was under way
    server->SetServing(false);
    CHECK(more(absl::Seconds(30)) >= 3);
    server->SetServing(true);
  }
  CHECK(more(absl::Seconds(30)) >= 3);
  server->Shutdown();
  planner->Stop();
}

TEST_CASE("shutting down releases parked calls and answers new ones Unavailable") {
  Folder folder;
  Served served(folder);
  Client client(served.address());
  const std::string session = client.Synchronize(SyncOf("w", ""))->session_id();
  std::promise<absl::StatusOr<v1::SynchronizeReply>> parked, late;
  Planner& planner = served.planner();
  planner.Synchronize(planner.NewCall(), security::Caller{}, SyncOf("w", session),
                      [&](auto reply) { parked.set_value(reply); });
  planner.Drain();
  CHECK(parked.get_future().get().status().code() == absl::StatusCode::kUnavailable);
  planner.Synchronize(planner.NewCall(), security::Caller{}, SyncOf("w", session),
                      [&](auto reply) { late.set_value(reply); });
  CHECK(late.get_future().get().status().code() == absl::StatusCode::kUnavailable);
  served.Close();
  CHECK(served.fatal.ok());
}

TEST_CASE("a planner that another one has replaced in the store answers nobody") {
  Folder folder;
  auto store = *store::SqliteStore::Open(folder.path());
  std::promise<absl::Status> fatal;
  auto planner = *Planner::Start(
      store.get(), {}, [] { return Now{}; },
      [&](const absl::Status& status) { fatal.set_value(status); });
  REQUIRE(store->Lead().ok());
  bool answered = false;
  planner->Synchronize(planner->NewCall(), security::Caller{}, SyncOf("w", ""),
                       [&](auto) { answered = true; });
  CHECK(fatal.get_future().get().code() == absl::StatusCode::kFailedPrecondition);
  planner->Stop();
  CHECK_FALSE(answered);
}

TEST_CASE("a board that could not be written is written when it can be") {
  Folder folder;
  const std::string board = folder.path() + "/board.md";
  auto store = *store::SqliteStore::Open(folder.path());
  PlannerOptions options;
  options.board_path = board;
  auto planner = *Planner::Start(
      store.get(), options,
      [] {
        return Now{1, 1};
      },
      [](const absl::Status&) {});
  // Its ticks are asynchronous: whoever asks for the board is answered after what was asked before.
  const auto tick = [&] {
    planner->Tick();
    std::promise<void> done;
    planner->GetBoard([&](auto) { done.set_value(); });
    done.get_future().wait();
  };
  std::filesystem::create_directory(board);  // nothing can be renamed onto it
  tick();
  CHECK(std::filesystem::is_directory(board));
  std::filesystem::remove(board);
  tick();
  CHECK(std::filesystem::is_regular_file(board));
}

TEST_CASE("a board of another store is not written over") {
  Folder folder, other;
  const auto start = [](const Folder& where) {
    auto store = *store::SqliteStore::Open(where.path());
    PlannerOptions options;
    options.board_path = where.path() + "/board.md";
    auto planner = Planner::Start(
        store.get(), options,
        [] {
          return Now{1, 1};
        },
        [](const absl::Status&) {});
    if (!planner.ok()) return planner.status();
    (*planner)->Tick();
    std::promise<void> done;
    (*planner)->GetBoard([&](auto) { done.set_value(); });
    done.get_future().wait();
    (*planner)->Stop();
    return absl::OkStatus();
  };
  CHECK(start(folder) == absl::OkStatus());
  CHECK(start(folder) == absl::OkStatus());  // its own
  const std::string board = folder.path() + "/board.md", theirs = other.path() + "/board.md";
  std::filesystem::copy_file(board, theirs);
  const absl::Status refused = start(other);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(absl::StrContains(refused.message(), theirs));
  CHECK(*base::ReadFile(theirs) == *base::ReadFile(board));
  std::filesystem::remove(theirs);
  CHECK(start(other) == absl::OkStatus());
  CHECK(*base::ReadFile(theirs) != *base::ReadFile(board));
}

TEST_CASE("a checkpoint and the rest of the log make the state again") {
  Folder folder;
  std::string before;
  for (int i = 0; i < 4; ++i) {
    auto store = *store::SqliteStore::Open(folder.path());
    PlannerOptions options;
    options.events_per_checkpoint = 3;
    auto planner = *Planner::Start(
        store.get(), options,
        [] {
          return Now{1, 1};
        },
        [](const absl::Status&) {});
    const auto list = [&] {
      std::promise<std::string> listed;
      planner->List({}, [&](auto reply) { listed.set_value(reply->ShortDebugString()); });
      return listed.get_future().get();
    };
    CHECK(list() == (i == 0 ? list() : before));
    for (int j = 0; j < 5; ++j) {
      std::promise<void> done;
      planner->Synchronize(planner->NewCall(), security::Caller{},
                           SyncOf(absl::StrCat("w", i, j), ""), [&](auto reply) {
                             REQUIRE(reply.ok());
                             done.set_value();
                           });
      done.get_future().wait();
    }
    before = list();
    planner->Stop();
    CHECK(LoadState(*store)->revision() == *store->LastRevision());
  }
}

}  // namespace warpsmith::planner
