// What the programs tell a service manager, which this test is: that they are ready, that they are
// well while they are, and that they end.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/e2e/process.h"
#include "tests/support/notify_socket.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::e2e {
namespace {

const std::string kBin = WARPSMITH_BIN;
constexpr absl::Duration kWatchdog = absl::Seconds(8);
constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr char kAlive[] = "WATCHDOG=1";

// A program as a service manager starts it.
class Service {
 public:
  explicit Service(std::vector<std::string> argv) {
    setenv("NOTIFY_SOCKET", manager_.name().c_str(), /*overwrite=*/1);
    setenv("WATCHDOG_USEC", absl::StrCat(absl::ToInt64Microseconds(kWatchdog)).c_str(), 1);
    process_ = std::make_unique<Process>(argv);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  Process& process() { return *process_; }
  support::NotifySocket& manager() { return manager_; }

  // More than once, each within the time of the watchdog.
  bool IsFed() {
    manager_.Forget();
    for (int i = 0; i < 2; ++i) {
      if (manager_.Await(kAlive, kWatchdog).empty()) return false;
    }
    return true;
  }

 private:
  support::NotifySocket manager_;
  std::unique_ptr<Process> process_;
};

void CheckLife(Service& service, const std::string& status) {
  const std::string ready = service.manager().Await("READY=1", kLimit);
  INFO(service.process().Errors());
  CHECK_THAT(ready, Catch::Contains(status));
  CHECK(service.IsFed());

  service.process().Signal(SIGSTOP);
  service.manager().Forget();
  CHECK(service.manager().Count(kAlive, kWatchdog / 2) == 0);  // twice the usual pause
  service.process().Signal(SIGCONT);
  CHECK(service.IsFed());

  service.process().Signal(SIGTERM);
  CHECK_FALSE(service.manager().Await("STOPPING=1", kLimit).empty());
  CHECK(service.process().Wait(kLimit) == 0);
  CHECK(service.manager().Count(kAlive, absl::ZeroDuration()) == 0);
}

TEST_CASE("a planner tells its service manager that it is ready, well and ending") {
  const support::TemporaryFolder folder;
  Service planner({kBin + "/warpsmith-planner", "--dir", folder.path()});
  CheckLife(planner, "STATUS=leads; listening on 127.0.0.1:");
}

TEST_CASE("a worker tells its service manager so, whether or not there is a planner") {
  const support::TemporaryFolder folder;
  Service worker({kBin + "/warpsmith-worker", "--dir", folder.path(), "--device", "host", "--name",
                  "w", "--compile-jobs", "1"});
  CheckLife(worker, "STATUS=worker w on ");
}

TEST_CASE("a planner that follows is ready and well, also while its store is away") {
  support::RedisServer redis;
  const support::TemporaryFolder folder;
  const auto argv = [&](const std::string& name) {
    return std::vector<std::string>{kBin + "/warpsmith-planner",
                                    "--dir",
                                    folder / name,
                                    "--redis",
                                    redis.address(),
                                    "--shared",
                                    folder / "shared"};
  };
  Service leader(argv("leader"));
  const std::string ready = leader.manager().Await("READY=1", kLimit);
  REQUIRE_THAT(ready, Catch::StartsWith("READY=1\nSTATUS=follows; "));
  const std::string leads = "STATUS=leads" + ready.substr(ready.find(';'));
  CHECK_FALSE(leader.manager().Await(leads, kLimit).empty());
  CHECK(leader.IsFed());
  Service follower(argv("follower"));
  CHECK_FALSE(follower.manager().Await("READY=1", kLimit).empty());
  CHECK(follower.IsFed());

  redis.Signal(SIGKILL);
  CHECK(follower.IsFed());
  Service late(argv("late"));
  CHECK_FALSE(late.manager().Await("STATUS=waits for the store", kLimit).empty());
  redis.Start();
  CHECK_FALSE(late.manager().Await("READY=1", kLimit).empty());
}

TEST_CASE("a planner that nobody can connect to does not say that it is well") {
  const support::TemporaryFolder folder;
  const std::string socket = folder / "socket";
  Service planner(
      {kBin + "/warpsmith-planner", "--dir", folder.path(), "--listen", "unix:" + socket});
  REQUIRE_FALSE(planner.manager().Await("READY=1", kLimit).empty());
  CHECK(planner.IsFed());
  REQUIRE(unlink(socket.c_str()) == 0);
  planner.manager().Await(kAlive, absl::Seconds(1));  // a check that was under way
  planner.manager().Forget();
  // It ends by itself, since those that are connected are answered.
  CHECK(planner.process().Wait(kLimit) == 5);
  CHECK(planner.manager().Count(kAlive, absl::Milliseconds(100)) == 0);
}

}  // namespace
}  // namespace warpsmith::e2e
