#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/store/redis/connection.h"

namespace warpsmith::support {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(20);

}  // namespace

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  WS_CHECK(bind(fd, any, size) == 0 && getsockname(fd, any, &size) == 0, "no free port");
  close(fd);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(const Settings& settings)
    : settings_{{"port", "0"},
                {"unixsocket", folder_ / "redis.sock"},
                {"dir", folder_.path()},
                {"appendonly", "yes"},
                {"appendfsync", "always"},
                {"maxmemory-policy", "noeviction"},
                {"save", "\"\""},
                {"daemonize", "no"}} {
  for (const auto& [name, value] : settings) settings_[name] = value;
  signal(SIGPIPE, SIG_IGN);  // of connections to it
  std::ofstream file(folder_ / "redis.conf");
  for (const auto& [name, value] : settings_) {
    if (!value.empty()) file << name << " " << value << "\n";
  }
  file.close();
  Start();
}

RedisServer::~RedisServer() = default;

std::string RedisServer::address() const { return absl::StrCat("unix:", socket()); }

std::string RedisServer::tcp_address() const {
  return absl::StrCat("127.0.0.1:", settings_.at("port"));
}

void RedisServer::Start() {
  process_ = std::make_unique<e2e::Process>(std::vector<std::string>{
      "redis-server", folder_ / "redis.conf", "--logfile", folder_ / "redis.log"});
  const bool answers = e2e::Eventually(kStartLimit, [&] { return Do({"PING"}) == "PONG"; });
  WS_CHECK(answers, "redis-server does not start: " + Log() + process_->Errors());
}

void RedisServer::Signal(int signal) {
  process_->Signal(signal);
  if (signal == SIGKILL || signal == SIGTERM) process_->Wait(kStartLimit);
}

std::string RedisServer::Do(const std::vector<std::string>& command) const {
  store::redis::Connection connection({.address = address()}, absl::Seconds(5));
  const store::redis::Arguments arguments(command.begin(), command.end());
  const auto reply = connection.Do(arguments);
  if (!reply.ok()) return "";
  return reply->text().empty() ? absl::StrCat(reply->number()) : std::string(reply->text());
}

std::string RedisServer::Log() const {
  return base::ReadFile(folder_ / "redis.log").value_or("it wrote no log");
}

}  // namespace warpsmith::support
