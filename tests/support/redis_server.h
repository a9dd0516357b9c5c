// A Redis server of a test's own, in a folder that goes away with it.
//
//   RedisServer redis;           // as Warpsmith wants it: what it answers for is durable
//   auto store = *RedisStore::Open({.server = {.address = redis.address()}, .folder = shared});
//   redis.Signal(SIGKILL);
//   redis.Start();               // with what it had written
//
// Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/support/temporary_folder.h"

namespace warpsmith::support {

class RedisServer {
 public:
  // Of redis.conf; empty: as if it were not there.
  using Settings = std::map<std::string, std::string>;

  // Starts it, and waits until it answers. `settings` beside or instead of those Warpsmith wants;
  // "port" gives it a TCP port of its own, too.
  explicit RedisServer(const Settings& settings = {});
  ~RedisServer();

  // unix:/...
  std::string address() const;
  std::string socket() const { return folder_ / "redis.sock"; }
  // 127.0.0.1:PORT, where it has one.
  std::string tcp_address() const;
  const std::string& folder() const { return folder_.path(); }
  pid_t pid() const { return process_->pid(); }

  // After SIGKILL or SIGTERM, of which it has ended when Signal returns.
  void Start();
  void Signal(int signal);
  // One command, as text; "" of an error.
  std::string Do(const std::vector<std::string>& command) const;
  std::string Log() const;

 private:
  TemporaryFolder folder_;
  Settings settings_;
  std::unique_ptr<e2e::Process> process_;
};

// A port of 127.0.0.1 that nobody has at the moment.
int FreePort();

}  // namespace warpsmith::support
