// A backup in the middle of a run: its planner is lost with its store, another one goes on from the
// backup, and the workers come back with what they hold of the time after it. And what nothing
// names goes, while all else stays.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/answers.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/moved_date.h"
#include "tests/e2e/process.h"
#include "tests/e2e/witness.h"
#include "tests/support/redis_server.h"

namespace warpsmith::e2e {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

const std::string kBin = WARPSMITH_BIN;
constexpr int kWorkers = 2;

// A planner at one address, on one store after the other, and workers on the host.
class Lab : public Answers {
 public:
  Lab() {
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Process>(std::vector<std::string>{
          kBin + "/warpsmith-worker", "--dir", folder_ / "workers", "--planner", address(),
          "--device", "host", "--name", absl::StrCat("w", i), "--compile-jobs", "1"}));
    }
  }

  // `store`: the flags that name it.
  void Start(const std::string& dir, const std::vector<std::string>& store) {
    std::vector<std::string> argv = {kBin + "/warpsmith-planner", "--dir", dir, "--listen",
                                     address()};
    argv.insert(argv.end(), store.begin(), store.end());
    planner_ = std::make_unique<Process>(argv);
    const bool answers = Eventually(absl::Seconds(60), [this] { return List().ok(); });
    INFO(planner_->Errors());
    REQUIRE(answers);
  }
  void Signal(int signal) { planner_->Signal(signal); }
  // How often the planner's log says so.
  int Says(const std::string& text) const {
    const std::string log = planner_->Errors();
    int times = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++times;
    return times;
  }
  void Kill() {
    planner_->Signal(SIGKILL);
    planner_->Wait(absl::Seconds(30));
  }

  std::string address() const { return "unix:" + folder_ / "socket"; }
  absl::StatusOr<std::string> Addresses() const override { return address(); }
  Finished Warpsmith(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kBin + "/warpsmith");
    return RunToEnd(arguments, absl::Minutes(2));
  }
  Finished Ask(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--planner", address()});
    return Warpsmith(std::move(arguments));
  }

  // Of the workers' outboxes.
  int64_t Held() const {
    int64_t bytes = 0;
    for (int i = 0; i < kWorkers; ++i) {
      std::error_code error;
      const auto size = std::filesystem::file_size(
          folder_ / absl::StrCat("workers/worker-w", i, "/outbox"), error);
      if (!error) bytes += static_cast<int64_t>(size);
    }
    return bytes;
  }
  const std::string& folder() const { return folder_.path(); }
  std::string Logs() const {
    std::string text = "== planner\n" + planner_->Errors();
    for (const auto& worker : workers_) text += "== worker\n" + worker->Errors();
    return text;
  }

 private:
  Folder folder_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::unique_ptr<Process> planner_;
};

int64_t TrialsOf(const Lab& lab) {
  const auto list = lab.List();
  int64_t trials = 0;
  if (!list.ok()) return -1;
  for (const v1::Task& task : list->tasks()) trials += task.trials();
  return trials;
}

// `before` and `after`: flags of the store, of a planner and of `warpsmith store`.
struct Stores {
  std::vector<std::string> before, after;
};

void CheckRun(Lab& lab, const Stores& stores) {
  const std::string first = lab.folder() + "/first", second = lab.folder() + "/second";
  lab.Start(first, stores.before);
  REQUIRE(lab.Ask({"submit", WriteSmallSet(lab.folder()), "--seconds", "5"}) == 0);
  REQUIRE(Eventually(absl::Minutes(2), [&] { return TrialsOf(lab) > 0; }));

  // What was acknowledged before the backup.
  Witness witness(lab);
  witness.LookClosely();
  const std::string backup = lab.folder() + "/backup";
  std::vector<std::string> store = {"--dir", first, "-o", "json", "store", "backup", backup};
  store.insert(store.end(), stores.before.begin(), stores.before.end());
  const Finished made = lab.Warpsmith(store);
  REQUIRE(made == 0);
  const json said = json::parse(made.out);
  CHECK(said["tasks"] == 4);
  CHECK(lab.Warpsmith({"--dir", backup, "store", "check"}) == 0);

  // The run goes on. Then nobody hears the workers any more, and what they find stays with them.
  const int64_t trials = said["trials"];
  REQUIRE(Eventually(absl::Minutes(2), [&] { return TrialsOf(lab) > trials; }));
  lab.Signal(SIGSTOP);
  // Unless both are just between two leases.
  Eventually(absl::Seconds(30), [&] { return lab.Held() > 0; });
  lab.Kill();

  store = {"--dir", second, "store", "restore", backup};
  store.insert(store.end(), stores.after.begin(), stores.after.end());
  const Finished restored = lab.Warpsmith(store);
  REQUIRE(restored == 0);
  CHECK_THAT(restored.err, Contains(absl::StrCat("after event ", said["last_event"].dump())) &&
                               Contains("4 tasks"));
  // Not again over what is there now.
  CHECK(lab.Warpsmith(store).code != 0);
  lab.Start(second, stores.after);
  const bool ended = Eventually(absl::Minutes(5), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(lab.Logs());
  REQUIRE(ended);
  witness.LookClosely();
  CHECK(witness.tasks() == 4);
  const auto list = lab.List();
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    // Each trial counts once: as many are there as are counted.
    const auto whole = lab.GetTask(task.id());
    REQUIRE(whole.ok());
    CHECK(whole->trials().trials_size() == task.trials());
  }
  CHECK(lab.Held() == 0);
  const Finished board = lab.Ask({"board"});
  // One that the planner never answered after the backup has nothing of that time.
  CHECK_THAT(board.out, Contains("Restored on ") && Contains(" came back, ") &&
                            Contains("are not in the backup"));
}

TEST_CASE("a run goes on from its backup: of a folder") {
  Lab lab;
  CheckRun(lab, {});
}

TEST_CASE("a run goes on from its backup: of Redis") {
  support::RedisServer redis;
  Lab lab;
  const auto cluster = [&](const std::string& name) {
    return std::vector<std::string>{
        "--redis", redis.address(), "--shared", lab.folder() + "/" + name, "--cluster", name};
  };
  CheckRun(lab, {cluster("first-lab"), cluster("second-lab")});
}

// Everything that a task names can be read: by a client, and by a backup of the planner's store.
// `store`: the flags that name it.
void CheckNamed(Lab& lab, const std::string& dir, const std::vector<std::string>& store) {
  const auto list = lab.List();
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    const auto whole = lab.GetTask(task.id());
    INFO(task.id() << ": " << whole.status().ToString());
    REQUIRE(whole.ok());
    CHECK(whole->problem().workloads_size() > 0);
    CHECK(whole->has_incumbent() == !task.incumbent_blob().empty());
  }
  for (const v1::Run& run : list->runs()) {
    const Finished exported = lab.Ask({"export", run.id(), "--out", lab.folder() + "/export"});
    INFO(exported.err);
    CHECK(exported == 0);
  }
  const std::string backup = lab.folder() + "/backup";
  std::filesystem::remove_all(backup);
  std::vector<std::string> make = {"--dir", dir, "store", "backup", backup};
  make.insert(make.end(), store.begin(), store.end());
  CHECK(lab.Warpsmith(make) == 0);
}

void CheckCollects(Lab& lab, MovedDate& date, const std::vector<std::string>& store) {
  const std::string dir = lab.folder() + "/first";
  std::vector<std::string> flags = store;
  flags.insert(flags.end(), {"--keep-unreferenced", "1m"});
  lab.Start(dir, flags);
  // Until some kernel has taken the place of another.
  const std::string set = WriteSmallSet(lab.folder());
  const auto replaced = [&] {
    const auto list = lab.List();
    return list.ok() && lab.Says("has a better kernel") > list->tasks_size();
  };
  for (int runs = 1; !replaced(); ++runs) {
    REQUIRE(runs <= 10);
    REQUIRE(lab.Ask({"submit", set, "--seconds", "3"}) == 0);
    REQUIRE(Eventually(absl::Minutes(3), [&] {
      const auto list = lab.List();
      return list.ok() && list->runs_size() == runs && list->runs(runs - 1).done();
    }));
  }
  int minutes = 0;
  const bool collected = Eventually(absl::Minutes(3), [&] {
    date.Set(absl::Minutes(minutes += 2));
    return Eventually(absl::Seconds(3), [&] { return lab.Says("that nothing named are removed"); });
  });
  INFO(lab.Logs());
  REQUIRE(collected);
  CheckNamed(lab, dir, store);
  // By a planner that reads all of it again.
  lab.Kill();
  lab.Start(dir, flags);
  CheckNamed(lab, dir, store);
}

TEST_CASE("what no task names any more goes, and nothing else: of a folder") {
  if (!MovedDate::Works()) {
    WARN("no libfaketime here: scripts/install-deps.sh --tests brings it");
    return;
  }
  MovedDate date;
  Lab lab;
  CheckCollects(lab, date, {});
  CHECK(lab.Warpsmith({"--dir", lab.folder() + "/first", "store", "check"}) == 0);
}

TEST_CASE("what no task names any more goes, and nothing else: of Redis") {
  if (std::getenv("WARPSMITH_TEST_THOROUGH") == nullptr) return;  // the store's test has walks
  if (!MovedDate::Works()) {
    WARN("no libfaketime here: scripts/install-deps.sh --tests brings it");
    return;
  }
  support::RedisServer redis;
  MovedDate date;
  Lab lab;
  CheckCollects(
      lab, date,
      {"--redis", redis.address(), "--shared", lab.folder() + "/shared", "--cluster", "lab"});
}

}  // namespace
}  // namespace warpsmith::e2e
