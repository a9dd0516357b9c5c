// What a service tells whoever started it, in systemd's protocol (sd_notify(3)): a datagram for
// each message, to the socket that $NOTIFY_SOCKET names. Of our own, since that is all there is to
// it.
//
//   telemetry::Notifier notifier(getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
//                                getenv("WATCHDOG_PID"));
//   notifier.Ready("listening on 127.0.0.1:7400");
//   notifier.Watchdog();   // several times in each notifier.watchdog(), while all is well
//   notifier.Stopping();
//
// Threads: any. A message that cannot be sent within a second is lost: the service matters more.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace warpsmith::telemetry {

class Notifier {
 public:
  // The environment's, each null where it is not set: only main() reads it. "@name" is an abstract
  // socket. Without a socket nothing is sent; without the time, or where it is meant for another
  // process, nothing is watched.
  Notifier(const char* socket, const char* watchdog_usec, const char* watchdog_pid);
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // `status`: a line for people, which `systemctl status` shows.
  void Ready(const std::string& status) const;
  void Status(const std::string& status) const;
  void Stopping() const;
  // That a look at itself found it well. Do not call it for anything less.
  void Watchdog() const;
  // After so long without Watchdog() it is killed and started again; infinite: nobody watches.
  absl::Duration watchdog() const { return watchdog_; }

 private:
  void Send(const std::string& message) const;

  std::string address_;  // as the kernel wants it: an abstract one begins with a zero byte
  int socket_ = -1;
  absl::Duration watchdog_ = absl::InfiniteDuration();
};

}  // namespace warpsmith::telemetry
