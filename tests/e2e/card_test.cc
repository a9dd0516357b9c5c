// A fleet whose cards fail, as NVML would say it: the library is a script's, all else is real.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/process.h"
#include "tests/support/nvml_script.h"

namespace warpsmith::e2e {
namespace {

using Catch::Contains;
using support::NvmlScript;

const std::string kBin = WARPSMITH_BIN;
// Others on the card are seen where processes have the numbers that they have on the host.
const std::map<std::string, uint64_t> kWell = {{"sm_clock", 1980}, {"temperature", 40}};

// A planner, and workers on cards that a test makes up.
class Cards {
 public:
  Cards() { REQUIRE(fleet.Ready()); }

  NvmlScript& Card(const std::string& worker) {
    auto& script = scripts_[worker];
    if (script == nullptr) {
      script = std::make_unique<NvmlScript>(fleet.dir() + "/card-" + worker);
      script->Set(kWell);
    }
    return *script;
  }
  std::unique_ptr<Process> Start(const std::string& worker,
                                 const std::vector<std::string>& more = {},
                                 const std::string& library = NvmlScript::library()) {
    std::vector<std::string> argv = {"/usr/bin/env",
                                     absl::StrCat(NvmlScript::kVariable, "=", Card(worker).path()),
                                     kBin + "/warpsmith-worker",
                                     "--dir",
                                     fleet.dir(),
                                     "--device",
                                     "host",
                                     "--name",
                                     worker,
                                     "--nvml",
                                     library};
    argv.insert(argv.end(), more.begin(), more.end());
    return std::make_unique<Process>(argv);
  }
  // Nothing of that name: a worker without a name.
  v1::WorkerInfo Worker(const std::string& name) const {
    const auto list = fleet.List();
    if (!list.ok()) return {};
    for (const v1::WorkerInfo& worker : list->workers()) {
      if (worker.id() == name) return worker;
    }
    return {};
  }
  bool Idle(const std::string& name) const {
    const v1::WorkerInfo worker = Worker(name);
    return worker.healthy() && worker.task_id().empty();
  }

  Fleet fleet{kBin, 0};

 private:
  std::map<std::string, std::unique_ptr<NvmlScript>> scripts_;
};

TEST_CASE("a card that fails ends its lease without blame, and another worker goes on") {
  Cards cards;
  auto first = cards.Start("first");
  REQUIRE(Eventually(absl::Minutes(1), [&] { return cards.Idle("first"); }));
  const std::string set = WriteSmallSet(cards.fleet.dir());
  REQUIRE(cards.fleet.Warpsmith({"submit", set, "--arch", "host", "--seconds", "5"}) == 0);
  REQUIRE(Eventually(absl::Minutes(1), [&] { return !cards.Worker("first").task_id().empty(); }));

  // What a bad kernel does is the candidate's; memory that gave way ends the lease, and the next
  // one comes.
  const std::string lease = cards.Worker("first").lease_id();
  cards.Card("first").Xid(31);
  cards.Card("first").Xid(94);
  CHECK(Eventually(absl::Minutes(1), [&] {
    const v1::WorkerInfo worker = cards.Worker("first");
    return worker.healthy() && !worker.lease_id().empty() && worker.lease_id() != lease;
  }));
  CHECK_THAT(first->Errors(), Contains("Xid 31") && Contains("Xid 94"));
  CHECK_FALSE(cards.Worker("first").quarantined());

  cards.Card("first").Xid(79);
  REQUIRE(Eventually(absl::Minutes(1), [&] {
    const v1::WorkerInfo worker = cards.Worker("first");
    return worker.quarantined() && worker.task_id().empty();
  }));
  const v1::WorkerInfo failed = cards.Worker("first");
  CHECK_THAT(failed.fault(), Contains("fallen off the bus"));
  CHECK(failed.ledger_size() == 0);
  CHECK_THAT(cards.fleet.Warpsmith({"workers"}).out,
             Contains("quarantined: Xid 79: the card has fallen off the bus"));
  CHECK_THAT(cards.fleet.Warpsmith({"board"}).out, Contains("**quarantined**: Xid 79"));

  auto second = cards.Start("second");
  CHECK(cards.fleet.Warpsmith({"watch", "r1"}, absl::Minutes(3)) == 0);
  const auto list = cards.fleet.List("r1");
  REQUIRE(list.ok());
  for (const v1::Task& task : list->tasks()) {
    INFO(task.ShortDebugString());
    CHECK(task.state() == v1::CONVERGED);
    CHECK(task.losses() == 0);
  }

  // Starting it anew does not make the card better; a person who has seen to it does.
  first->Signal(SIGTERM);
  CHECK(first->Wait(absl::Seconds(30)) == 0);
  first = cards.Start("first");
  REQUIRE(Eventually(absl::Minutes(1), [&] { return cards.Worker("first").healthy(); }));
  CHECK(cards.Worker("first").quarantined());
  CHECK(cards.fleet.Warpsmith({"release", "first", "--reason", "a new card"}) == 0);
  CHECK(cards.Idle("first"));
  CHECK_FALSE(cards.Worker("first").quarantined());
  for (auto* worker : {&first, &second}) {
    (*worker)->Signal(SIGTERM);
    CHECK((*worker)->Wait(absl::Seconds(30)) == 0);
  }
}

TEST_CASE("a card that others have is refused, or marked") {
  Cards cards;
  cards.Card("w").Set({{"mig", 1}});
  auto refused = cards.Start("w");
  const Finished finished = refused->Wait(absl::Seconds(60));
  CHECK(finished == 2);
  CHECK_THAT(finished.err, Contains("the card is shared: it is a slice of one (MIG)") &&
                               Contains("--allow-shared"));
  auto marked = cards.Start("w", {"--allow-shared"});
  REQUIRE(Eventually(absl::Minutes(1), [&] { return cards.Idle("w"); }));
  CHECK_THAT(cards.Worker("w").shared(), Contains("MIG"));
  CHECK_THAT(cards.fleet.Warpsmith({"workers"}).out, Contains("its card is shared"));
  marked->Signal(SIGTERM);
  CHECK(marked->Wait(absl::Seconds(30)) == 0);

  auto blind = cards.Start("w", {}, "/nonexistent/libnvidia-ml.so");
  const Finished none = blind->Wait(absl::Seconds(60));
  CHECK(none == 2);
  CHECK_THAT(none.err, Contains("--nvml /nonexistent/libnvidia-ml.so: NVML was not found"));

  cards.Card("w").Set(kWell, {getpid()});  // which does not end
  auto late = cards.Start("w");
  const Finished waited = late->Wait(absl::Seconds(90));
  CHECK(waited == 1);
  CHECK_THAT(waited.err, Contains(absl::StrCat("process ", getpid(), " uses it, too")));
}

// Workers on a machine whose driver is a script's, with cards of its own.
class Machine {
 public:
  // Three cards of this test alone.
  Machine() {
    REQUIRE(fleet.Ready());
    for (int i = 0; i < 3; ++i) {
      const uint64_t number = static_cast<uint64_t>(getpid()) * 10 + i;
      absl::StrAppend(&cards_, i > 0 ? " " : "", number);
    }
  }

  const std::string& cards() const { return cards_; }
  // A program that is shown `cards`.
  static std::vector<std::string> On(const std::string& cards, const std::string& program,
                                     const std::string& dir, const std::vector<std::string>& more,
                                     const std::string& driver = WARPSMITH_CUDA_FOLDER) {
    std::vector<std::string> argv = {"/usr/bin/env",
                                     "LD_LIBRARY_PATH=" + driver,
                                     "WARPSMITH_CUDA_CARDS=" + cards,
                                     kBin + "/" + program,
                                     "--dir",
                                     dir};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  std::unique_ptr<Process> Start(const std::string& cards,
                                 const std::vector<std::string>& more = {}) const {
    return std::make_unique<Process>(On(cards, "warpsmith-worker", fleet.dir(), more));
  }
  // Of one that ends at once.
  Finished Refused(const std::string& cards, const std::vector<std::string>& more = {}) const {
    return RunToEnd(On(cards, "warpsmith-worker", fleet.dir(), more));
  }
  // By name: those that are connected.
  std::set<std::string> Workers() const {
    std::set<std::string> names;
    const auto list = fleet.List();
    if (!list.ok()) return names;
    for (const v1::WorkerInfo& worker : list->workers()) {
      if (!worker.lost()) names.insert(worker.arch() + " " + worker.id());
    }
    return names;
  }

  Fleet fleet{kBin, 0};

 private:
  std::string cards_;
};

TEST_CASE("workers of one machine find a card each") {
  const Machine machine;
  char host[256] = {};
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  const auto name = [&host](int card) { return absl::StrCat(host, "-cuda", card); };
  std::set<std::string> all;
  for (int i = 0; i < 3; ++i) all.insert("sm_90a " + name(i));

  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(machine.Start(machine.cards()));
  REQUIRE(Eventually(absl::Minutes(1), [&] { return machine.Workers() == all; }));

  // One more than there are cards, and one that wants a card of another's.
  const Finished fourth = machine.Refused(machine.cards());
  CHECK(fourth == 1);
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(fourth.err, Contains(absl::StrCat("cuda:", i, ": the card has a worker: ", name(i),
                                                 " (process ")));
  }
  const Finished same = machine.Refused(machine.cards(), {"--device", "cuda:1"});
  CHECK(same == 1);
  CHECK_THAT(same.err, Contains("--device cuda:1: the card has a worker: " + name(1)));

  // However it ends, its card is for the next one.
  workers[0]->Signal(SIGKILL);
  CHECK(workers[0]->Wait(absl::Seconds(30)) == 128 + SIGKILL);
  workers[0] = machine.Start(machine.cards(), {"--device", "cuda", "--name", "next", "--nvrtc",
                                               "/nonexistent/libnvrtc.so"});
  CHECK(Eventually(absl::Minutes(1), [&] { return machine.Workers().count("sm_90a next") == 1; }));
  CHECK_THAT(machine.Refused(machine.cards(), {"--device", "cuda"}).err,
             Contains(" next (process "));
  for (const auto& finished :
       {machine.fleet.Warpsmith({"workers"}), machine.fleet.Warpsmith({"workers", "-o", "json"})}) {
    CHECK_THAT(finished.out, Contains("lacks NVRTC (libnvrtc.so)") && Contains("--nvrtc PATH") &&
                                 Contains("lacks PyTorch"));
  }
  for (auto& worker : workers) {
    worker->Signal(SIGTERM);
    CHECK(worker->Wait(absl::Seconds(30)) == 0);
  }
}

TEST_CASE("a worker without a card works on the processor, unless a card is meant") {
  const Machine machine;
  const auto worker = machine.Start("", {"--name", "w"});
  CHECK(Eventually(absl::Minutes(1), [&] { return machine.Workers().count("host w") == 1; }));
  CHECK_THAT(worker->Errors(), Contains("no CUDA card, so it works on the processor"));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait(absl::Seconds(30)) == 0);
  const Finished none = machine.Refused("", {"--device", "cuda"});
  CHECK(none == 1);
  CHECK_THAT(none.err, Contains("no CUDA card was found"));

  // Nor where the driver is ill.
  const Finished ill = machine.Refused("broken");
  CHECK(ill == 1);
  CHECK_THAT(ill.err, Contains("a driver that does not start") && Contains("--device host"));
  CHECK(machine.Refused("broken", {"--list-devices"}) == 1);
  const Folder other;
  const Finished ends = RunToEnd(Machine::On("broken", "warpsmith", other.path(), {"up"}));
  CHECK(ends == 1);
  CHECK_THAT(ends.err,
             Contains("--list-devices` failed: the driver of its cards does not start: cuInit") &&
                 Contains("--device host"));
  const Finished listed = machine.Refused(machine.cards(), {"--list-devices"});
  CHECK(listed == 0);
  CHECK(listed.out == "cuda:0\ncuda:1\ncuda:2\nhost\n");
}

TEST_CASE("a card that does not open is passed over") {
  const Machine machine;
  // Both are of this process alone; the first does not open.
  const std::string ill = std::to_string((uint64_t{1} << 63) + getpid());
  const std::string cards = absl::StrCat(ill, " ", getpid());
  const auto worker = machine.Start(cards, {"--name", "w"});
  REQUIRE(Eventually(absl::Minutes(1), [&] { return machine.Workers().count("sm_90a w") == 1; }));
  CHECK_THAT(worker->Errors(), Contains("cards are passed over: cuda:0: CUDA PrimaryCtxRetain"));
  const Finished none = machine.Refused(cards);
  CHECK(none == 1);
  CHECK_THAT(none.err, Contains("no card is left") && Contains("cuda:0: CUDA PrimaryCtxRetain") &&
                           Contains("cuda:1: the card has a worker: w (process "));
  CHECK_THAT(machine.Refused(cards, {"--device", "cuda:0"}).err,
             Contains("--device cuda:0: CUDA PrimaryCtxRetain"));
  worker->Signal(SIGTERM);
  CHECK(worker->Wait(absl::Seconds(30)) == 0);
}

TEST_CASE("a driver that does not load or is too old is not the same as none") {
  const Folder text, old, dir;
  REQUIRE(base::WriteFileAtomically(text.path() + "/libcuda.so.1", "no library").ok());
  std::filesystem::copy_file(NvmlScript::library(), old.path() + "/libcuda.so.1");
  const std::pair<std::string, std::string> kRows[] = {
      {text.path(), "does not load: " + text.path() + "/libcuda.so.1"},
      {old.path(), "libcuda.so.1 has no function 'cuInit': it is too old"}};
  for (const auto& [driver, why] : kRows) {
    for (const char* device : {"auto", "cuda", "cuda:0"}) {
      const Finished worker =
          RunToEnd(Machine::On("", "warpsmith-worker", dir.path(), {"--device", device}, driver));
      CHECK(worker == 1);
      CHECK_THAT(worker.err, Contains("there is a driver that does not start: ") && Contains(why));
    }
    const Finished up = RunToEnd(Machine::On("", "warpsmith", dir.path(), {"up"}, driver));
    CHECK(up == 1);
    CHECK_THAT(up.err, Contains("the driver of its cards does not start: ") && Contains(why));
  }
}

TEST_CASE("`up` blames no driver for a worker that cannot run") {
  const Folder bin, dir;
  std::filesystem::copy_file(kBin + "/warpsmith", bin.path() + "/warpsmith");
  const std::string program = bin.path() + "/warpsmith-worker";
  const std::pair<std::string, std::string> kRows[] = {
      {"echo 'no such library' >&2; exit 127", "failed: no such library; mend that"},
      {"exit 3", "failed: it exited with status 3; mend that"},
      {"kill -9 $$", "failed: it was killed by signal 9 (Killed); mend that"}};
  for (const auto& [script, why] : kRows) {
    REQUIRE(base::WriteFileAtomically(program, absl::StrCat("#!/bin/sh\n", script, "\n")).ok());
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const Finished up = RunToEnd({bin.path() + "/warpsmith", "--dir", dir.path(), "up"});
    CHECK(up == 1);
    CHECK_THAT(up.err, Contains("`" + program + " --list-devices` " + why));
    CHECK_THAT(up.err, !Contains("driver"));
  }
}

}  // namespace
}  // namespace warpsmith::e2e
