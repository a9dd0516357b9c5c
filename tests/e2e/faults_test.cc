// Processes are killed and stopped, networks cut, deaf and slow, at random moments: nothing that
// was accepted is lost, work goes on and ends.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/rpc/address.h"
#include "tests/e2e/far_worker.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/witness.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;

using Workers = std::vector<std::unique_ptr<FarWorker>>;

void Tend(const Workers& workers) {
  for (const auto& worker : workers) worker->Tend();
}

// What a worker says that has had no answer for nearly as long as its lease lasts.
constexpr char kFenced[] = "for the time of the lease: stopping its work";

int CountOf(const std::string& what, const std::string& text) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++count;
  return count;
}

constexpr const char* kVictims[] = {"warpsmith-planner", "warpsmith-worker", "warpsmith-judge"};
constexpr const char* kNetworks[] = {"cut", "black hole", "requests held", "replies held", "slow"};
constexpr absl::Duration kLease = absl::Seconds(30);

// A network of that kind; a slow one is slow by chance.
support::Network NetworkOf(const std::string& kind, std::mt19937_64& random) {
  if (kind == "cut") return {.cut = true};
  if (kind == "black hole") return {.holds_requests = true, .holds_replies = true};
  if (kind == "requests held") return {.holds_requests = true};
  if (kind == "replies held") return {.holds_replies = true};
  const auto latency = absl::Milliseconds(std::uniform_int_distribution<>(1, 500)(random));
  return {.latency = latency,
          .jitter = latency * std::uniform_real_distribution<>(0, 1)(random),
          .bytes_per_second = std::uniform_int_distribution<>(10'000, 500'000)(random),
          .slice_bytes = std::uniform_int_distribution<>(20, 1'500)(random)};
}

struct Fault {
  enum What { kKilled, kStopped, kNetwork } what;
  std::string who;  // is killed or stopped; or what the network is like
  absl::Duration longest;
};

// Of a run of four tasks, or of several where one ends before: each victim is killed once and
// stopped once, and the network is once of each kind. More kills in one run would park tasks, as
// they are that three workers were lost with, whoever killed those. `outlasts`: one network is bad
// for longer than a lease lasts, from the beginning, and no stop is long; otherwise one stop in
// eight may be nearly as long as a lease. All others are mostly for less than anybody would notice.
// The last one is the first to come.
std::vector<Fault> FaultsOfRuns(bool outlasts, std::mt19937_64& random) {
  std::vector<Fault> faults;
  for (const char* victim : kVictims) {
    const bool is_long = !outlasts && random() % 8 == 0;
    faults.push_back({Fault::kKilled, victim, absl::ZeroDuration()});
    faults.push_back({Fault::kStopped, victim, absl::Seconds(is_long ? 25 : 3)});
  }
  for (const char* kind : kNetworks) faults.push_back({Fault::kNetwork, kind, absl::Seconds(5)});
  std::shuffle(faults.begin(), faults.end(), random);
  if (outlasts) {
    const auto network = std::find_if(faults.begin(), faults.end(), [](const Fault& fault) {
      return fault.what == Fault::kNetwork;
    });
    network->longest = 1.5 * kLease;
    std::iter_swap(network, faults.end() - 1);
  }
  return faults;
}

constexpr int kFaults = 22;  // each kind twice, if nobody says how many

int FaultsWanted() {
  const char* text = std::getenv("WARPSMITH_FAULTS");
  int wanted = kFaults;
  INFO("WARPSMITH_FAULTS is '" << (text == nullptr ? "" : text)
                               << "'; a number from 1 on is wanted");
  REQUIRE((text == nullptr || (absl::SimpleAtoi(text, &wanted) && wanted > 0)));
  return wanted;
}

// From 50 ms to the longest; one that is to outlast a lease does.
absl::Duration LengthOf(const Fault& fault, std::mt19937_64& random) {
  const absl::Duration least = fault.longest > kLease ? kLease : absl::Milliseconds(50);
  return least + std::uniform_real_distribution<>(0, 1)(random) * (fault.longest - least);
}

// A fleet whose workers are behind networks of their own, and what happens to it.
class Torment {
 public:
  Torment(const Fleet& fleet, const Workers& workers, std::mt19937_64& random)
      : fleet_(fleet), workers_(workers), random_(random) {}

  // The faults that the next runs are to see. Only where those before were all inflicted.
  void Plan(bool outlasts) { faults_ = FaultsOfRuns(outlasts, random_); }
  bool planned() const { return !faults_.empty(); }

  // One run, and what is planned at random moments of it, as long as it lasts. Gives how many
  // faults that were.
  int Run(const std::string& set, const std::string& run_id) {
    // Long enough that a worker still works on a task when its lease is given on.
    const bool outlasts = std::any_of(faults_.begin(), faults_.end(),
                                      [](const Fault& fault) { return fault.longest > kLease; });
    REQUIRE(Eventually(absl::Seconds(60), [&] {
      return fleet_.Warpsmith(
                 {"submit", set, "--seconds", outlasts ? "60" : "8", "--request-id", run_id}) == 0;
    }));
    Witness witness(fleet_, run_id);
    int faults = 0;
    while (planned()) {
      // A moment within a second or so of work, with eyes open.
      Watch(witness, absl::Milliseconds(std::uniform_int_distribution<>(100, 1500)(random_)));
      ReleaseAll();
      if (!Inflict(faults_.back(), witness)) break;
      Count(faults_.back());
      faults_.pop_back();
      ++faults;
      REQUIRE(Eventually(absl::Seconds(60), [&] {
        Tend(workers_);
        return witness.Look();
      }));
    }
    const bool ended = Eventually(absl::Minutes(outlasts ? 8 : 3), [&] {
      Tend(workers_);
      witness.Look();
      return witness.done();
    });
    INFO(fleet_.Logs());
    REQUIRE(ended);
    witness.LookClosely();
    CHECK(witness.tasks() == 4);
    lost_leases_ += witness.lost_leases();
    CheckEnd(run_id);
    return faults;
  }

  // "5 cut, 5 slow, ...; 3 leases were lost"
  std::string Counted() const {
    const auto word = [](std::string* out, const auto& count) {
      absl::StrAppend(out, count.second, " ", count.first);
    };
    return absl::StrCat(absl::StrJoin(counts_, ", ", word), "; ", lost_leases_,
                        " leases were lost");
  }

 private:
  void Count(const Fault& fault) {
    constexpr const char* kDone[] = {" killed", " stopped", ""};
    ++counts_[absl::StrCat(fault.who, kDone[fault.what],
                           fault.longest > kLease ? " for longer than a lease" : "")];
  }

  void Watch(Witness& witness, absl::Duration duration) {
    const base::Instant until = base::Now() + duration;
    while (base::Now() < until) {
      Tend(workers_);
      witness.LookClosely();
    }
  }

  // One that is hit each time looks sick, and is released by who knows better.
  void ReleaseAll() {
    const auto list = fleet_.List();
    for (int w = 0; list.ok() && w < list->workers_size(); ++w) {
      if (list->workers(w).quarantined()) fleet_.Warpsmith({"release", list->workers(w).id()});
    }
  }

  // False: the run ended before.
  bool Inflict(const Fault& fault, Witness& witness) {
    const absl::Duration length = LengthOf(fault, random_);
    return fault.what == Fault::kNetwork ? Disturb(fault, length, witness)
                                         : Hit(fault, length, witness);
  }

  // A worker's network, one time in four all of them; those that are good until then. It stays bad
  // while other things happen.
  bool Disturb(const Fault& fault, absl::Duration length, Witness& witness) {
    std::vector<FarWorker*> good;
    REQUIRE(Eventually(2 * kLease, [&] {
      Tend(workers_);
      witness.Look();
      good.clear();
      for (const auto& worker : workers_) {
        if (!worker->disturbed()) good.push_back(worker.get());
      }
      return !good.empty() || witness.done();
    }));
    if (witness.done()) return false;
    std::shuffle(good.begin(), good.end(), random_);
    if (random_() % 4 != 0) good.resize(1);
    for (FarWorker* worker : good) worker->Disturb(NetworkOf(fault.who, random_), length);
    return true;
  }

  bool Hit(const Fault& fault, absl::Duration length, Witness& witness) {
    std::vector<pid_t> pids;
    REQUIRE(Eventually(3 * kLease, [&] {
      Tend(workers_);
      witness.Look();
      pids = Descendants(getpid(), fault.who);
      return !pids.empty() || witness.done();
    }));
    if (witness.done() || pids.empty()) return false;
    const pid_t pid = pids[random_() % pids.size()];
    kill(pid, fault.what == Fault::kKilled ? SIGKILL : SIGSTOP);
    if (fault.what == Fault::kKilled) return true;
    Eventually(length, [&] {
      Tend(workers_);
      return false;
    });
    kill(pid, SIGCONT);
    return true;
  }

  void CheckEnd(const std::string& run_id) const {
    auto tasks = fleet_.List(run_id);
    REQUIRE(tasks.ok());
    for (const v1::Task& task : tasks->tasks()) {
      INFO(task.ShortDebugString());
      CHECK(task.state() == v1::CONVERGED);
      auto whole = fleet_.GetTask(task.id());
      REQUIRE(whole.ok());
      CHECK(whole->incumbent().solution().plans_size() > 0);
    }
  }

  const Fleet& fleet_;
  const Workers& workers_;
  std::mt19937_64& random_;
  std::vector<Fault> faults_;          // to come, the next one last
  std::map<std::string, int> counts_;  // of those that were
  int lost_leases_ = 0;
};

// WARPSMITH_FAULTS=N: at least so many, run after run; some eleven a minute. Of more than a few,
// every third plan has a network that is bad for longer than a lease lasts.
TEST_CASE("planner, worker and judge may be killed or stopped at any moment, and the network bad") {
  const uint64_t seed = Catch::rngSeed() != 0 ? Catch::rngSeed() : 20240607;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  Workers workers;
  for (const char* name : {"w0", "w1"}) {
    workers.push_back(std::make_unique<FarWorker>(fleet, kBin, name, random()));
  }
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == workers.size();
  }));
  const std::string set = WriteSmallSet(fleet.dir());
  const int wanted = FaultsWanted();
  int faults = 0;
  Torment torment(fleet, workers, random);
  for (int run = 1, plans = 0; faults < wanted; ++run) {
    INFO("run " << run << ", after " << faults << " faults");
    if (!torment.planned()) torment.Plan(wanted > kFaults && ++plans % 3 == 0);
    const int more = torment.Run(set, absl::StrCat("r", run));
    CHECK(more >= 1);  // the run doesn't end before
    faults += more;
    if (wanted > kFaults) {
      std::cerr << faults << " faults in " << run << " runs: " << torment.Counted() << std::endl;
    }
  }
  int fenced = 0;
  for (const auto& worker : workers) {
    INFO(worker->Errors());
    CHECK(worker->End() == 0);
    fenced += CountOf(kFenced, worker->Errors());
  }
  if (wanted > kFaults) std::cerr << fenced << " times a worker fenced itself" << std::endl;
  CHECK(fleet.Down() == 0);
}

// The small set with one task whose candidates take so long that its search outlasts a lease.
std::string WriteLongSet(const std::string& folder) {
  const std::string path = WriteSmallSet(folder);
  const auto text = base::ReadFile(path);
  REQUIRE(text.ok());
  const std::string small = R"("dims": {"R": 256, "C": 64})";
  REQUIRE(text->find(small) != std::string::npos);
  REQUIRE(base::WriteFileAtomically(
              path, absl::StrReplaceAll(*text, {{small, R"("dims": {"R": 2048, "C": 2048})"}}))
              .ok());
  return path;
}

TEST_CASE("a worker that is not heard, or hears nothing, stops before its lease is given on") {
  // Of the others each takes nearly a minute, too.
  const std::string kind =
      std::getenv("WARPSMITH_TEST_THOROUGH") == nullptr
          ? "black hole"
          : GENERATE(as<std::string>{}, "black hole", "cut", "requests held", "replies held");
  INFO(kind);
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const std::string kept = "r1/softmax_rows:narrow@host";
  REQUIRE(fleet.Warpsmith(
              {"submit", WriteLongSet(fleet.dir()), "--seconds", "200", "--arch", "host"}) == 0);
  const auto others = fleet.List("r1");
  REQUIRE(others.ok());
  for (const v1::Task& task : others->tasks()) {
    if (task.id() != kept) REQUIRE(fleet.Warpsmith({"cancel", task.id()}) == 0);
  }
  const auto worker_of = [&](int64_t fence) {
    const auto task = fleet.GetTask(kept);
    return task.ok() && task->task().fence() == fence ? task->task().worker_id() : "";
  };
  FarWorker first(fleet, kBin, "first", 1);
  REQUIRE(Eventually(absl::Seconds(60), [&] { return worker_of(1) == "first"; }));
  FarWorker second(fleet, kBin, "second", 2);
  Witness witness(fleet);
  REQUIRE(Eventually(absl::Seconds(60), [&] {
    witness.LookClosely();
    const auto list = fleet.List();
    return witness.trials() > 0 && list.ok() && list->workers_size() == 2;
  }));

  std::mt19937_64 random;
  first.Disturb(NetworkOf(kind, random), absl::Minutes(10));
  const bool given_on = Eventually(absl::Minutes(2), [&] { return worker_of(2) == "second"; });
  INFO(fleet.Logs() << "== first\n" << first.Errors() << "== second\n" << second.Errors());
  REQUIRE(given_on);
  CHECK(CountOf(kFenced, first.Errors()) == 1);
  // What it has to say now comes too late, and does no harm.
  first.Disturb({}, absl::ZeroDuration());
  const int64_t trials = witness.trials();
  CHECK(Eventually(absl::Seconds(60), [&] {
    witness.LookClosely();
    return witness.trials() > trials && first.Errors().find("answers again") != std::string::npos;
  }));
  CHECK(worker_of(2) == "second");
  CHECK(first.End() == 0);
  CHECK(second.End() == 0);
}

TEST_CASE("a worker whose judge does not start is quarantined, and works when it is mended") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  // A worker with a judge of its own beside it.
  const support::TemporaryFolder bin;
  for (const auto& file : std::filesystem::directory_iterator(kBin)) {
    const std::string name = file.path().filename();
    if (name == "warpsmith-worker") std::filesystem::copy_file(file, bin / name);
    if (name != "warpsmith-worker") std::filesystem::create_symlink(file, bin / name);
  }
  const std::string judge = bin / "warpsmith-judge";
  std::filesystem::remove(judge);
  std::ofstream(judge) << "#!/bin/sh\nexit 1\n";
  std::filesystem::permissions(judge, std::filesystem::perms::owner_all);
  const std::vector<std::string> command = {
      bin / "warpsmith-worker", "--dir", fleet.dir(), "--device", "host", "--name", "sick"};
  auto worker = std::make_unique<Process>(command);
  const auto said = [&](const std::string& text) {
    return worker->Errors().find(text) != std::string::npos;
  };
  const auto quarantined = [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == 1 && list->workers(0).quarantined();
  };
  REQUIRE(fleet.Warpsmith(
              {"submit", WriteSmallSet(fleet.dir()), "--seconds", "8", "--arch", "host"}) == 0);
  REQUIRE(Eventually(absl::Seconds(60), quarantined));
  // What it gave up is not of the tasks' budgets.
  const auto tasks = fleet.List();
  REQUIRE(tasks.ok());
  for (const auto& task : tasks->tasks()) CHECK(task.seconds_spent() == 0);
  CHECK(Eventually(absl::Seconds(10), [&] { return said("gives this worker nothing: 3 diff"); }));

  const Finished workers = fleet.Warpsmith({"workers"});
  CHECK(workers == 0);
  CHECK_THAT(workers.out, Catch::Contains("quarantined: r1/") && Catch::Contains("(gave it up), "));
  CHECK_THAT(workers.err, Catch::Contains("`warpsmith release sick`"));
  const auto json = nlohmann::json::parse(fleet.Warpsmith({"workers", "-o", "json"}).out);
  CHECK(json["workers"][0]["quarantined"] == true);
  CHECK(json["workers"][0]["ledger"].size() == 3);
  CHECK(json["workers"][0]["ledger"][0]["cause"] == "GIVEN_UP");
  CHECK_THAT(fleet.Warpsmith({"board"}).out, Catch::Contains("**1 quarantined**"));
  CHECK_THAT(fleet.Warpsmith({"runs", "r1"}).err, Catch::Contains("warpsmith release sick"));
  const Finished nobody = fleet.Warpsmith({"release", "nobody"});
  CHECK(nobody == 4);
  CHECK_THAT(nobody.err, Catch::Contains("no task 'nobody'") && Catch::Contains("nor is there"));

  // It goes by the worker's name, and by what is on the disk.
  kill(Descendants(fleet.up().pid(), "warpsmith-planner").at(0), SIGKILL);
  worker->Signal(SIGKILL);
  worker->Wait(absl::Seconds(10));
  worker = std::make_unique<Process>(command);
  REQUIRE(Eventually(absl::Seconds(60), [&] { return said("gives this worker nothing: 3 diff"); }));
  REQUIRE(Eventually(absl::Seconds(60), quarantined));

  Process watch({kBin + "/warpsmith", "--dir", fleet.dir(), "watch", "r1"});
  CHECK(Eventually(absl::Seconds(30), [&] {
    return watch.Errors().find("every worker for 'host' is quarantined") != std::string::npos;
  }));
  std::filesystem::rename(bin / "warpsmith-judge", bin / "broken");
  std::filesystem::create_symlink(kBin + "/warpsmith-judge", judge);
  const Finished released = fleet.Warpsmith({"release", "sick", "--reason", "a new judge"});
  CHECK(released == 0);
  CHECK(released.err == "worker sick is released\n");
  CHECK(fleet.Warpsmith({"release", "sick"}) == 1);
  INFO(worker->Errors());
  CHECK(watch.Wait(absl::Minutes(5)) == 0);
  CHECK(said("gives this worker work again"));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait(absl::Seconds(30)) == 0);
}

TEST_CASE("two workers of one name: one works, the other waits for the name and then takes it") {
  Fleet fleet(kBin, 0);
  REQUIRE(fleet.Ready());
  const auto address = rpc::ReadAddress(fleet.dir());
  REQUIRE(address.ok());
  const support::TemporaryFolder folders[2];
  const auto worker = [&](const support::TemporaryFolder& folder) {
    return std::vector<std::string>{kBin + "/warpsmith-worker",
                                    "--dir",
                                    folder.path(),
                                    "--planner",
                                    *address,
                                    "--device",
                                    "host",
                                    "--name",
                                    "w"};
  };
  const auto live = [&] {
    const auto list = fleet.List();
    return list.ok() && list->workers_size() == 1 && list->workers(0).healthy();
  };
  Process first(worker(folders[0]));
  REQUIRE(Eventually(absl::Seconds(60), live));
  Process second(worker(folders[1]));
  const auto refused = [](const Process& process) {
    return process.Errors().find("another process is at work under the name 'w'") !=
           std::string::npos;
  };
  REQUIRE(Eventually(absl::Seconds(60), [&] { return refused(second); }));

  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "4"}) == 0);
  Witness witness(fleet);
  // One that is killed and started again has its name at once.
  REQUIRE(Eventually(absl::Seconds(60), [&] { return witness.Look() && witness.trials() > 0; }));
  first.Signal(SIGKILL);
  first.Wait(absl::Seconds(10));
  Process again(worker(folders[0]));
  const bool ended = Eventually(absl::Minutes(3), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(fleet.Logs());
  INFO(again.Errors() << second.Errors());
  REQUIRE(ended);
  CHECK_FALSE(refused(again));
  const auto list = fleet.List("r1");
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
  }
  // Who leaves in good order leaves the name to whoever waits for it.
  again.Signal(SIGTERM);
  CHECK(again.Wait(absl::Seconds(30)) == 0);
  CHECK(Eventually(absl::Seconds(60), live));
  second.Signal(SIGTERM);
  CHECK(second.Wait(absl::Seconds(30)) == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
