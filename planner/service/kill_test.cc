// The real planner is killed again and again in the middle of traffic. What it answered for is
// still there, and the work goes on.
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/health.h"
#include "planner/service/testing.h"

extern char** environ;

namespace warpsmith::planner {
namespace {

using testing::AddResult;
using testing::AddStatus;
using testing::Client;
using testing::Folder;
using testing::SyncOf;

class PlannerProcess {
 public:
  explicit PlannerProcess(const std::string& dir) : dir_(dir) { Start(); }
  ~PlannerProcess() { End(SIGKILL); }
  std::string address() const { return absl::StrCat("unix:", dir_, "/socket"); }

  void Start() {
    std::vector<std::string> words = {WARPSMITH_PLANNER, "--dir",       dir_, "--listen",
                                      address(),         "--log-level", "off"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    REQUIRE(posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  }
  int End(int signal) {
    if (pid_ <= 0) return 0;
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  bool Answers() {
    for (int i = 0; i < 1000; ++i) {
      if (rpc::CheckHealth(address(), 10'000).ok()) return true;
      usleep(10'000);  // it is another process: there is nothing to wait on
    }
    return false;
  }

 private:
  const std::string dir_;
  pid_t pid_ = -1;
};

// What the planner has answered for.
struct Promises {
  std::mutex mutex;
  std::map<std::string, double> recorded;     // task -> highest speedup
  std::map<std::string, std::string> leases;  // lease -> worker
  std::vector<std::string> broken;
  std::atomic<int> acknowledged{0};
};

class TestWorker {
 public:
  TestWorker(const std::string& id, const std::string& address, Promises& promises)
      : id_(id), client_(address), promises_(promises), random_(std::hash<std::string>()(id)) {}

  void Run(const std::atomic<bool>& stop) {
    while (!stop) Step();
  }

 private:
  // The same request until it is answered, as the protocol asks.
  void Step() {
    v1::SynchronizeRequest request = SyncOf(id_, session_, lease_.id().empty() ? 1 : 0);
    const bool finished = ++steps_ % 4 == 0;
    if (!lease_.id().empty()) {
      AddStatus(lease_, steps_ % 4 * 3.0 + 1, finished, request);
      AddResult(lease_, absl::StrCat(id_, "-", steps_), best_ += 0.01, request);
    }
    while (true) {
      request.set_session_id(session_);
      // Short: where all is done an idle call would be parked.
      const auto reply = client_.Synchronize(request, 2'000);
      if (reply.ok()) return Learn(request, *reply);
      if (reply.status().code() == absl::StatusCode::kFailedPrecondition) session_.clear();
      if (request.leases().empty()) return;
      usleep(static_cast<useconds_t>(random_() % 20'000));
    }
  }

  void Learn(const v1::SynchronizeRequest& request, const v1::SynchronizeReply& reply) {
    ++promises_.acknowledged;
    session_ = reply.session_id();
    std::lock_guard<std::mutex> lock(promises_.mutex);
    const auto named = [](const auto& list, const std::string& id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (const v1::LeaseResult& result : request.results()) {
      if (!named(reply.recorded(), result.incumbent().trial().id())) continue;
      double& best = promises_.recorded[result.task_id()];
      best = std::max(best, result.incumbent().speedup());
    }
    for (const v1::LeaseStatus& status : request.leases()) {
      const bool over = status.finished() && named(reply.recorded(), status.lease_id());
      if (over || named(reply.drop(), status.lease_id())) lease_.Clear();
    }
    for (const v1::Lease& lease : reply.start()) {
      const auto [known, fresh] = promises_.leases.emplace(lease.id(), id_);
      if (!fresh && known->second != id_) {
        promises_.broken.push_back(lease.id() + " was given to two workers");
      }
      lease_ = lease;
      best_ = std::max(lease.incumbent().speedup(), 1.0);
      steps_ = 0;
    }
  }

  const std::string id_;
  Client client_;
  Promises& promises_;
  std::mt19937_64 random_;
  std::string session_;
  v1::Lease lease_;
  double best_ = 1;
  int steps_ = 0;
};

bool AllDone(Client& client) {
  const auto list = client.List();
  if (!list.ok()) return false;
  return std::all_of(list->runs().begin(), list->runs().end(),
                     [](const v1::Run& run) { return run.done(); });
}

}  // namespace

TEST_CASE("SIGKILL of the planner loses nothing that it has answered for") {
  constexpr int kKills = 8;
  constexpr int kProblems = 25;
  Folder folder;
  PlannerProcess planner(folder.path());
  REQUIRE(planner.Answers());
  Client client(planner.address());
  REQUIRE(client.Submit(kProblems, "the one").ok());

  Promises promises;
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<TestWorker>> workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(
        std::make_unique<TestWorker>(absl::StrCat("w", i), planner.address(), promises));
    threads.emplace_back([&stop, worker = workers.back().get()] { worker->Run(stop); });
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < kKills; ++i) {
    while (!client.SetPriority("r1", i).ok()) usleep(10'000);
    // At any moment of the traffic, not at a moment of rest.
    const int until = promises.acknowledged + 5 + static_cast<int>(random() % 30);
    while (promises.acknowledged < until && !AllDone(client)) usleep(random() % 3'000);
    CHECK(WIFSIGNALED(planner.End(SIGKILL)));
    planner.Start();
    REQUIRE(planner.Answers());
    // Said again after a crash it is the same run.
    const auto again = client.Submit(kProblems, "the one");
    CHECK((!again.ok() || again->run().id() == "r1"));
  }
  for (int i = 0; i < 3'000 && !AllDone(client); ++i) usleep(10'000);
  CHECK(AllDone(client));
  stop = true;
  for (std::thread& thread : threads) thread.join();

  // In good order now; what comes back is what was promised.
  CHECK(WEXITSTATUS(planner.End(SIGTERM)) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/planner.address"));
  planner.Start();
  REQUIRE(planner.Answers());
  Client reader(planner.address());
  const auto list = reader.List("r1");
  REQUIRE(list.ok());
  REQUIRE(list->tasks_size() == kProblems);
  CHECK(list->runs(0).priority() == kKills - 1);
  CHECK(promises.broken.empty());
  CHECK(promises.recorded.size() == kProblems);
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    CHECK(task.speedup() == promises.recorded[task.id()]);
    CHECK(task.seconds_spent() <= task.seconds_budget() + 10);
    CHECK(reader.GetTask(task.id())->incumbent().speedup() == task.speedup());
  }
}

TEST_CASE("a commit that fails ends the planner with a status of its own") {
  Folder folder;
  PlannerProcess planner(folder.path());
  REQUIRE(planner.Answers());
  {
    // Another writer takes the store behind its back.
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open((folder.path() + "/warpsmith.db").c_str(), &db) == SQLITE_OK);
    const char* sql = "UPDATE meta SET value = value + 1 WHERE name = 'epoch'";
    CHECK(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
  }
  Client client(planner.address());
  const absl::Status status = client.Submit(1).status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(WEXITSTATUS(planner.End(0)) == 4);
}

}  // namespace warpsmith::planner
