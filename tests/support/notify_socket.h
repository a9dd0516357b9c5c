// The socket that a service manager has for what its services tell it (sd_notify(3)), of a test.
//
//   NotifySocket manager;                      // or NotifySocket manager("@warpsmith-test");
//   setenv("NOTIFY_SOCKET", manager.name().c_str(), 1);
//   REQUIRE(manager.Await("READY=1", absl::Seconds(10)));
//   CHECK(manager.Count("WATCHDOG=1", absl::Seconds(2)) >= 2);
#pragma once

#include <string>

#include "absl/time/time.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::support {

class NotifySocket {
 public:
  // `name`: an abstract one begins with '@'; "": a path in a folder of its own.
  explicit NotifySocket(const std::string& name = "");
  ~NotifySocket();
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  const std::string& name() const { return name_; }

  // The next message; "": none came in time.
  std::string Next(absl::Duration limit);
  // The next message that has this line; "": none came in time. What comes before is dropped.
  std::string Await(const std::string& line, absl::Duration limit);
  // How many messages that are this line come in the time.
  int Count(const std::string& line, absl::Duration time);
  // Drops what has come.
  void Forget();

 private:
  TemporaryFolder folder_;
  std::string name_;
  int socket_ = -1;
};

}  // namespace warpsmith::support
