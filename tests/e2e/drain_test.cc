// Workers that are told to go, and come back: nothing that they found is lost, and they end within
// the time that they are given. And that they find planners by a name with several addresses.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/address.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/process.h"
#include "tests/e2e/witness.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {
namespace {

using Catch::Matchers::Contains;

const std::string kBin = WARPSMITH_BIN;
constexpr absl::Duration kLimit = absl::Minutes(1);

// A planner by itself: workers come and go.
class Lone : public Answers {
 public:
  Lone() : planner_({kBin + "/warpsmith-planner", "--dir", dir()}) {}
  const std::string& dir() const { return folder_.path(); }
  absl::StatusOr<std::string> Addresses() const override { return rpc::ReadAddress(dir()); }
  bool Ready() const {
    return Eventually(kLimit, [this] { return List().ok(); });
  }
  Finished Warpsmith(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {kBin + "/warpsmith", "--dir", dir()});
    return RunToEnd(arguments);
  }
  std::vector<std::string> Worker(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = {
        kBin + "/warpsmith-worker", "--dir", dir(), "--device", "host", "--name", "lab-task7.0",
        "--compile-jobs",           "1"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  int64_t Trials() const {
    const auto list = List();
    int64_t trials = 0;
    if (list.ok()) {
      for (const v1::Task& task : list->tasks()) trials += task.trials();
    }
    return trials;
  }
  bool IsLeased() const {
    const auto list = List();
    return list.ok() && std::any_of(list->tasks().begin(), list->tasks().end(),
                                    [](const auto& t) { return t.state() == v1::LEASED; });
  }

 private:
  Folder folder_;
  Process planner_;
};

// What the worker says of its leases: "lease L: why after S s, N trials, ...", added up.
int64_t TrialsToldIn(const std::string& log) {
  static const std::regex kEnd(R"(lease \S+: .* after [0-9.]+ s, (\d+) trials)");
  int64_t sum = 0;
  for (std::sregex_iterator at(log.begin(), log.end(), kEnd), end; at != end; ++at) {
    int64_t trials = 0;
    REQUIRE(absl::SimpleAtoi((*at)[1].str(), &trials));
    sum += trials;
  }
  return sum;
}

std::string Rounded(absl::Duration time) {
  return absl::StrCat(absl::ToInt64Milliseconds(time), " ms");
}

TEST_CASE("a worker that is told to go hands back its lease with all that it has found") {
  const bool thorough = std::getenv("WARPSMITH_TEST_THOROUGH") != nullptr;
  const int drains = thorough ? 40 : 3;
  std::mt19937_64 random(7);
  Lone planner;
  REQUIRE(planner.Ready());
  REQUIRE(planner.Warpsmith({"submit", WriteSmallSet(planner.dir()), "--seconds", "3600",
                             "--policy", "random", "--arch", "host"}) == 0);
  int64_t told = 0;
  std::vector<absl::Duration> times;
  for (int i = 0; i < drains; ++i) {
    const int64_t before = planner.Trials();
    Process worker(planner.Worker());
    const bool works =
        Eventually(kLimit, [&] { return planner.IsLeased() && planner.Trials() > before; });
    INFO(worker.Errors());
    REQUIRE(works);
    absl::SleepFor(absl::Milliseconds(random() % 500));  // anywhere in a trial
    const base::Instant asked = base::Now();
    worker.Signal(SIGTERM);
    worker.Signal(SIGTERM);  // as from a scheduler and from the script that it started
    const Finished ended = worker.Wait(kLimit);
    times.push_back(base::Now() - asked);
    CHECK(ended == 0);
    CHECK_THAT(ended.err, Contains("ended in good order"));
    told += TrialsToldIn(ended.err);
    // Told and durable when it has ended: not once the next one tells it.
    CHECK_FALSE(planner.IsLeased());
    CHECK(planner.Trials() == told);
  }
  const auto list = planner.List();
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) CHECK(task.losses() == 0);
  Witness witness(planner);
  witness.LookClosely();  // none twice
  std::sort(times.begin(), times.end());
  std::cout << "drain: " << drains << " amid work, " << told << " trials by the workers' count, "
            << planner.Trials() << " by the planner's; from SIGTERM to the end, median "
            << Rounded(times[times.size() / 2]) << ", longest " << Rounded(times.back()) << "\n";
}

TEST_CASE("a worker whose trial does not end does so within its grace, and loses that alone") {
  Lone planner;
  REQUIRE(planner.Ready());
  REQUIRE(planner.Warpsmith({"submit", WriteSmallSet(planner.dir()), "--seconds", "3600",
                             "--policy", "random", "--arch", "host"}) == 0);
  Process worker(planner.Worker({"--grace", "4"}));
  REQUIRE(Eventually(kLimit, [&] { return planner.Trials() > 0; }));
  const auto judges = Descendants(worker.pid(), "warpsmith-judge");
  REQUIRE(judges.size() == 1);
  kill(judges[0], SIGSTOP);
  worker.Signal(SIGTERM);
  // Without the flag it takes 20 s.
  const Finished ended = worker.Wait(absl::Seconds(18));
  CHECK(ended == 1);
  CHECK_THAT(ended.err, Contains("without waiting any longer"));
  // The next of its name takes over at once, with what was found.
  const int64_t before = planner.Trials();
  Process next(planner.Worker());
  CHECK(Eventually(kLimit, [&] { return planner.Trials() > before; }));
  next.Signal(SIGTERM);
  CHECK(next.Wait(kLimit) == 0);
  Witness witness(planner);
  witness.LookClosely();
}

// A program that finds `name` at those addresses, and nothing else of this machine's hosts.
std::vector<std::string> WithHost(const std::string& hosts, const std::vector<std::string>& argv) {
  std::vector<std::string> all = {"unshare", "--mount"};
  if (geteuid() != 0) all.push_back("--map-root-user");
  all.insert(all.end(), {"--", "sh", "-ec", "mount --bind \"$0\" /etc/hosts; exec \"$@\"", hosts});
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

class At : public Answers {
 public:
  explicit At(std::string address) : address_(std::move(address)) {}
  absl::StatusOr<std::string> Addresses() const override { return address_; }
  bool Has(const std::string& worker) const {
    const auto list = List();
    return list.ok() &&
           std::any_of(list->workers().begin(), list->workers().end(),
                       [&](const v1::WorkerInfo& w) { return w.id() == worker && !w.lost(); });
  }

 private:
  const std::string address_;
};

TEST_CASE("planners are found by a name that has the addresses of all") {
  support::RedisServer redis;
  const Folder folder;
  const int port = support::FreePort();
  const std::string hosts = folder / "hosts";
  std::ofstream(hosts) << "127.0.0.1 localhost\n127.0.0.2 planners.test\n127.0.0.3 planners.test\n";
  const auto address = [port](const std::string& host) { return absl::StrCat(host, ":", port); };
  const auto planner = [&](const std::string& host) {
    return std::make_unique<Process>(std::vector<std::string>{
        kBin + "/warpsmith-planner", "--dir", folder / host, "--listen", address(host), "--redis",
        redis.address(), "--shared", folder / "shared"});
  };
  const auto worker = [&](const std::string& name) {
    return std::make_unique<Process>(WithHost(
        hosts, {kBin + "/warpsmith-worker", "--dir", folder / "worker", "--device", "host",
                "--planner", address("planners.test"), "--name", name, "--compile-jobs", "1"}));
  };
  const At second(address("127.0.0.2")), third(address("127.0.0.3"));

  auto first_leader = planner("127.0.0.2");
  REQUIRE(Eventually(kLimit, [&] { return second.List().ok(); }));
  auto follower = planner("127.0.0.3");
  auto a = worker("a");
  INFO(a->Errors());
  REQUIRE(Eventually(kLimit, [&] { return second.Has("a"); }));

  first_leader->Signal(SIGKILL);
  first_leader->Wait(kLimit);
  REQUIRE(Eventually(kLimit, [&] { return third.Has("a"); }));

  // Whichever of the two answers the name first, the worker comes to the one that leads.
  first_leader = planner("127.0.0.2");
  REQUIRE(Eventually(
      kLimit, [&] { return first_leader->Errors().find("listening on") != std::string::npos; }));
  auto b = worker("b");
  CHECK(Eventually(kLimit, [&] { return third.Has("b"); }));
  const Finished listed = RunToEnd(
      WithHost(hosts, {kBin + "/warpsmith", "--planner", address("planners.test"), "workers"}));
  CHECK(listed == 0);
  CHECK_THAT(listed.out, Contains("a ") && Contains("b "));
  for (auto* process : {&a, &b, &follower, &first_leader}) (*process)->Signal(SIGTERM);
  for (auto* process : {&a, &b, &follower, &first_leader}) CHECK((*process)->Wait(kLimit) == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
