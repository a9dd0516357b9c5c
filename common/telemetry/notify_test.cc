#include "common/telemetry/notify.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/support/notify_socket.h"

namespace warpsmith::telemetry {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(10);

TEST_CASE("a service manager is told in its own words, by a path or an abstract name") {
  const std::string name = GENERATE(std::string(), absl::StrCat("@warpsmith-", getpid()));
  support::NotifySocket manager(name);
  const Notifier notifier(manager.name().c_str(), nullptr, nullptr);
  notifier.Ready("listening\non 127.0.0.1:1");
  CHECK(manager.Next(kLimit) == "READY=1\nSTATUS=listening on 127.0.0.1:1");
  notifier.Status("leads");
  CHECK(manager.Next(kLimit) == "STATUS=leads");
  notifier.Watchdog();
  CHECK(manager.Next(kLimit) == "WATCHDOG=1");
  notifier.Stopping();
  CHECK(manager.Next(kLimit) == "STOPPING=1");
}

TEST_CASE("without a socket, or with nobody there, nothing is sent and nothing fails") {
  const std::string too_long(200, 'x');
  for (const char* socket :
       {static_cast<const char*>(nullptr), "", "/nowhere/notify", "@nobody", too_long.c_str()}) {
    const Notifier notifier(socket, nullptr, nullptr);
    notifier.Ready("ready");
    notifier.Watchdog();
    notifier.Stopping();
    CHECK(notifier.watchdog() == absl::InfiniteDuration());
  }
}

TEST_CASE("a watchdog's time is taken where it is meant for this process") {
  const std::string self = absl::StrCat(getpid()), other = absl::StrCat(getppid());
  struct Case {
    const char *socket, *usec, *pid;
    absl::Duration expected;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"@s", "2000000", nullptr, absl::Seconds(2)},
           {"@s", "2000000", self.c_str(), absl::Seconds(2)},
           {"@s", "2000000", other.c_str(), absl::InfiniteDuration()},
           {"@s", "2000000", "me", absl::InfiniteDuration()},
           {"@s", nullptr, self.c_str(), absl::InfiniteDuration()},
           {"@s", "0", nullptr, absl::InfiniteDuration()},
           {"@s", "-1", nullptr, absl::InfiniteDuration()},
           {"@s", "soon", nullptr, absl::InfiniteDuration()},
           {nullptr, "2000000", nullptr, absl::InfiniteDuration()},
       }) {
    CAPTURE(c.usec == nullptr ? "" : c.usec, c.pid == nullptr ? "" : c.pid);
    CHECK(Notifier(c.socket, c.usec, c.pid).watchdog() == c.expected);
  }
}

}  // namespace
}  // namespace warpsmith::telemetry
