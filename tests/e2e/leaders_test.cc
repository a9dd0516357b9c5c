// Several planners on one Redis: one is killed or stopped, Redis is, what is between them is cut or
// slow. Nothing that was accepted is lost or counted twice, and no two leaders' writes are mixed.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/rpc/address.h"
#include "common/store/redis/redis_store.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/planners.h"
#include "tests/e2e/witness.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;
// From a leader's death to the next one's answers.
constexpr absl::Duration kTakeover = absl::Seconds(10);

// Workers as a supervisor keeps them.
class Workers {
 public:
  Workers(const Planners& planners, int count) {
    for (int i = 0; i < count; ++i) {
      commands_.push_back({kBin + "/warpsmith-worker", "--dir", folder_ / absl::StrCat("w", i),
                           "--planner", *planners.Addresses(), "--device", "host", "--name",
                           absl::StrCat("w", i), "--compile-jobs", "1"});
      processes_.push_back(std::make_unique<Process>(commands_.back()));
    }
  }
  void Tend() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (!processes_[i]->Running()) processes_[i] = std::make_unique<Process>(commands_[i]);
    }
  }
  void Kill(size_t i) { processes_[i]->Signal(SIGKILL); }
  size_t count() const { return processes_.size(); }
  std::string Errors(size_t i) const { return processes_[i]->Errors(); }
  std::vector<int> Down() {
    std::vector<int> codes;
    for (auto& process : processes_) process->Signal(SIGTERM);
    for (auto& process : processes_) codes.push_back(process->Wait(absl::Seconds(60)).code);
    return codes;
  }

 private:
  support::TemporaryFolder folder_;
  std::vector<std::vector<std::string>> commands_;
  std::vector<std::unique_ptr<Process>> processes_;
};

// Of the log that Redis keeps: the revisions are without gaps, and once another epoch has written,
// those before it never do.
void CheckLog(Planners& planners) {
  store::redis::Connection redis({.address = planners.redis().address()}, absl::Seconds(10));
  const auto log = redis.Do({"XRANGE", "warpsmith:{default}:log", "-", "+"});
  REQUIRE(log.ok());
  int64_t last = 0, epoch = 0;
  for (size_t i = 0; i < log->size(); ++i) {
    const std::string name(log->at(i).at(0).text());
    int64_t revision = 0, of = 0;
    REQUIRE(absl::SimpleAtoi(name.substr(0, name.find('-')), &revision));
    REQUIRE(absl::SimpleAtoi(name.substr(name.find('-') + 1), &of));
    INFO("event " << name);
    CHECK((i == 0 || revision == last + 1));
    CHECK(of >= epoch);
    last = revision;
    epoch = of;
  }
}

absl::Duration Between(absl::Duration least, absl::Duration most, std::mt19937_64& random) {
  return least + std::uniform_real_distribution<>(0, 1)(random) * (most - least);
}

// What may happen, by name. "leader" and "follower" are what they are then.
constexpr const char* kFaults[] = {
    "leader killed",        "leader stopped",        "leader cut off",  "leader's Redis cut",
    "leader's Redis slow",  "leader's Redis silent", "follower killed", "follower stopped",
    "follower's Redis cut", "Redis killed",          "Redis stopped",   "callers cut",
    "callers slow",         "worker killed",
};

class Torment {
 public:
  Torment(Planners& planners, Workers& workers, std::mt19937_64& random)
      : planners_(planners), workers_(workers), random_(random) {}

  // One run, and what happens at random moments of it, as long as it lasts. At most one worker is
  // killed in it: a task that three were lost with is parked.
  void Run(const std::string& set, const std::string& run_id) {
    REQUIRE(Eventually(absl::Seconds(90), [&] {
      Tend();
      return planners_.Warpsmith(
                 {"submit", set, "--seconds", "8", "--request-id", run_id, "--arch", "host"}) == 0;
    }));
    Witness witness(planners_, run_id);
    bool killed_worker = false;
    while (!witness.done()) {
      if (faults_.empty()) {
        faults_.assign(std::begin(kFaults), std::end(kFaults));
        std::shuffle(faults_.begin(), faults_.end(), random_);
      }
      Pause(Between(absl::Milliseconds(100), absl::Milliseconds(1500), random_), &witness);
      if (witness.done()) break;
      const std::string fault = faults_.back();
      if (fault == "worker killed" && std::exchange(killed_worker, true)) {
        std::iter_swap(faults_.end() - 1, faults_.begin());
        if (faults_.size() == 1) faults_.clear();
        continue;
      }
      faults_.pop_back();
      Inflict(fault);
      ++counts_[fault];
      ++faults_done_;
      const bool answers = Eventually(absl::Seconds(90), [&] {
        Tend();
        return witness.Look();
      });
      INFO("after: " << fault << "\n" << planners_.Logs());
      REQUIRE(answers);
    }
    witness.LookClosely();
    CHECK(witness.tasks() == 4);
    const auto tasks = planners_.List(run_id);
    REQUIRE(tasks.ok());
    for (const v1::Task& task : tasks->tasks()) {
      INFO(task.ShortDebugString() << planners_.Logs());
      CHECK(task.state() == v1::CONVERGED);
    }
    CheckLog(planners_);
  }

  int faults() const { return faults_done_; }
  std::string Counted() const {
    const auto word = [](std::string* out, const auto& count) {
      absl::StrAppend(out, count.second, " ", count.first);
    };
    return absl::StrJoin(counts_, ", ", word);
  }

 private:
  void Tend() {
    planners_.Tend();
    workers_.Tend();
  }

  void Pause(absl::Duration duration, Witness* witness = nullptr) {
    const base::Instant until = base::Now() + duration;
    Eventually(duration, [&] {
      Tend();
      if (witness != nullptr) witness->LookClosely();
      return base::Now() >= until;
    });
  }

  void Network(support::FaultProxy& proxy, const support::Network& network,
               absl::Duration duration) {
    proxy.Set(network);
    Pause(duration);
    proxy.Set({});
  }

  void Inflict(const std::string& fault) {
    int leader = -1;
    REQUIRE(Eventually(absl::Seconds(60), [&] {
      Tend();
      leader = planners_.Leader();
      return leader >= 0;
    }));
    const int follower =
        (leader + 1 + static_cast<int>(random_() % (planners_.count() - 1))) % planners_.count();
    // Some outlast a takeover, most do not.
    const absl::Duration length = random_() % 3 == 0
                                      ? Between(absl::Seconds(7), absl::Seconds(12), random_)
                                      : Between(absl::Milliseconds(50), absl::Seconds(3), random_);
    const support::Network slow = {.latency = absl::Milliseconds(100 + random_() % 300),
                                   .jitter = absl::Milliseconds(100),
                                   .slice_bytes = 200};
    const support::Network silent = {.holds_requests = random_() % 2 == 0, .holds_replies = true};
    const auto stop = [&](int planner) {
      planners_.Signal(planner, SIGSTOP);
      Pause(length);
      planners_.Signal(planner, SIGCONT);
    };
    if (fault == "leader killed") return planners_.Signal(leader, SIGKILL);
    if (fault == "follower killed") return planners_.Signal(follower, SIGKILL);
    if (fault == "leader stopped") return stop(leader);
    if (fault == "follower stopped") return stop(follower);
    if (fault == "leader cut off") {
      planners_.back(leader).Set({.cut = true});
      Network(planners_.front(leader), {.cut = true}, length);
      return planners_.back(leader).Set({});
    }
    if (fault == "leader's Redis cut")
      return Network(planners_.back(leader), {.cut = true}, length);
    if (fault == "leader's Redis slow") return Network(planners_.back(leader), slow, length);
    if (fault == "leader's Redis silent") return Network(planners_.back(leader), silent, length);
    if (fault == "follower's Redis cut") {
      return Network(planners_.back(follower), {.cut = true}, length);
    }
    if (fault == "Redis killed") {
      planners_.redis().Signal(SIGKILL);
      Pause(std::min(length, absl::Seconds(3)));
      return planners_.redis().Start();
    }
    if (fault == "Redis stopped") {
      planners_.redis().Signal(SIGSTOP);
      Pause(length);
      return planners_.redis().Signal(SIGCONT);
    }
    if (fault == "callers cut") return Network(planners_.front(leader), {.cut = true}, length);
    if (fault == "callers slow") return Network(planners_.front(leader), slow, length);
    REQUIRE(fault == "worker killed");
    workers_.Kill(random_() % workers_.count());
  }

  Planners& planners_;
  Workers& workers_;
  std::mt19937_64& random_;
  std::vector<std::string> faults_;  // to come, the next one last
  std::map<std::string, int> counts_;
  int faults_done_ = 0;
};

}  // namespace

// WARPSMITH_FAULTS=N: at least so many, run after run; some eight a minute.
TEST_CASE("leaders, followers, Redis and all between them may fail at any moment") {
  const uint64_t seed = Catch::rngSeed() != 0 ? Catch::rngSeed() : 20261128;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Planners planners(kBin, 3, random());
  REQUIRE(planners.Ready());
  Workers workers(planners, 2);
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    const auto list = planners.List();
    return list.ok() && list->workers_size() == 2;
  }));
  const char* text = std::getenv("WARPSMITH_FAULTS");
  int wanted = 1;
  REQUIRE((text == nullptr || absl::SimpleAtoi(text, &wanted)));
  const support::TemporaryFolder sets;
  const std::string set = WriteSmallSet(sets.path());
  Torment torment(planners, workers, random);
  for (int run = 1; torment.faults() < wanted; ++run) {
    torment.Run(set, absl::StrCat("r", run));
    if (text != nullptr) {
      std::cerr << torment.faults() << " faults in " << run << " runs: " << torment.Counted()
                << std::endl;
    }
  }
  for (const int code : workers.Down()) CHECK(code == 0);
  INFO(planners.Logs());
  for (const int code : planners.Down()) CHECK(code == 0);
}

TEST_CASE("the next planner answers within ten seconds of the leader's death") {
  Planners planners(kBin, 3, 1);
  REQUIRE(planners.Ready());
  const bool resigns = GENERATE(false, true);
  const int leader = planners.Leader();
  REQUIRE(leader >= 0);
  planners.Signal(leader, resigns ? SIGTERM : SIGKILL);
  const base::Instant died = base::Now();
  INFO(planners.Logs());
  REQUIRE(Eventually(3 * kTakeover,
                     [&] { return planners.Leader() != leader && planners.List().ok(); }));
  const absl::Duration took = base::Now() - died;
  std::cerr << (resigns ? "resigned" : "killed") << ": the next one answers after "
            << absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(10))) << std::endl;
  CHECK(took < (resigns ? kTakeover / 2 : kTakeover));
}

TEST_CASE("a leader that was stopped writes nothing when it goes on, and follows") {
  Planners planners(kBin, 2, 1);
  REQUIRE(planners.Ready());
  const int old_leader = planners.Leader();
  const std::string board = planners.dir(old_leader) + "/board.md";
  const support::TemporaryFolder sets;
  const std::string set = WriteSmallSet(sets.path());
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host"}) == 0);
  REQUIRE(Eventually(absl::Seconds(10), [&] {
    return absl::StrContains(base::ReadFile(board).value_or(""), "| queued |");
  }));
  planners.Signal(old_leader, SIGSTOP);
  REQUIRE(Eventually(absl::Seconds(30), [&] {
    const int leader = planners.Leader();
    return leader >= 0 && leader != old_leader && planners.List().ok();
  }));
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host", "--request-id", "two"}) == 0);
  // What is written on its page meanwhile is nobody's order any more.
  const std::string mine =
      absl::StrReplaceAll(*base::ReadFile(board), {{"| queued |", "| hold |"}});
  REQUIRE_THAT(mine, Catch::Contains("| hold |"));
  REQUIRE(base::WriteFileAtomically(board, mine).ok());
  planners.Signal(old_leader, SIGCONT);
  // Asked directly it names the other one, and what it says is what the other one holds.
  REQUIRE(Eventually(absl::Seconds(20),
                     [&] { return planners.Logs().find("begins anew") != std::string::npos; }));
  INFO(planners.Logs());
  CHECK(planners.Leader() == 1 - old_leader);
  CHECK(planners.List()->tasks_size() == 8);
  const std::string kept = planners.dir(old_leader) + "/board.edited-1.md";
  CHECK(Eventually(absl::Seconds(20), [&] {
    const auto page = base::ReadFile(board);
    return page.ok() && page->rfind("> A copy", 0) == 0 && absl::StrContains(*page, kept);
  }));
  CHECK(base::ReadFile(kept).value_or("") == mine);
  const auto count = [&](v1::TaskState state) {
    const auto list = planners.List();
    return std::count_if(list->tasks().begin(), list->tasks().end(),
                         [&](const v1::Task& task) { return task.state() == state; });
  };
  CHECK(count(v1::QUEUED) == 8);
  // Whoever leads is found from any host.
  const Finished edited = planners.Warpsmith(
      {"board", "edit", "--editor", "sed -i '0,/| queued |/s//| hold: later |/'"});
  CHECK(edited == 0);
  CHECK_THAT(edited.err, Catch::Contains("hold r2/") && Catch::Contains(": done"));
  CHECK(count(v1::HELD) == 1);
  CheckLog(planners);
}

TEST_CASE("a replica that was behind and is promoted is noticed") {
  Planners planners(kBin, 2, 1);
  REQUIRE(planners.Ready());
  const support::TemporaryFolder sets;
  const std::string set = WriteSmallSet(sets.path());
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host"}) == 0);
  // As it was then, it comes back under the same address later.
  support::RedisServer& redis = planners.redis();
  const std::string stale = sets / "stale";
  std::filesystem::copy(redis.folder() + "/appendonlydir", stale);
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host", "--request-id", "two"}) == 0);
  redis.Signal(SIGKILL);
  std::filesystem::remove_all(redis.folder() + "/appendonlydir");
  std::filesystem::copy(stale, redis.folder() + "/appendonlydir");
  redis.Start();
  // Neither goes on from there: what was answered for is not there.
  const bool noticed = Eventually(absl::Seconds(30), [&] {
    const std::string logs = planners.Logs();
    return logs.find("has lost what it had made durable") != std::string::npos;
  });
  INFO(planners.Logs());
  REQUIRE(noticed);
}

TEST_CASE(
    "a real replica that was cut off and is promoted is noticed, and one that was not goes on") {
  const bool behind = GENERATE(false, true);
  INFO((behind ? "behind" : "up to date"));
  Planners planners(kBin, 2, 1);
  REQUIRE(planners.Ready());
  support::FaultProxy link([&] { return planners.redis().tcp_address(); }, 7);
  const std::string port = link.address().substr(link.address().rfind(':') + 1);
  support::RedisServer replica(support::RedisServer::Settings{
      {"port", std::to_string(support::FreePort())}, {"replicaof", "127.0.0.1 " + port}});
  const auto offset = [](const support::RedisServer& redis) {
    const std::string info = redis.Do({"INFO", "replication"});
    const size_t at = info.find("master_repl_offset:");
    return at == std::string::npos ? "" : info.substr(at, info.find('\r', at) - at);
  };
  const auto caught_up = [&] {
    return replica.Do({"INFO", "replication"}).find("master_link_status:up") != std::string::npos &&
           offset(replica) == offset(planners.redis());
  };
  const support::TemporaryFolder sets;
  const std::string set = WriteSmallSet(sets.path());
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host"}) == 0);
  REQUIRE(Eventually(absl::Seconds(20), caught_up));
  if (behind) link.Set({.cut = true});
  REQUIRE(planners.Warpsmith({"submit", set, "--arch", "host", "--request-id", "two"}) == 0);
  if (!behind) REQUIRE(Eventually(absl::Seconds(20), caught_up));
  planners.redis().Signal(SIGKILL);
  CHECK(replica.Do({"REPLICAOF", "NO", "ONE"}) == "OK");
  planners.PointRedisAt(replica.tcp_address());
  if (behind) {
    const bool noticed = Eventually(absl::Seconds(30), [&] {
      return planners.Logs().find("has lost what it had made durable") != std::string::npos;
    });
    INFO(planners.Logs());
    REQUIRE(noticed);
    // The other one with its next beat; nobody answers from there.
    CHECK(Eventually(absl::Seconds(10), [&] { return !planners.List().ok(); }));
  } else {
    INFO(planners.Logs());
    REQUIRE(Eventually(absl::Seconds(30), [&] { return planners.List().ok(); }));
    CHECK(planners.List()->runs_size() == 2);
  }
}

TEST_CASE("a rolling restart of planners loses no trial and no lease") {
  Planners planners(kBin, 3, 1);
  REQUIRE(planners.Ready());
  Workers workers(planners, 2);
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    const auto list = planners.List();
    return list.ok() && list->workers_size() == 2;
  }));
  const support::TemporaryFolder sets;
  REQUIRE(planners.Warpsmith(
              {"submit", WriteSmallSet(sets.path()), "--seconds", "12", "--arch", "host"}) == 0);
  Witness witness(planners);
  REQUIRE(Eventually(absl::Seconds(30), [&] {
    witness.LookClosely();
    return witness.trials() > 0;
  }));
  for (int i = 0; i < planners.count(); ++i) {
    planners.Signal(i, SIGTERM);
    REQUIRE(Eventually(absl::Seconds(20), [&] {
      planners.Tend();
      witness.LookClosely();
      const int leader = planners.Leader();
      return leader >= 0 && planners.Logs().find("ended") != std::string::npos &&
             planners.List().ok();
    }));
    const base::Instant until = base::Now() + absl::Seconds(3);
    Eventually(absl::Seconds(5), [&] {
      planners.Tend();
      witness.LookClosely();
      return base::Now() > until;
    });
  }
  INFO(planners.Logs());
  REQUIRE(Eventually(absl::Minutes(3), [&] {
    witness.LookClosely();
    return witness.done();
  }));
  CHECK(witness.lost_leases() == 0);
  const auto tasks = planners.List("r1");
  REQUIRE(tasks.ok());
  for (const v1::Task& task : tasks->tasks()) CHECK(task.state() == v1::CONVERGED);
  CheckLog(planners);
  for (const int code : workers.Down()) CHECK(code == 0);
  for (const int code : planners.Down()) CHECK(code == 0);
}

TEST_CASE("while Redis is away planners refuse and wait, and go on when it is back") {
  Planners planners(kBin, 2, 1);
  REQUIRE(planners.Ready());
  planners.redis().Signal(SIGKILL);
  const support::TemporaryFolder sets;
  const std::string set = WriteSmallSet(sets.path());
  REQUIRE(Eventually(absl::Seconds(20), [&] { return !planners.List().ok(); }));
  const Finished refused = planners.Warpsmith({"submit", set, "--arch", "host"});
  CHECK(refused == 3);
  planners.redis().Start();
  INFO(planners.Logs());
  REQUIRE(Eventually(absl::Seconds(30), [&] { return planners.List().ok(); }));
  CHECK(planners.Warpsmith({"submit", set, "--arch", "host"}) == 0);
  // One that is started meanwhile waits for it, and can be told to end.
  planners.Signal(0, SIGKILL);
  const size_t before = planners.Errors(0).size();  // where it may have waited already
  planners.redis().Signal(SIGKILL);
  REQUIRE(Eventually(absl::Seconds(30), [&] {
    planners.Tend();
    return planners.Errors(0).find("waiting for the store", before) != std::string::npos;
  }));
  for (const int code : planners.Down()) CHECK(code == 0);
}

namespace {

// A planner of its own, and what it answers.
class Alone : public Answers {
 public:
  explicit Alone(const std::string& dir, const std::vector<std::string>& more = {}) : dir_(dir) {
    std::vector<std::string> argv = {kBin + "/warpsmith-planner", "--dir", dir};
    argv.insert(argv.end(), more.begin(), more.end());
    process_ = std::make_unique<Process>(argv);
  }
  absl::StatusOr<std::string> Addresses() const override { return rpc::ReadAddress(dir_); }
  Process& process() { return *process_; }

 private:
  const std::string dir_;
  std::unique_ptr<Process> process_;
};

// All that is known of the tasks.
std::map<std::string, std::string> TasksOf(const Answers& answers) {
  std::map<std::string, std::string> tasks;
  absl::StatusOr<v1::ListReply> list;
  REQUIRE(Eventually(absl::Seconds(20), [&] { return (list = answers.List()).ok(); }));
  for (const v1::Task& task : list->tasks()) {
    const auto whole = answers.GetTask(task.id());
    REQUIRE(whole.ok());
    tasks[task.id()] = whole->ShortDebugString();
  }
  return tasks;
}

}  // namespace

TEST_CASE("a state moves to Redis and back, with all that is known of its tasks") {
  std::map<std::string, std::string> before;
  Fleet fleet(kBin, 1);
  REQUIRE(fleet.Ready());
  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "3", "--wait"},
                          absl::Minutes(2)) == 0);
  before = TasksOf(fleet);
  REQUIRE(before.size() == 4);
  support::RedisServer redis;
  const support::TemporaryFolder folder;
  const std::vector<std::string> there = {"--redis", redis.address(), "--shared",
                                          folder / "shared"};
  const auto migrate = [&](const std::string& dir, std::vector<std::string> more) {
    more.insert(more.begin(), {kBin + "/warpsmith", "--dir", dir, "store", "migrate"});
    more.insert(more.end(), there.begin(), there.end());
    return RunToEnd(more, absl::Seconds(60));
  };
  const Finished runs = migrate(fleet.dir(), {});
  CHECK(runs == 1);
  CHECK_THAT(runs.err, Catch::Contains("`warpsmith down` stops it"));
  REQUIRE(fleet.Down() == 0);
  const Finished moved = migrate(fleet.dir(), {});
  REQUIRE(moved == 0);
  CHECK_THAT(moved.err, Catch::Contains("1 run, 4 tasks"));
  CHECK_THAT(moved.err, Catch::Contains(".2 from here on"));
  CHECK_THAT(migrate(fleet.dir(), {}).err, Catch::Contains("is in use"));
  {
    Alone planner(folder / "shared-planner", there);
    CHECK(TasksOf(planner) == before);
    CHECK_THAT(migrate(folder / "back", {"--back"}).err,
               Catch::Contains("leads: end all planners"));
    planner.process().Signal(SIGTERM);
    CHECK(planner.process().Wait(absl::Seconds(20)) == 0);
  }
  const Finished back = migrate(folder / "back", {"--back"});
  REQUIRE(back == 0);
  CHECK_THAT(back.err, Catch::Contains(".3 from here on"));
  Alone planner(folder / "back");
  CHECK(TasksOf(planner) == before);
}

}  // namespace warpsmith::e2e
