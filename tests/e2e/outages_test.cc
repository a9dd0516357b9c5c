// Outages of seconds: `up` goes on trying, says what it waits for, and nothing that was accepted is
// lost. Wrong usage alone ends it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/e2e/fleet.h"
#include "tests/e2e/witness.h"

namespace warpsmith::e2e {
namespace {

using Catch::Matchers::Contains;

const std::string kBin = WARPSMITH_BIN;
constexpr absl::Duration kOutage = absl::Seconds(4);

// A port of this machine that nobody listens on, and that nobody else can take while it is taken.
class Port {
 public:
  Port() {
    Take();
    socklen_t size = sizeof address_;
    REQUIRE(getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size) == 0);
  }
  ~Port() { Free(); }
  void Take() {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // What is left of connections to it is in nobody's way; who comes after us finds us in his.
    int reuse = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    // A process that was killed lets go of what it had a moment after its end is seen.
    REQUIRE(Eventually(absl::Seconds(5), [&] {
      return bind(socket_, reinterpret_cast<sockaddr*>(&address_), sizeof address_) == 0;
    }));
    reuse = 0;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  }
  void Free() { close(std::exchange(socket_, -1)); }
  std::string name() const { return "127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

 private:
  sockaddr_in address_{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  int socket_ = -1;
};

pid_t PlannerOf(Fleet& fleet) {
  const auto pids = Descendants(fleet.up().pid(), "warpsmith-planner");
  return pids.empty() ? 0 : pids[0];
}

// Kills the planner, and has `then` done before `up` sees it.
void KillPlanner(Fleet& fleet, const std::function<void()>& then) {
  pid_t planner = 0;
  REQUIRE(Eventually(absl::Seconds(30), [&] { return (planner = PlannerOf(fleet)) != 0; }));
  fleet.up().Signal(SIGSTOP);
  kill(planner, SIGKILL);
  REQUIRE(Eventually(absl::Seconds(5), [&] {
    std::ifstream stat("/proc/" + std::to_string(planner) + "/stat");
    std::string line;
    std::getline(stat, line);
    return line.find(") Z ") != line.npos;
  }));
  then();
  fleet.up().Signal(SIGCONT);
}

// The run goes on where it was, and ends.
void RequireEnd(Fleet& fleet, Witness& witness) {
  const bool ended = Eventually(absl::Minutes(2), [&] {
    witness.Look();
    return witness.done();
  });
  INFO(fleet.up().Errors() << fleet.Logs());
  REQUIRE(ended);
  witness.LookClosely();
  CHECK(witness.tasks() == 4);
  CHECK(fleet.up().Running());
}

size_t LinesWith(const std::string& text, const std::string& what) {
  std::istringstream lines(text);
  std::string line;
  size_t found = 0;
  while (std::getline(lines, line)) found += line.find(what) != line.npos ? 1 : 0;
  return found;
}

TEST_CASE("a planner that is killed ten times in a row is started each time") {
  Fleet fleet(kBin, 1);
  REQUIRE(fleet.Ready());
  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "2"}) == 0);
  Witness witness(fleet);
  for (int i = 0; i < 10; ++i) {
    // Some live to answer.
    if (i % 3 == 0) REQUIRE(Eventually(absl::Seconds(30), [&] { return witness.Look(); }));
    witness.LookClosely();
    KillPlanner(fleet, [] {});
  }
  RequireEnd(fleet, witness);
  // The first is told; the others are no news.
  CHECK(LinesWith(fleet.up().Errors(), "killed by signal 9") <= 5);
  CHECK(fleet.Down() == 0);
}

TEST_CASE("a planner that cannot start for some seconds is waited for") {
  Port port;
  int lock = -1;
  std::function<void(Fleet&)> begin, end;
  std::string says;
  SECTION("its address is taken") {
    begin = [&](Fleet&) { port.Take(); };
    end = [&](Fleet&) { port.Free(); };
    says = "cannot listen on " + port.name();
  }
  SECTION("another process holds its folder") {
    begin = [&](Fleet& fleet) {
      lock = open((fleet.dir() + "/planner.lock").c_str(), O_RDWR | O_CLOEXEC);
      REQUIRE(Eventually(absl::Seconds(5), [&] { return flock(lock, LOCK_EX | LOCK_NB) == 0; }));
    };
    end = [&](Fleet&) { close(lock); };
    says = "is in use by process";
  }
  port.Free();
  Fleet fleet(kBin, 1, {"--listen", port.name()});
  REQUIRE(fleet.Ready());
  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "2"}) == 0);
  Witness witness(fleet);
  witness.LookClosely();
  KillPlanner(fleet, [&] { begin(fleet); });
  absl::SleepFor(kOutage);
  CHECK(fleet.up().Running());
  CHECK(LinesWith(fleet.up().Errors(), says) == 1);
  end(fleet);
  RequireEnd(fleet, witness);
  CHECK(fleet.Down() == 0);
}

TEST_CASE("up waits for a planner that cannot start yet, until it can or a signal comes") {
  Port port;
  Folder folder;
  const std::vector<std::string> argv = {kBin + "/warpsmith", "--dir", folder.path(), "up",
                                         "--workers",         "0",     "--listen",    port.name()};
  const auto waits = [&](Process& up) {
    return Eventually(absl::Seconds(10), [&] {
      return up.Errors().find("cannot listen on " + port.name()) != std::string::npos;
    });
  };
  SECTION("a signal") {
    Process up(argv);
    REQUIRE(waits(up));
    up.Signal(GENERATE(SIGTERM, SIGINT));
    CHECK(up.Wait(absl::Seconds(5)) == 130);
  }
  SECTION("it can, with --detach") {
    std::vector<std::string> detached = argv;
    detached.push_back("--detach");
    Process up(detached);
    REQUIRE(waits(up));
    port.Free();
    CHECK(up.Wait(absl::Seconds(10)) == 0);
    CHECK(RunToEnd({argv[0], argv[1], argv[2], "down"}) == 0);
  }
}

TEST_CASE("wrong usage ends up at once, and is told") {
  Folder folder;
  const auto up = [&](const std::vector<std::string>& more) {
    std::vector<std::string> argv = {kBin + "/warpsmith", "--dir", folder.path(), "up",
                                     "--device",          "host",  "--workers",   "1"};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunToEnd(argv, absl::Seconds(20));
  };
  const bool detach = GENERATE(false, true);
  const auto [flag, value] = GENERATE(table<std::string, std::string>(
      {{"--listen", "no:such:address"}, {"--python", "/no/such/python"}}));
  std::vector<std::string> more = {flag, value};
  if (detach) more.push_back("--detach");
  const Finished finished = up(more);
  CHECK(finished == 2);
  CHECK_THAT(finished.err, Contains(value) && Contains("/logs"));
}

// Runs in a namespace where it may mount: see the case below.
TEST_CASE("a full disk, with a disk of its own", "[.disk]") {
  std::string dir;
  Fleet fleet(kBin, 1, {}, [&](const std::string& folder) {
    dir = folder;
    REQUIRE(mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64m") == 0);
  });
  REQUIRE(fleet.Ready());
  REQUIRE(fleet.Warpsmith({"submit", WriteSmallSet(fleet.dir()), "--seconds", "2"}) == 0);
  Witness witness(fleet);
  REQUIRE(Eventually(absl::Minutes(1), [&] {
    witness.LookClosely();
    return witness.trials() > 0;
  }));
  const std::string filler = dir + "/filler";
  const auto fill = [&] {
    std::ofstream file(filler, std::ios::app | std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), block.size()).flush()) {
    }
  };
  fill();
  KillPlanner(fleet, fill);
  absl::SleepFor(kOutage);
  CHECK(fleet.up().Running());
  CHECK_THAT(fleet.up().Errors(), Contains("No space left") || Contains("full"));
  REQUIRE(unlink(filler.c_str()) == 0);
  RequireEnd(fleet, witness);
  CHECK(fleet.Down() == 0);
  umount2(dir.c_str(), MNT_DETACH);
}

TEST_CASE("a disk that is full for some seconds ends nothing") {
  if (RunToEnd({"/usr/bin/unshare", "-rm", "/bin/true"}).code != 0) {
    WARN("not run: this system gives users no namespaces, so there is no small disk to fill");
    return;
  }
  char self[4096] = {};
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  const Finished finished =
      RunToEnd({"/usr/bin/unshare", "-rm", self, "[.disk]"}, absl::Minutes(4));
  INFO(finished.out << finished.err);
  CHECK(finished == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
